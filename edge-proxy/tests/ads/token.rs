//! The token by which the proxy proves whose it is.

use std::path::Path;
use std::process::Command;

use crate::support::{Ads, Proxy, ask, certificates, free_port};
use crate::{bootstrap, configure};

const FIRST: &str = "the-first-token";
const SECOND: &str = "the-second-token";

/// The bootstrap with the filters that put a token into requests to the controller.
fn with_token(folder: &Path, bootstrap: &Path) {
    let at = folder.display();
    let secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let file = format!(
        r#"{{"resources":[{{"@type":"{secret}","name":"jwt-sa-bearer","generic_secret":{{"secret":{{"filename":"{at}/sa-token"}}}}}}]}}"#
    );
    std::fs::write(folder.join("token.json"), file).unwrap();
    let filters = format!(
        r#"
        http_filters:
        - name: envoy.filters.http.credential_injector
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector
            overwrite: true
            credential:
              name: envoy.http.injected_credentials.generic
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic
                credential: {{name: jwt-sa-bearer, sds_config: {{path_config_source: {{path: "{at}/token.json"}}}}}}
                header: Authorization
                header_value_prefix: "Bearer "
        - name: envoy.filters.http.upstream_codec
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec
"#
    );
    let text = std::fs::read_to_string(bootstrap).unwrap();
    let line = text.lines().find(|line| line.contains("explicit_http_config")).unwrap();
    let text = text.replacen(line, &format!("{line}{filters}"), 1);
    std::fs::write(bootstrap, text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_the_moment_goes_with_every_stream_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = ([127, 0, 0, 1], free_port()).into();
    let path = bootstrap(folder.path(), ads.address, admin);
    with_token(folder.path(), &path);
    std::fs::write(folder.path().join("sa-token"), FIRST).unwrap();
    let proxy = Proxy::start(&path, admin);
    let mut session = ads.session().await;
    assert_eq!(session.authorization, Some(format!("Bearer {FIRST}")));
    configure(&mut session, ([127, 0, 0, 1], 1).into(), free_port()).await;
    // The kubelet replaces the file; the stream that is there goes on, the next one has the new token.
    std::fs::write(folder.path().join("sa-token"), SECOND).unwrap();
    drop(session);
    let session = ads.session().await;
    assert_eq!(session.authorization, Some(format!("Bearer {SECOND}")));
    let dump = tokio::task::spawn_blocking(move || ask(admin, "GET", "/config_dump"));
    let (status, dump) = dump.await.unwrap().unwrap();
    assert_eq!(status, 200);
    assert!(dump.contains("jwt-sa-bearer"), "{dump}");
    assert!(!dump.contains(FIRST) && !dump.contains(SECOND), "a token in a dump");
    drop(proxy);
}

#[test]
fn a_cluster_that_isnt_the_controllers_has_no_token() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let admin = ([127, 0, 0, 1], free_port()).into();
    let path = bootstrap(folder.path(), ([127, 0, 0, 1], 1).into(), admin);
    with_token(folder.path(), &path);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace("cluster_name: xds_cluster}}", "cluster_name: another}}"),
    )
    .unwrap();
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_edge-proxy"));
    let output = proxy.args(["--mode", "validate", "-c"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(said.contains("injected only for the cluster of ads_config"), "{said}");
}
