//! What our proxy and stock Envoy are told: the same static bootstrap.

use super::peer::{Logs, Setup, Size, Speech};
use edge_xds::lower::access_log::FIELDS;
use std::fmt::Write as _;

const PACKAGE: &str = "type.googleapis.com/envoy.extensions";

/// One listener, one cluster with one endpoint, and as many routes as are wanted.
pub(super) fn bootstrap(setup: &Setup) -> String {
    let (front, back, admin) = (setup.front, setup.back, setup.admin);
    let (tls, log, hosts) = (tls(setup), log(setup), hosts(setup.size));
    let codec = match setup.speech {
        Speech::Http1 | Speech::Tls(_) => "HTTP1",
        Speech::Http2 | Speech::Grpc => "HTTP2",
    };
    let protocol = match setup.speech {
        Speech::Grpc => protocol(),
        _ => String::new(),
    };
    format!(
        r#"admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {admin} }} }} }}
static_resources:
  listeners:
  - name: front
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {front} }} }}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": {PACKAGE}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          codec_type: {codec}
{log}          route_config:
            name: front
            virtual_hosts:
{hosts}          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": {PACKAGE}.filters.http.router.v3.Router }}
{tls}  clusters:
  - name: back
    type: STATIC
    connect_timeout: 1s
{protocol}    load_assignment:
      cluster_name: back
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {back} }} }} }}
"#
    )
}

fn tls(setup: &Setup) -> String {
    if !matches!(setup.speech, Speech::Tls(_)) {
        return String::new();
    }
    let pem = setup.certificate();
    let pem = pem.display();
    format!(
        r#"      transport_socket:
        name: tls
        typed_config:
          "@type": {PACKAGE}.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_params: {{ tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3 }}
            tls_certificates:
            - certificate_chain: {{ filename: {pem} }}
              private_key: {{ filename: {pem} }}
"#
    )
}

fn log(setup: &Setup) -> String {
    if setup.logs == Logs::No {
        return String::new();
    }
    let mut text = format!(
        r#"          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": {PACKAGE}.access_loggers.file.v3.FileAccessLog
              path: {}
              log_format:
                json_format:
"#,
        setup.log().display()
    );
    for (name, operator) in FIELDS {
        // Writing to a String can't fail.
        let _ = writeln!(text, "                  \"{name}\": \"{operator}\"");
    }
    text
}

fn hosts(size: Size) -> String {
    let route = |path: &str| format!("{{ match: {{ {path} }}, route: {{ cluster: back }} }}");
    let mut text = String::new();
    match size {
        Size::Any => {
            let route = route("prefix: \"/\"");
            let _ = writeln!(
                text,
                "            - {{ name: all, domains: [\"*\"], routes: [ {route} ] }}"
            );
        }
        Size::Routes(count) => {
            text.push_str("            - name: all\n              domains: [\"*\"]\n              routes:\n");
            for number in 0..count {
                let _ = writeln!(text, "              - {}", route(&format!("path: /r{number}")));
            }
        }
        Size::Hosts(count) => {
            let route = route("prefix: \"/\"");
            for number in 0..count {
                let _ = writeln!(
                    text,
                    "            - {{ name: h{number}, domains: [h{number}.example.com], routes: [ {route} ] }}"
                );
            }
        }
    }
    text
}

fn protocol() -> String {
    format!(
        r#"    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": {PACKAGE}.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
"#
    )
}
