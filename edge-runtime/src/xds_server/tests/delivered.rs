//! What is known of what proxies serve.

use super::*;

/// A fleet with one socket, of these Gateways.
fn listening(body: &'static str, gateways: &[&str]) -> Arc<Published> {
    let origins = gateways.iter().map(|name| Origin {
        kind: "Gateway".into(),
        namespace: "ns".into(),
        name: (*name).into(),
        section: Some("http".into()),
        annotations: [].into(),
    });
    let body = Body::Whole(Bytes::from_static(body.as_bytes()));
    let entry = Entry::new("tcp-80", body, origins.collect());
    serving(Snapshot::default().with(ResourceType::Listener, Arc::new(Section::new(vec![Arc::new(entry)]))))
}

/// The Gateways that each proxy serves.
fn served(deliveries: &Deliveries) -> Vec<Vec<String>> {
    let of = |delivery: &crate::state::Delivery| {
        let origins = delivery.listeners.values().flat_map(|origins| origins.iter());
        origins.map(|origin| origin.name.to_string()).collect()
    };
    deliveries.values().map(of).collect()
}

async fn until(rig: &mut Rig, wanted: &[&[&str]]) {
    let is_so = |deliveries: &Deliveries| served(deliveries) == wanted;
    let waiting = rig.deliveries.wait_for(is_so);
    let is_in_time = time::timeout(Duration::from_secs(20), waiting).await.is_ok();
    assert!(is_in_time, "not {wanted:?}: {:?}", rig.deliveries.borrow());
}

/// A proxy that has asked for its clusters and its listeners, with the versions of these that it has.
async fn opened(rig: &Rig, versions: &[(&str, &str)]) -> Proxy {
    let mut proxy = rig.open().await.unwrap();
    let clusters = proxy.next().await;
    proxy.answer(&clusters, None).await;
    let pairs = versions
        .iter()
        .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
    let listeners = DeltaDiscoveryRequest {
        initial_resource_versions: pairs.collect(),
        ..request_of(ResourceType::Listener)
    };
    proxy.requests.send(listeners).await.unwrap();
    proxy
}

#[tokio::test]
async fn a_proxy_serves_what_it_has_taken_and_no_edit_takes_that_away() {
    let mut rig = Rig::start().await;
    rig.published.send_replace(Some(listening("1", &["one"])));
    let mut proxy = opened(&rig, &[]).await;
    let first = proxy.next().await;
    assert_eq!(names(&first), ["tcp-80"]);
    assert_eq!(*rig.deliveries.borrow(), Deliveries::new(), "it hasn't answered");
    proxy.answer(&first, None).await;
    until(&mut rig, &[&["one"]]).await;

    rig.published.send_replace(Some(listening("2", &["one", "two"])));
    let second = proxy.next().await;
    assert_eq!(served(&rig.deliveries.borrow()), [["one"]], "it hasn't answered");
    proxy.answer(&second, Some("no such port")).await;
    rejected(&mut rig, 1).await;
    assert_eq!(served(&rig.deliveries.borrow()), [["one"]]);
    rig.published.send_replace(Some(listening("3", &["one", "two"])));
    let third = proxy.next().await;
    proxy.answer(&third, None).await;
    until(&mut rig, &[&["one", "two"]]).await;

    // It comes back with what it has, and needs nothing to be sent.
    let version = third.resources[0].version.clone();
    drop(proxy);
    until(&mut rig, &[]).await;
    let proxy = opened(&rig, &[("tcp-80", &version)]).await;
    until(&mut rig, &[&["one", "two"]]).await;
    drop(proxy);
    until(&mut rig, &[]).await;
}

#[tokio::test]
async fn a_proxy_that_refuses_everything_is_known_to_serve_nothing() {
    let mut rig = Rig::start().await;
    rig.published.send_replace(Some(listening("1", &["one"])));
    let mut proxy = opened(&rig, &[]).await;
    let first = proxy.next().await;
    proxy.answer(&first, Some("no")).await;
    until(&mut rig, &[&[]]).await;
    assert_eq!(rig.rejections.borrow().len(), 1);
}
