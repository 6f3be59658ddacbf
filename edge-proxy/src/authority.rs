//! Whom a request is for (RFC 9110 §7.2), cut into its host and its port, wherever it stands: in a head, or in what
//! backends are called by.

/// An authority in its two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Brackets of an IPv6 literal stay.
    pub host: &'a str,
    /// What stands behind the colon, whatever it is (as in Envoy).
    pub port: Option<&'a str>,
}

impl<'a> Authority<'a> {
    /// Cuts at the port.
    pub fn of(text: &'a str) -> Self {
        match text.rsplit_once(':') {
            // "::1" without brackets is not a host with a port, and nor is one whose last colon is within them.
            Some((host, port)) if !port.contains(']') && (host.ends_with(']') || !host.contains(':')) => {
                Self { host, port: Some(port) }
            }
            _ => Self { host: text, port: None },
        }
    }

    /// The port, if it is a number. It may be none that exists.
    pub(crate) fn port_number(&self) -> Option<u32> {
        // A sign would be read as a part of a number.
        let digits = self
            .port
            .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    }
}

/// Without the dot at the end of its host, if there is one; whatever follows the host stays. A dot counts as the end
/// that nothing or a colon follows, as in Envoy.
pub(crate) fn without_trailing_dot(authority: &str) -> Option<String> {
    let (host, rest) = authority.rsplit_once('.')?;
    (rest.is_empty() || rest.starts_with(':')).then(|| format!("{host}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_off_hosts_but_not_out_of_addresses() {
        for (text, host, port) in [
            ("example.com:80", "example.com", Some("80")),
            ("example.com:a", "example.com", Some("a")),
            ("example.com:", "example.com", Some("")),
            ("[::1]:80", "[::1]", Some("80")),
            ("[::1]", "[::1]", None),
            ("::1", "::1", None),
            ("example.com", "example.com", None),
        ] {
            assert_eq!(Authority::of(text), Authority { host, port }, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_not_a_port() {
        for (text, number) in [
            ("a:80", Some(80)),
            ("a:080", Some(80)),
            ("a:99999", Some(99999)),
            ("a:+80", None),
            ("a:", None),
            ("a:x", None),
            ("a", None),
        ] {
            assert_eq!(Authority::of(text).port_number(), number, "{text}");
        }
    }

    /// As from stock Envoy 1.40.
    #[test]
    fn the_dot_of_a_host_goes_and_what_follows_it_stays() {
        for (authority, bare) in [
            ("a.example.", Some("a.example")),
            ("a.example.:8080", Some("a.example:8080")),
            ("a.example.:99999", Some("a.example:99999")),
            ("a.example.:", Some("a.example:")),
            ("a.example..", Some("a.example.")),
            ("a.example", None),
            ("a.example:080", None),
            ("a.example:99999", None),
            ("a.example:", None),
            ("localhost", None),
            ("[::1]:80", None),
            ("192.0.2.1:80", None),
        ] {
            assert_eq!(without_trailing_dot(authority).as_deref(), bare, "{authority}");
        }
    }
}
