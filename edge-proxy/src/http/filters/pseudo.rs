//! What of a request's head HTTP/2 has in pseudo headers (RFC 9113 §8.3.1), where a service speaks of it by their
//! names.

use http::{HeaderValue, Method};

use crate::message::head::Head;

/// Whether this is one of them. `host` is `:authority`, as in Envoy.
pub(super) fn is(name: &str) -> bool {
    [":authority", ":method", ":path", ":scheme", "host"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name))
}

/// Sets it; `false` where there is none of this name (in small letters) and value.
pub(super) fn set(head: &mut Head, name: &str, value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    match name {
        "host" | ":authority" => head.authority = value.clone(),
        ":path" => return head.set_target(text).is_ok(),
        ":method" => match Method::from_bytes(value.as_bytes()) {
            Ok(method) => head.method = method,
            Err(_) => return false,
        },
        ":scheme" => match text {
            "http" => head.scheme = "http",
            "https" => head.scheme = "https",
            _ => return false,
        },
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_request_is_not_set() {
        let mut head = Head::empty();
        let mut set = |name, value| set(&mut head, name, &HeaderValue::from_static(value));
        for (name, value) in [
            (":path", "/a?b"),
            (":method", "PUT"),
            ("host", "a.example"),
            (":scheme", "https"),
        ] {
            assert!(is(name) && set(name, value), "{name}");
        }
        for (name, value) in [
            (":path", "/a b"),
            (":method", "P T"),
            (":scheme", "ftp"),
            (":status", "200"),
        ] {
            assert!(!set(name, value), "{name}");
        }
        assert_eq!(
            (head.target.as_str(), head.method, head.scheme),
            ("/a?b", Method::PUT, "https")
        );
        assert_eq!(head.authority, "a.example");
    }
}
