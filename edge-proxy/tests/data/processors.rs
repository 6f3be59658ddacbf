//! Services that see requests and responses, and what routes say of them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use edge_proxy::config::cluster::UpstreamProtocol;
use edge_proxy::config::listener::Listener;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Shown;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Said;
use envoy_types::pb::envoy::service::ext_proc::v3::{HeadersResponse, ProcessingRequest, ProcessingResponse};
use http::{HeaderMap, HeaderValue};
use prost::Message as _;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::filters::{compiled, compiled_with};
use crate::http2_backends::{self, Answered};
use crate::support::{Backend, Config, Proxy, Reply, cluster, entry, get, nobody, run, snapshot_with, table, until};

/// Nobody is at the service that the chain asks.
const CHAIN: &str = r#"
- name: envoy.filters.http.ext_proc
  typed_config:
    "@type": HTTP/ext_proc.v3.ExternalProcessor
    grpc_service: {envoy_grpc: {cluster_name: c1}}
    processing_mode: {response_header_mode: SKIP}
    message_timeout: 20s
- {name: envoy.filters.http.router, typed_config: {"@type": HTTP/router.v3.Router}}
"#;

const ROUTES: &str = r#"
- match: {path: /chain}
  route: {cluster: c0}
- match: {path: /may-fail}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.ext_proc:
      "@type": HTTP/ext_proc.v3.ExtProcPerRoute
      overrides: {failure_mode_allow: true}
- match: {path: /unseen}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.ext_proc:
      "@type": HTTP/ext_proc.v3.ExtProcPerRoute
      overrides: {processing_mode: {request_header_mode: SKIP, response_header_mode: SKIP}}
- match: {path: /elsewhere}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.ext_proc:
      "@type": HTTP/ext_proc.v3.ExtProcPerRoute
      overrides:
        grpc_service: {envoy_grpc: {cluster_name: c2, authority: other.example}}
        grpc_initial_metadata: [{key: x-tenant, value: t}]
"#;

type Stage = (Proxy, Backend, UnboundedReceiver<Answered>, watch::Sender<()>);

async fn start() -> Stage {
    start_with(compiled(CHAIN, ROUTES)).await
}

async fn start_with(listener: Arc<Listener>) -> Stage {
    let backend = Backend::named("a").await;
    let (leave, leaves) = watch::channel(());
    let (service, shown) = http2_backends::backend(leaves).await;
    let spoken = |id| {
        let mut cluster = cluster(id);
        cluster.protocol = UpstreamProtocol::Http2;
        cluster
    };
    let clusters = vec![
        entry(0, cluster(0), &[backend.address]),
        entry(1, spoken(1), &[nobody()]),
        entry(2, spoken(2), &[service]),
    ];
    let snapshot = snapshot_with(listener, table("*", Vec::new()), clusters);
    (Proxy::start(Config { snapshot, workers: 1 }), backend, shown, leave)
}

#[test]
fn a_route_says_what_a_service_sees_and_whether_it_may_fail() {
    run(async {
        let (proxy, backend, ..) = start().await;
        for (path, status) in [("/chain", 500), ("/may-fail", 200), ("/unseen", 200)] {
            assert_eq!(proxy.get("h", path).await.status, status, "{path}");
        }
        assert_eq!(backend.requests(), 2);
    });
}

#[test]
fn a_route_says_which_service_is_asked_and_how() {
    run(async {
        let (proxy, _backend, mut shown, _leave) = start().await;
        let mut client = proxy.http1().await;
        let asked = client.get("h", "/elsewhere");
        let served = async {
            let Answered { request, mut answer } = shown.recv().await.unwrap();
            assert_eq!(
                request.uri().authority().map(|name| name.as_str()),
                Some("other.example")
            );
            assert_eq!(request.headers()["x-tenant"], "t");
            let mut body = request.into_body();
            let said = body.data().await.unwrap().unwrap();
            let message = ProcessingRequest::decode(&said[5..]).unwrap();
            assert!(matches!(message.request, Some(Shown::RequestHeaders(_))), "{message:?}");
            let go_on = ProcessingResponse {
                response: Some(Said::RequestHeaders(HeadersResponse::default())),
                ..ProcessingResponse::default()
            };
            answer.send_data(framed(&go_on.encode_to_vec()), false).unwrap();
            (body, answer)
        };
        let (reply, _stream) = tokio::join!(asked, served);
        assert_eq!((reply.status, reply.text()), (200, "a"));
    });
}

/// The client has its head by then; that it breaks off is nobody's doing but the service's, and logs say so.
#[test]
fn a_response_that_a_service_breaks_off_is_logged_as_what_it_is() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let chain = CHAIN.replace("cluster_name: c1", "cluster_name: c2").replace(
            "response_header_mode: SKIP",
            "request_header_mode: SKIP, response_body_mode: STREAMED",
        );
        let routes = "- match: {prefix: /}\n  route: {cluster: c0}";
        let logs = format!(
            "access_log: [{{name: f, typed_config: {{\"@type\": \
             type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: {log:?}, log_format: \
             {{text_format_source: {{inline_string: \"%RESPONSE_CODE% %RESPONSE_FLAGS% \
             %RESPONSE_CODE_DETAILS%\\n\"}}}}}}}}]"
        );
        let (proxy, _backend, mut shown, _leave) = start_with(compiled_with(&chain, routes, &logs)).await;
        let mut client = proxy.http1().await;
        let served = async {
            let Answered { request, mut answer } = shown.recv().await.unwrap();
            let mut body = request.into_body();
            let go_on = ProcessingResponse {
                response: Some(Said::ResponseHeaders(HeadersResponse::default())),
                ..ProcessingResponse::default()
            };
            body.data().await.unwrap().unwrap();
            answer.send_data(framed(&go_on.encode_to_vec()), false).unwrap();
            body.data().await.unwrap().unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("13"));
            trailers.insert("grpc-message", HeaderValue::from_static("broken"));
            answer.send_trailers(trailers).unwrap();
            body
        };
        let (response, _body) = tokio::join!(client.0.send_request(get("h", "/")), served);
        // The end may come with the head.
        if let Ok(response) = response {
            assert_eq!(response.status(), 200);
            assert!(Reply::of(response).await.is_err());
        }
        let told = || std::fs::read_to_string(&log).unwrap_or_default();
        until("it is logged", || !told().is_empty()).await;
        assert_eq!(told(), "200 - ext_proc_error_gRPC_error_13{broken}\n");
    });
}

fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap());
    out.extend_from_slice(message);
    out.freeze()
}
