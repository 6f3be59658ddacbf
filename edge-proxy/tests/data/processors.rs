//! Services that see requests and responses, and what routes say of them.

use bytes::{BufMut, Bytes, BytesMut};
use edge_proxy::config::cluster::UpstreamProtocol;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Shown;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Said;
use envoy_types::pb::envoy::service::ext_proc::v3::{HeadersResponse, ProcessingRequest, ProcessingResponse};
use prost::Message as _;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::filters::compiled;
use crate::http2_backends::{self, Answered};
use crate::support::{Backend, Config, Proxy, cluster, entry, nobody, run, snapshot_with, table};

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

async fn start() -> (Proxy, Backend, UnboundedReceiver<Answered>, watch::Sender<()>) {
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
    let snapshot = snapshot_with(compiled(CHAIN, ROUTES), table("*", Vec::new()), clusters);
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

fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap());
    out.extend_from_slice(message);
    out.freeze()
}
