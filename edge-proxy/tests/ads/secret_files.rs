//! Secrets in files, which are replaced without a word of any server.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::secrets::{Identity, SECRET};
use crate::support::{Proxy, backend, free_port, wait_for};

/// Two listeners whose certificates are in files.
fn bootstrap(folder: &Path, [admin, inline, named]: [SocketAddr; 3]) -> PathBuf {
    let at = |address: SocketAddr| {
        format!(
            "{{socket_address: {{address: 127.0.0.1, port_value: {}}}}}",
            address.port()
        )
    };
    let listener = |name: &str, address: SocketAddr| {
        format!(
            r#"
  - name: {name}
    address: {}
    filter_chains:
    - filters: [{{name: tcp_proxy, typed_config: {{
        "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: a}}}}]
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificate_sds_secret_configs:
            - {{name: mine, sds_config: {{path_config_source: {{path: "{}/{name}.json"}}}}}}"#,
            at(address),
            folder.display()
        )
    };
    let text = format!(
        r#"
admin: {{address: {}}}
static_resources:
  clusters:
  - name: a
    type: STATIC
    load_assignment: {{cluster_name: a, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {}}}}}]}}]}}
  listeners:{}{}
"#,
        at(admin),
        at(backend("here")),
        listener("inline", inline),
        listener("named", named)
    );
    let file = folder.join("bootstrap.yaml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Puts a file in the place of another as a whole.
fn replace(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

/// A secret as a file has it.
fn secret(certificate: &str, key: &str) -> String {
    format!(
        r#"{{"resources":[{{"@type":"{SECRET}","name":"mine","tls_certificate":{{
        "certificate_chain":{certificate},"private_key":{key}}}}}]}}"#
    )
}

fn inline(identity: &Identity) -> String {
    let text = |pem: &str| format!(r#"{{"inline_string":{pem:?}}}"#);
    secret(&text(&identity.certificate), &text(&identity.key))
}

/// Swaps a folder for another as kubelet does.
fn swap(folder: &Path, version: &str, identity: &Identity) {
    let files = folder.join(version);
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("tls.crt"), &identity.certificate).unwrap();
    std::fs::write(files.join("tls.key"), &identity.key).unwrap();
    symlink(&files, folder.join("new")).unwrap();
    std::fs::rename(folder.join("new"), folder.join("data")).unwrap();
}

#[tokio::test]
async fn certificates_in_files_are_shown_as_soon_as_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (one, other, third) = (Identity::new(), Identity::new(), Identity::new());
    replace(at, "inline.json", &inline(&one));
    swap(at, "1", &one);
    let file = |name: &str| format!(r#"{{"filename":"{}/data/{name}"}}"#, at.display());
    replace(at, "named.json", &secret(&file("tls.crt"), &file("tls.key")));
    let addresses = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let [admin, in_line, named] = addresses;
    let _proxy = Proxy::start(&bootstrap(at, addresses), admin);
    wait_for(admin, "/ready", 200, "LIVE").await;
    one.until_shown(in_line).await;
    one.until_shown(named).await;

    replace(at, "inline.json", &inline(&other));
    other.until_shown(in_line).await;
    assert!(!one.is_shown(in_line) && one.is_shown(named));
    swap(at, "2", &other);
    other.until_shown(named).await;

    // What can't be read changes nothing, and keeps nothing else from changing.
    replace(at, "inline.json", "{");
    swap(at, "3", &third);
    third.until_shown(named).await;
    assert!(other.is_shown(in_line));
    replace(at, "inline.json", &inline(&third));
    third.until_shown(in_line).await;
}
