//! Connections that a chain's rules don't let in: their log tells why, as stock Envoy's does.

use std::net::SocketAddr;
use std::path::Path;

use edge_proxy::xds::Kind;
use tokio::net::TcpStream;

use crate::support::{Proxy, echo, rest, run, until};

/// A listener whose rules refuse everybody, and which tells what it does.
fn listen(proxy: &Proxy, name: &str, rules: &str, log: &Path) -> SocketAddr {
    let filters = "type.googleapis.com/envoy.extensions.filters.network";
    let yaml = format!(
        r#"
name: {name}
address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
default_filter_chain:
  filters:
  - name: rbac
    typed_config: {{"@type": {filters}.rbac.v3.RBAC, stat_prefix: r, rules: {rules}}}
  - name: tcp
    typed_config:
      "@type": {filters}.tcp_proxy.v3.TcpProxy
      stat_prefix: t
      cluster: a
      access_log:
      - name: file
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
          path: "{}"
          log_format:
            text_format_source:
              inline_string: "%UPSTREAM_CLUSTER% %CONNECTION_TERMINATION_DETAILS% %RESPONSE_CODE_DETAILS%\n"
"#,
        log.display()
    );
    proxy.put(Kind::Listener, "listener.v3.Listener", name, &yaml);
    proxy.address(name)
}

#[test]
fn a_log_tells_why_a_connection_was_not_let_in() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let folder = tempfile::tempdir().unwrap();
        let all = "{permissions: [{any: true}], principals: [{any: true}]}";
        for (name, rules, policy) in [
            ("none", "{action: ALLOW, policies: {}}".to_owned(), "none"),
            (
                "some",
                format!("{{action: DENY, policies: {{'of all': {all}}}}}"),
                "of_all",
            ),
        ] {
            let log = folder.path().join(name);
            let address = listen(&proxy, name, &rules, &log);
            assert_eq!(rest(&mut TcpStream::connect(address).await.unwrap()).await, "");
            let wanted = format!("a rbac_access_denied_matched_policy[{policy}] -\n");
            until("a line", || {
                std::fs::read_to_string(&log).is_ok_and(|lines| lines == wanted)
            })
            .await;
        }
    });
}
