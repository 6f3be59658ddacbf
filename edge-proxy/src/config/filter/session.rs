//! Sessions of a route (Envoy's `stateful_session`): requests of one find back to the host that served the first.

use std::time::Duration;

use http::{HeaderName, StatusCode};

/// How a route keeps sessions.
#[derive(Debug)]
pub struct SessionPolicy {
    /// Where a client keeps the address of its host.
    pub carrier: SessionCarrier,
    /// What happens to a request whose host can't serve it.
    pub lost: LostHost,
}

/// Where a client keeps the address of its host.
#[derive(Debug)]
pub enum SessionCarrier {
    /// In a cookie.
    Cookie(SessionCookie),
    /// In a header that it repeats.
    Header(HeaderName),
}

/// A cookie that holds the address of a host (RFC 6265).
#[derive(Debug)]
pub struct SessionCookie {
    /// Its name.
    pub name: Box<str>,
    /// Requests outside of this path are in no session.
    pub path: Box<str>,
    /// How long it is good for; `None` is as long as the client keeps it.
    pub lifetime: Option<Duration>,
    /// What stands behind its value in `set-cookie`, from the first semicolon on.
    pub attributes: Box<str>,
}

impl SessionCookie {
    /// Whether a request for this path and query may bring it (RFC 6265 §5.1.4).
    pub fn covers(&self, path_and_query: &str) -> bool {
        if self.path.is_empty() || &*self.path == "/" {
            return true;
        }
        path_and_query
            .strip_prefix(&*self.path)
            .is_some_and(|rest| self.path.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }
}

/// What happens to a request whose host can't serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostHost {
    /// Another one is chosen, and the session goes on there.
    Replace,
    /// It is answered: with this status where the cluster has no such host, with 503 where the host is unhealthy.
    Refuse(StatusCode),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_covers_whole_segments() {
        let cookie = |path: &str| SessionCookie {
            name: "s".into(),
            path: path.into(),
            lifetime: None,
            attributes: "".into(),
        };
        for path in ["", "/"] {
            assert!(cookie(path).covers("/any"));
        }
        for (path, target, covered) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/a?b", true),
            ("/a", "/ab", false),
            ("/a", "/", false),
            ("/a/", "/a/b", true),
            ("/a/", "/a", false),
        ] {
            assert_eq!(cookie(path).covers(target), covered, "{path} {target}");
        }
    }
}
