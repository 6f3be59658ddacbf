//! What HAProxy is told.

use super::peer::{Logs, Setup, Speech};

/// One frontend, one backend. It can't write its log to a file; its output is one.
pub(super) fn configuration(setup: &Setup) -> String {
    let (log, option) = match setup.logs {
        Logs::No => ("", ""),
        Logs::File => ("  log stdout format raw local0\n", "  log global\n  option httplog\n"),
    };
    let bind = match setup.speech {
        Speech::Http1 => String::new(),
        Speech::Http2 | Speech::Grpc => " proto h2".to_owned(),
        Speech::Tls(_) => format!(
            " ssl crt {} ssl-min-ver TLSv1.3 alpn http/1.1",
            setup.certificate().display()
        ),
    };
    let server = match setup.speech {
        Speech::Grpc => " proto h2",
        _ => "",
    };
    let (front, back) = (setup.front, setup.back);
    format!(
        "global
  nbthread 1
  no strict-limits
  maxconn 11000
  tune.h2.max-concurrent-streams 1000
{log}defaults
  mode http
{option}  timeout client 1h
  timeout server 60s
  timeout connect 5s
  timeout http-keep-alive 1h
  option http-keep-alive
  http-reuse always
frontend front
  bind 127.0.0.1:{front}{bind}
  default_backend back
backend back
  server one 127.0.0.1:{back}{server}
"
    )
}
