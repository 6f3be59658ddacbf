//! Services that answer and don't, how they are reached, and when they are asked again.

use super::{
    messages::{OneRequest, OneResponse},
    service::Services,
    *,
};
use crate::{
    state::{ServiceTerms, ServiceTls},
    task::Task,
};
use edge_translate::{api::SecretData, config::parse, load::Source};
use edge_xds::hooks::{Answer, Hook, Question};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use prost::Message as _;
use std::{
    convert::Infallible,
    future::Ready,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};
use tokio::{
    net::{TcpListener, UnixListener},
    time,
};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::{Certificate, Identity, Server, ServerTlsConfig},
};
use tonic_prost::ProstCodec;

/// A service that names the statistics of every cluster, once so many calls have failed.
#[derive(Clone)]
struct Peer {
    fails: Arc<AtomicUsize>,
    code: Code,
    calls: Arc<AtomicUsize>,
}

impl Peer {
    fn new(fails: usize, code: Code) -> Self {
        Self {
            fails: Arc::new(fails.into()),
            code,
            calls: Arc::default(),
        }
    }
}

impl NamedService for Peer {
    const NAME: &'static str = "edgegateway.extension.EdgeGatewayExtension";
}

impl tower::Service<http::Request<Body>> for Peer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert!(request.uri().path().ends_with("/PostClusterModify"), "{request:?}");
        let peer = self.clone();
        async move { Ok(Grpc::new(ProstCodec::default()).unary(peer, request).await) }.boxed()
    }
}

impl UnaryService<OneRequest> for Peer {
    type Response = OneResponse;
    type Future = Ready<Result<Response<OneResponse>, Status>>;

    fn call(&mut self, request: Request<OneRequest>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = self
            .fails
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if fails.is_ok() {
            return std::future::ready(Err(Status::new(self.code, "not now")));
        }
        let mut cluster = Cluster::decode(request.into_inner().resource.unwrap()).unwrap();
        cluster.alt_stat_name = "told".repeat(100);
        let resource = Some(cluster.encode_to_vec().into());
        std::future::ready(Ok(Response::new(OneResponse { resource })))
    }
}

/// A service as a configuration says, with what stands beside the address.
fn terms(service: &str, more: &str) -> ServiceTerms {
    let text = format!(
        "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nextensionManager:\n  name: x\n  \
         hooks: {{ xdsTranslator: {{ post: [Cluster] }} }}\n  service: {{ {service} }}\n{more}"
    );
    let config = parse(&Source {
        name: "test",
        text: &text,
    });
    ServiceTerms {
        manager: config.unwrap().extensions().next().unwrap().clone(),
        tls: None,
    }
}

fn question() -> Question {
    let cluster = Cluster {
        name: "c".into(),
        ..Cluster::default()
    };
    Question::One {
        hook: Hook::Cluster,
        resource: cluster.encode_to_vec().into(),
        hostnames: Box::default(),
        custom: None,
    }
}

async fn ask(terms: ServiceTerms) -> Outcome {
    Services::new(&[terms]).ask(&question(), &Metrics::default()).await
}

/// What the statistics are called in an answer.
fn told(outcome: &Outcome) -> String {
    match &outcome.answer {
        Some(Answer::One(bytes)) => Cluster::decode(bytes.clone()).unwrap().alt_stat_name,
        other => panic!("{other:?}: {:?}", outcome.problem),
    }
}

fn why(outcome: &Outcome) -> (Cause, String) {
    let problem = outcome.problem.as_ref().unwrap();
    (problem.cause, problem.text.to_string())
}

async fn serve(peer: Peer) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::builder().add_service(peer);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    port
}

