//! A server of secrets beside the proxies (SDS): certificates and authorities that the controller never sees.

use crate::{
    backends,
    resources::{backend_with, gateway, route},
};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Site, Stack},
    tls::Authority,
};
use envoy_types::{
    pb::envoy::{
        config::core::v3::{DataSource, data_source::Specifier},
        extensions::transport_sockets::tls::v3::{CertificateValidationContext, Secret, TlsCertificate, secret::Type},
        service::{
            discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse},
            secret::v3::secret_discovery_service_server::{SecretDiscoveryService, SecretDiscoveryServiceServer},
        },
    },
    util::pack_any,
};
use futures_util::{Stream, StreamExt as _, stream};
use std::{collections::BTreeMap, fs, net::Ipv4Addr, path::Path, pin::Pin};
use tokio::{
    net::UnixListener,
    runtime::{Builder, Runtime},
    sync::watch,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Secrets by name.
type Secrets = BTreeMap<&'static str, Type>;

/// A server that says what it is told to. It ends when it is dropped.
struct SecretServer {
    secrets: watch::Sender<Secrets>,
    _runtime: Runtime,
}

impl SecretServer {
    fn start(socket: &Path) -> Result<Self> {
        let secrets = watch::Sender::new(Secrets::new());
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let service = SecretDiscoveryServiceServer::new(Service {
            secrets: secrets.subscribe(),
        });
        // That of one before may still lie there.
        let _ = fs::remove_file(socket);
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(socket)?
        };
        let serving = Server::builder().add_service(service);
        runtime.spawn(serving.serve_with_incoming(UnixListenerStream::new(listener)));
        Ok(Self {
            secrets,
            _runtime: runtime,
        })
    }

    fn say(&self, name: &'static str, secret: Type) {
        self.secrets.send_modify(|secrets| {
            secrets.insert(name, secret);
        });
    }
}

fn text(text: &str) -> Option<DataSource> {
    Some(DataSource {
        specifier: Some(Specifier::InlineString(text.to_owned())),
        ..DataSource::default()
    })
}

fn certificate(authority: &Authority, host: &str) -> Result<Type> {
    let both = authority.certificate_and_key(host)?;
    Ok(Type::TlsCertificate(TlsCertificate {
        certificate_chain: text(&both),
        private_key: text(&both),
        ..TlsCertificate::default()
    }))
}

fn roots(authority: &Authority) -> Type {
    Type::ValidationContext(CertificateValidationContext {
        trusted_ca: text(authority.pem()),
        ..CertificateValidationContext::default()
    })
}

struct Service {
    secrets: watch::Receiver<Secrets>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SecretDiscoveryService for Service {
    type StreamSecretsStream = Answers<DiscoveryResponse>;
    type DeltaSecretsStream = Answers<DeltaDiscoveryResponse>;

    /// Says all that is asked for, and again whenever it is another.
    async fn stream_secrets(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamSecretsStream>, Status> {
        enum Event {
            Asked(Vec<String>),
            Changed(Secrets),
        }
        let asked = request
            .into_inner()
            .filter_map(async |request| Some(Event::Asked(request.ok()?.resource_names)));
        let mut now = self.secrets.clone();
        now.mark_changed();
        let changed = stream::unfold(now, async |mut now| {
            now.changed().await.ok()?;
            let secrets = now.borrow_and_update().clone();
            Some((Event::Changed(secrets), now))
        });
        let mut said = None;
        let (mut names, mut secrets) = (Vec::new(), Secrets::new());
        let answers = stream::select(asked, changed).filter_map(move |event| {
            match event {
                Event::Asked(all) => names = all,
                Event::Changed(all) => secrets = all,
            }
            let found = secrets
                .iter()
                .filter(|(name, _)| names.iter().any(|asked| asked == *name));
            let found = found.map(|(name, secret)| {
                pack_any(Secret {
                    name: (*name).to_owned(),
                    r#type: Some(secret.clone()),
                })
            });
            let resources: Vec<_> = found.collect();
            // What was acknowledged isn't said again.
            let is_news = !resources.is_empty() && said.as_ref() != Some(&resources);
            said = Some(resources.clone());
            let answer = DiscoveryResponse {
                version_info: format!("{:?}", std::time::Instant::now()),
                nonce: "any".to_owned(),
                type_url: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret".to_owned(),
                resources,
                ..DiscoveryResponse::default()
            };
            std::future::ready(is_news.then_some(Ok(answer)))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn delta_secrets(
        &self,
        _: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaSecretsStream>, Status> {
        Err(Status::unimplemented("the state of the world only, as most servers"))
    }

    async fn fetch_secrets(&self, _: Request<DiscoveryRequest>) -> Result<Response<DiscoveryResponse>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

/// A Secret that points to the server.
fn pointer(name: &str, socket: &Path) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: default }}\ntype: gateway.edge/sds\n\
         stringData: {{ url: {}, secretName: {name} }}\n",
        socket.display()
    )
}

pub(crate) fn secrets_come_from_a_server_beside_the_proxy(plane: &DataPlane) -> Result<()> {
    const HOST: &str = "www.example.com";
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    ensure!(
        config.contains("enableBackend: true"),
        "the quickstart's configuration changed"
    );
    let config = config.replace("enableBackend: true", "enableBackend: true\n  enableSDSSecretRef: true");
    fs::write(site.config(), config)?;
    let socket = site.path("sds.sock");
    let stack = Stack::start_at(site, plane)?;
    let (authority, other, [port]) = (Authority::new()?, Authority::new()?, ports::free()?);
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let backend = authority.server("backend.example.com")?;
    let tls = "  tls: { sni: backend.example.com, caCertificateRefs: [{ group: '', kind: Secret, name: roots }] }\n";
    let listener =
        format!("{{ name: https, protocol: HTTPS, port: {port}, tls: {{ certificateRefs: [{{ name: www }}] }} }}");
    let resources = [
        gateway("secure", &[listener]),
        route("HTTPRoute", "secure", "{ name: secure }", "", "answering"),
        backend_with("answering", backends::http_over_tls(&backend)?, tls),
        pointer("www", &socket),
        pointer("roots", &socket),
    ];
    stack.put("secure.yaml", &resources.concat())?;
    let answers = |what: &str, trusted: &Authority, status: u16| {
        let seen = wait_for(what, PATIENCE, || {
            let answer = trusted.get(address, HOST, "/");
            Ok(answer.is_ok_and(|answer| answer.status == status).then_some(()))
        });
        seen.map(drop).with_context(|| stack.logs())
    };

    // Nobody is answered without a certificate; the rest is served.
    let server = SecretServer::start(&socket)?;
    ensure!(stack.get(HOST, "/")?.status == 200);
    ensure!(
        authority.get(address, HOST, "/").is_err(),
        "there is no certificate yet"
    );

    // Then with that of the server; a backend that the server's authorities didn't sign is not spoken to.
    server.say("www", certificate(&authority, HOST)?);
    server.say("roots", roots(&other));
    answers("a backend that isn't trusted", &authority, 503)?;
    server.say("roots", roots(&authority));
    answers("a backend that is trusted", &authority, 200)?;

    // A new one takes its place, and it stays when the server goes.
    server.say("www", certificate(&other, HOST)?);
    answers("the next certificate", &other, 200)?;
    drop(server);
    answers("a certificate of a server that is gone", &other, 200)?;

    // The next server is found again.
    let server = SecretServer::start(&socket)?;
    server.say("roots", roots(&authority));
    server.say("www", certificate(&authority, HOST)?);
    answers("the certificate of the next server", &authority, 200)
}
