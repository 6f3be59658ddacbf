//! What the service of global rate limits is told, and who is told nothing.

use super::*;
use crate::{
    certs::RATE_LIMIT,
    xds_server::limits::{self, Domains},
};
use edge_xds::limits::type_url;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

fn telling(domains: &[(&str, &'static str)]) -> Arc<Published> {
    let limits = domains
        .iter()
        .map(|(domain, body)| ((*domain).to_owned(), Bytes::from_static(body.as_bytes())));
    Arc::new(Published {
        limits: Arc::new(limits.collect()),
        ..Published::default()
    })
}

fn ask(nonce: &str, type_url: String) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url,
        response_nonce: nonce.to_owned(),
        ..Default::default()
    }
}

type Opened = (mpsc::Sender<DiscoveryRequest>, tonic::Streaming<DiscoveryResponse>);

async fn open(folder: &Path, secret: &str, address: SocketAddr) -> Result<Opened, Status> {
    let channel = connect(folder, secret, address).await.unwrap();
    let (requests, receiver) = mpsc::channel(8);
    requests.send(ask("", type_url())).await.unwrap();
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let responses = client
        .stream_aggregated_resources(ReceiverStream::new(receiver))
        .await?;
    Ok((requests, responses.into_inner()))
}

fn bodies(response: &DiscoveryResponse) -> Vec<Vec<u8>> {
    response
        .resources
        .iter()
        .map(|resource| resource.value.clone())
        .collect()
}

#[tokio::test]
async fn the_rate_limit_service_is_told_all_domains_whenever_one_changes() {
    let folder = tempfile::tempdir().unwrap();
    ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = ServerTls::read(TlsFiles::below(folder.path(), CONTROLLER)).unwrap();
    let (published, receiver) = watch::channel(None);
    let domains = Domains {
        published: receiver,
        namespace: "system".into(),
    };
    let _task = Task::spawn("limits", |stop| limits::serve(listener, tls, domains, stop));
    let refused = open(folder.path(), CONTROLLER, address).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);

    let (requests, mut responses) = open(folder.path(), RATE_LIMIT, address).await.unwrap();
    published.send_replace(Some(telling(&[("ns/gw/http", "a")])));
    let first = responses.message().await.unwrap().unwrap();
    assert_eq!(bodies(&first), [b"a"]);
    assert_eq!(first.type_url, type_url());
    // Two changes while the answer is under way are one, and the same state again is none.
    published.send_replace(Some(telling(&[("ns/gw/http", "b")])));
    published.send_replace(Some(telling(&[("ns/gw/http", "c"), ("ns/p", "d")])));
    requests.send(ask(&first.nonce, type_url())).await.unwrap();
    let second = responses.message().await.unwrap().unwrap();
    assert_eq!(bodies(&second), [b"c", b"d"]);
    requests.send(ask(&second.nonce, type_url())).await.unwrap();
    published.send_replace(Some(telling(&[("ns/gw/http", "c"), ("ns/p", "d")])));
    published.send_replace(Some(telling(&[])));
    let third = responses.message().await.unwrap().unwrap();
    assert!(third.resources.is_empty(), "what is taken back goes");
    requests.send(ask(&third.nonce, "another".to_owned())).await.unwrap();
    assert_eq!(responses.message().await.unwrap_err().code(), Code::InvalidArgument);
}