#[tokio::test]
async fn a_service_is_tried_again_after_codes_that_pass_and_after_no_others() {
    let peer = Peer::new(2, Code::Unavailable);
    let port = serve(peer.clone()).await;
    let ip = |more: &str| format!("ip: {{ address: 127.0.0.1, port: {port} }}{more}");
    let outcome = ask(terms(&ip(", retry: { initialBackoff: 1ms }"), "")).await;
    assert!(told(&outcome).starts_with("told"));
    assert_eq!(peer.calls.load(Ordering::Relaxed), 3);
    peer.fails.store(9, Ordering::Relaxed);
    let outcome = ask(terms(&ip(", retry: { maxAttempts: 2, initialBackoff: 1ms }"), "")).await;
    assert_eq!(peer.calls.load(Ordering::Relaxed), 5);
    assert_eq!((outcome.answer.clone(), why(&outcome).0), (None, Cause::Unreachable));
    let outcome = ask(terms(
        &ip(", retry: { RetryableStatusCodes: [ABORTED] }"),
        "  failOpen: true\n",
    ))
    .await;
    assert_eq!(peer.calls.load(Ordering::Relaxed), 6);
    assert_eq!(told(&outcome), "", "it is as it was");

    let refuses = Peer::new(9, Code::Internal);
    let port = serve(refuses.clone()).await;
    let outcome = ask(terms(&format!("host: 127.0.0.1, port: {port}"), "")).await;
    assert_eq!(
        why(&outcome),
        (
            Cause::Refused,
            "the extension service x answers Internal: not now".to_owned()
        )
    );
    assert_eq!(refuses.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_message_beyond_the_size_is_none() {
    let port = serve(Peer::new(0, Code::Ok)).await;
    let service = format!("ip: {{ address: 127.0.0.1, port: {port} }}");
    let outcome = ask(terms(&service, "  maxMessageSize: 300\n")).await;
    assert_eq!(outcome.answer, None);
    assert!(why(&outcome).1.contains("300"), "{:?}", why(&outcome));
    assert!(told(&ask(terms(&service, "  maxMessageSize: 1Ki\n")).await).starts_with("told"));
}

#[tokio::test]
async fn a_service_is_reached_by_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    let incoming = UnixListenerStream::new(UnixListener::bind(&path).unwrap());
    tokio::spawn(
        Server::builder()
            .add_service(Peer::new(0, Code::Ok))
            .serve_with_incoming(incoming),
    );
    let outcome = ask(terms(&format!("unix: {{ path: {} }}", path.display()), "")).await;
    assert!(told(&outcome).starts_with("told"));
}

#[tokio::test]
async fn a_service_is_reached_over_tls_by_those_it_knows() {
    let made = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        (certificate.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let (server, client, other) = (made("x.example"), made("edge"), made("x.example"));
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server.0, &server.1))
        .client_ca_root(Certificate::from_pem(&client.0));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Server::builder()
        .tls_config(tls)
        .unwrap()
        .add_service(Peer::new(0, Code::Ok));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let secret = |text: &str| SecretData::new(text.as_bytes());
    let with = |authority: &(String, String), identity: Option<&(String, String)>| ServiceTerms {
        tls: Some(Ok(ServiceTls {
            authorities: secret(&authority.0),
            identity: identity.map(|(certificate, key)| (secret(certificate), secret(key))),
        })),
        ..terms(
            &format!(
                "hostname: x.example, ip: {{ address: 127.0.0.1, port: {port} }}, retry: {{ maxAttempts: 1 }}, \
                 tls: {{ certificateRef: {{ name: ca }} }}"
            ),
            "",
        )
    };
    assert!(told(&ask(with(&server, Some(&client))).await).starts_with("told"));
    for stranger in [
        with(&other, Some(&client)),
        with(&server, None),
        with(&server, Some(&other)),
    ] {
        let outcome = ask(stranger).await;
        assert_eq!(outcome.answer, None);
        assert_eq!(why(&outcome).0, Cause::Unreachable, "{:?}", why(&outcome));
    }
    let unknown = ServiceTerms {
        tls: Some(Err("there is no Secret".to_owned())),
        ..with(&server, None)
    };
    assert!(why(&ask(unknown).await).1.contains("there is no Secret"));
}

#[tokio::test]
async fn what_failed_is_asked_again_and_what_is_answered_is_told_once() {
    let peer = Peer::new(1, Code::Internal);
    let port = serve(peer.clone()).await;
    let (asked, questions) = watch::channel(Extensions::default());
    let (world, mut told_world) = mpsc::channel(8);
    let metrics = Arc::new(Metrics::default());
    let _task = Task::spawn("extensions", |stop| run(questions, world, Arc::clone(&metrics), stop));
    let key = question().key();
    let one = PendingQuestion {
        number: 7,
        question: Arc::new(question()),
    };
    asked.send_replace(Extensions {
        services: [terms(&format!("ip: {{ address: 127.0.0.1, port: {port} }}"), "")].into(),
        questions: [(key, one)].into(),
    });
    let mut next = async || match time::timeout(Duration::from_secs(30), told_world.recv()).await {
        Ok(Some(Input::Answers(mut answers))) => answers.remove(0),
        other => panic!("{other:?}"),
    };
    let (of, number, outcome) = next().await;
    assert_eq!((of, number, outcome.answer), (key, 7, None));
    let (_, _, outcome) = next().await;
    assert!(told(&outcome).starts_with("told"));
    asked.send_modify(|asked| asked.questions.clear());
    assert_eq!(peer.calls.load(Ordering::Relaxed), 2);
}

/// The files for those who write services say what we send.
#[test]
fn the_description_of_the_service_names_what_is_called() {
    let service = include_str!("../../proto/extension/service.proto");
    let hooks = [
        Hook::Route,
        Hook::VirtualHost,
        Hook::HttpListener,
        Hook::Cluster,
        Hook::Endpoints,
        Hook::Translation,
    ];
    for hook in hooks {
        let (name, method) = messages::path(hook)[1..].split_once('/').unwrap();
        assert_eq!(name, "edgegateway.extension.EdgeGatewayExtension");
        assert!(
            service.contains(&format!("rpc {method}({method}Request) returns ({method}Response);")),
            "{method}"
        );
    }
}
