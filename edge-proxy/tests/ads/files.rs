//! Files that a listener needs and that nobody has put there yet.

use std::net::SocketAddr;

use e2e::mmdb::Database;
use serde_json::json;

use super::{
    Ads, LISTENER, Proxy, ROUTES, backend, bootstrap, certificates, free_port, give_backend, listener, routes, wait_for,
};

/// Rejected until the database is there and whole, then served without another change; stock Envoy rejects it for good.
#[tokio::test]
async fn a_listener_waits_for_its_database() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let backend = backend("served");
    let mut ads = Ads::start(folder.path(), 0).await;
    let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (admin, front) = (address(), address());
    let proxy = Proxy::start(&bootstrap(folder.path(), ads.address, admin), admin);
    let mut session = ads.session().await;
    give_backend(&mut session, backend).await;
    let path = folder.path().join("places.mmdb");
    let filter = format!(
        "      - name: envoy.filters.http.geoip
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.http.geoip.v3.Geoip
          provider:
            name: maxmind
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.geoip_providers.maxmind.v3.MaxMindConfig
              country_db_path: {}
              common_provider_config: {{geo_field_keys: {{country: x-country}}}}
      - name: router",
        path.display()
    );
    let resource = listener(front.port()).replace("      - name: router", &filter);
    let said = session
        .push(LISTENER, &[("tcp-80", "1", resource.clone())], &[])
        .await
        .error_detail
        .expect("a NACK")
        .message;
    assert!(said.contains("country_db_path: cannot read"), "{said}");
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;

    // Half a database is none.
    let database = Database::new("GeoLite2-Country").with("192.0.2.0/24", &json!({"country": {"iso_code": "NZ"}}));
    let bytes = database.unwrap().bytes().unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    wait_for(
        proxy.admin,
        "/stats",
        200,
        "listener_manager.listener_create_failure: 2",
    )
    .await;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(session.request(ROUTES).await.resource_names_subscribe, ["r"]);
    assert_eq!(session.request(LISTENER).await.resource_names_subscribe, ["tcp-80"]);
    session.push(ROUTES, &[("r", "1", routes("a"))], &[]).await;
    wait_for(front, "/", 200, "served").await;
    let again = session.push(LISTENER, &[("tcp-80", "1", resource)], &[]).await;
    assert!(again.error_detail.is_none());
}
