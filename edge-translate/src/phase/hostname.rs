//! How hostnames of listeners and routes meet.
//!
//! A hostname is absent (everything), exact (`a.example.com`) or a wildcard (`*.example.com`: any number of labels in
//! front, never the apex). Here the text `*` stands for the absent one. Comparison is on lower case text.

use std::net::Ipv6Addr;

/// The hostname that stands for all.
pub(crate) const ANY: &str = "*";

/// Text of an optional hostname; a lone `*`, which the API forbids, and an empty one mean no hostname.
pub(crate) fn text(hostname: Option<&str>) -> &str {
    match hostname {
        None | Some("") => ANY,
        Some(name) => name,
    }
}

/// A host or an address with a port, as the authority of a request.
pub(crate) fn authority(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// The names that both patterns match, as a pattern; `None` when there are none.
pub(crate) fn intersect<'a>(a: &'a str, b: &'a str) -> Option<&'a str> {
    if covers(a, b) {
        Some(b)
    } else if covers(b, a) {
        Some(a)
    } else {
        None
    }
}

/// Whether every name that `narrow` matches is matched by `wide`.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    if wide == ANY || wide == narrow {
        return true;
    }
    match wide.strip_prefix('*') {
        // `.example.com` must be a true suffix: the apex isn't covered, and neither is `*.com`.
        Some(suffix) => narrow
            .strip_suffix(suffix)
            .is_some_and(|rest| !rest.is_empty() && narrow != ANY),
        None => false,
    }
}

/// How specific a hostname is: exact before wildcard before none, longer before shorter. Greater wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Specificity {
    exact: u32,
    any: u32,
}

impl Specificity {
    /// Of a hostname, `*` standing for none. Characters of an exact name count first, then characters of any name
    /// (Gateway API: GRPCRoute and HTTPRoute `hostnames`).
    pub(crate) fn of(hostname: &str) -> Self {
        if hostname == ANY {
            return Self { exact: 0, any: 0 };
        }
        let any = hostname.len() as u32;
        let exact = if hostname.starts_with("*.") { 0 } else { any };
        Self { exact, any }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intersections_follow_the_gateway_api() {
        for (a, b, want) in [
            ("*", "*", Some("*")),
            ("*", "a.example.com", Some("a.example.com")),
            ("*", "*.example.com", Some("*.example.com")),
            ("*.example.com", "a.example.com", Some("a.example.com")),
            ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "*.b.example.com", Some("*.b.example.com")),
            ("*.example.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "*.com", Some("*.example.com")),
            ("a.example.com", "a.example.com", Some("a.example.com")),
            ("a.example.com", "b.example.com", None),
            ("*.example.com", "badexample.com", None),
        ] {
            assert_eq!(intersect(a, b), want, "{a} ∩ {b}");
            assert_eq!(intersect(b, a), want, "{b} ∩ {a}");
        }
    }

    #[test]
    fn exact_beats_wildcard_beats_none() {
        let mut names = ["*", "*.example.com", "a.io", "*.com", "abc.example.com"];
        names.sort_by_key(|name| std::cmp::Reverse(Specificity::of(name)));
        assert_eq!(names, ["abc.example.com", "a.io", "*.example.com", "*.com", "*"]);
    }
}
