//! What nginx is told.

use super::peer::{Logs, Setup, Speech};

/// One server with one location. Kept connections to backends, no limits on requests; all files in the folder.
pub(super) fn configuration(setup: &Setup) -> String {
    let folder = setup.folder.display();
    let log = match setup.logs {
        Logs::No => "off".to_owned(),
        Logs::File => format!("{} combined", setup.log().display()),
    };
    let pem = setup.certificate();
    let (listen, tls) = match setup.speech {
        Speech::Http1 => ("", String::new()),
        Speech::Http2 | Speech::Grpc => (" http2", String::new()),
        Speech::Tls(_) => (
            " ssl",
            format!(
                "ssl_certificate {0}; ssl_certificate_key {0}; ssl_protocols TLSv1.3; ssl_session_tickets on;",
                pem.display()
            ),
        ),
    };
    let pass = match setup.speech {
        Speech::Grpc => "grpc_pass grpc://back;",
        _ => {
            "proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
              proxy_set_header Host $host;"
        }
    };
    let (front, back) = (setup.front, setup.back);
    format!(
        "pid {folder}/nginx.pid; error_log {folder}/nginx.err; daemon off; master_process off; worker_processes 1;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
  access_log {log}; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 1h; proxy_temp_path {folder}/t1;
  client_body_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  http2_max_concurrent_streams 1000;
  upstream back {{ server 127.0.0.1:{back}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{front}{listen} backlog=4096; {tls}
    proxy_buffers 16 16k; proxy_buffer_size 16k; proxy_busy_buffers_size 64k;
    location / {{ {pass} }}
  }}
}}
"
    )
}
