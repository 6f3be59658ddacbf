//! New paths and authorities, for rewrites and for redirects.

use std::borrow::Cow;

use http::HeaderValue;
use regex::Regex;

use crate::authority::Authority;
use crate::config::route::{
    HostRewrite, PathCondition, PathRewrite, Redirect, RedirectPath, RedirectScheme, RegexRewrite,
};
use crate::message::head::Head;

fn split_query(path_and_query: &str) -> (&str, &str) {
    match path_and_query.find('?') {
        Some(at) => path_and_query.split_at(at),
        None => (path_and_query, ""),
    }
}

/// What is behind the prefix that a path was matched by.
fn behind_prefix<'a>(condition: &PathCondition, path: &'a str) -> &'a str {
    path.get(condition.matched_len(path)..).unwrap_or("")
}

/// What a path of two parts needs in front.
fn missing_slash(path: &str, rest: &str) -> &'static str {
    let first = if path.is_empty() { rest } else { path };
    if first.starts_with('/') { "" } else { "/" }
}

fn replace_all<'a>(rewrite: &RegexRewrite, path: &'a str) -> Cow<'a, str> {
    let pattern: &Regex = &rewrite.pattern;
    pattern.replace_all(path, &*rewrite.replacement)
}

/// The path and query after a rewrite; a path that does not begin with a slash gets one.
pub(crate) fn path(rewrite: &PathRewrite, condition: &PathCondition, path_and_query: &str) -> String {
    let (path, query) = split_query(path_and_query);
    let replaced;
    let (path, rest) = match rewrite {
        PathRewrite::Prefix(replacement) => (&**replacement, behind_prefix(condition, path)),
        PathRewrite::Regex(regex) => {
            replaced = replace_all(regex, path);
            (&*replaced, "")
        }
        PathRewrite::Full(whole) => (&**whole, ""),
    };
    [missing_slash(path, rest), path, rest, query].concat()
}

/// The new authority of a request; `None` leaves it.
pub(crate) fn host(rewrite: &HostRewrite, head: &Head, endpoint: &str) -> Option<HeaderValue> {
    match rewrite {
        HostRewrite::Literal(value) => Some(value.clone()),
        HostRewrite::Endpoint if endpoint.is_empty() => None,
        HostRewrite::Endpoint => HeaderValue::from_str(endpoint).ok(),
        // An empty one says nothing, as in Envoy.
        HostRewrite::Header(name) => head.headers.get(name).filter(|value| !value.is_empty()).cloned(),
        HostRewrite::PathRegex(regex) => {
            let (path, _) = split_query(head.target.as_str());
            HeaderValue::from_str(&replace_all(regex, path)).ok()
        }
    }
}

/// The `location` of a redirect.
pub(crate) fn location(redirect: &Redirect, condition: &PathCondition, head: &Head) -> String {
    let scheme = match redirect.scheme {
        Some(RedirectScheme::Https) => "https",
        Some(RedirectScheme::Http) => "http",
        None => head.scheme,
    };
    let old = Authority::of(head.authority_text());
    let old_port = old.port.unwrap_or_default();
    let host = redirect.host.as_deref().unwrap_or(old.host);
    let default_of = |scheme: &str| if scheme == "https" { "443" } else { "80" };
    let configured = redirect.port.map(|port| port.to_string());
    // Envoy keeps the client's port, except that a new scheme drops the old one's default port and that a new host
    // brings its own.
    let port = match &configured {
        Some(port) if port == default_of(scheme) => "",
        Some(port) => port,
        None if redirect.host.is_some() => "",
        None if redirect.scheme.is_some() && matches!(old_port, "80" | "443") => "",
        None => old_port,
    };
    let (old_path, old_query) = split_query(head.target.as_str());
    let query = if redirect.strip_query { "" } else { old_query };
    let replaced;
    let (path, rest, query) = match &redirect.path {
        None => (old_path, "", query),
        Some(RedirectPath::Full(whole)) if whole.contains('?') => (&**whole, "", ""),
        Some(RedirectPath::Full(whole)) => (&**whole, "", query),
        Some(RedirectPath::Prefix(prefix)) => (&**prefix, behind_prefix(condition, old_path), query),
        Some(RedirectPath::Regex(regex)) => {
            replaced = replace_all(regex, old_path);
            (&*replaced, "", query)
        }
    };
    let colon = if port.is_empty() { "" } else { ":" };
    let slash = missing_slash(path, rest);
    [scheme, "://", host, colon, port, slash, path, rest, query].concat()
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;
    use http::{HeaderMap, Method, StatusCode};

    use super::*;

    fn head(scheme: &'static str, authority: &'static str, target: &'static str) -> Head {
        Head {
            method: Method::GET,
            scheme,
            authority: HeaderValue::from_static(authority),
            target: PathAndQuery::from_static(target),
            headers: HeaderMap::new(),
            random: 0,
            client: None,
            spelling: None,
        }
    }

    fn redirect() -> Redirect {
        Redirect {
            status: StatusCode::FOUND,
            scheme: None,
            host: None,
            port: None,
            path: None,
            strip_query: false,
        }
    }

    #[test]
    fn prefixes_are_replaced_and_queries_stay() {
        let separated = PathCondition::Separated("/prefix/one".into());
        let rewrite = PathRewrite::Prefix("/one".into());
        assert_eq!(path(&rewrite, &separated, "/prefix/one/two?q=1"), "/one/two?q=1");
        assert_eq!(path(&rewrite, &separated, "/prefix/one"), "/one");
        let nothing = PathRewrite::Prefix("".into());
        assert_eq!(path(&nothing, &separated, "/prefix/one/two?q"), "/two?q");
        assert_eq!(path(&nothing, &separated, "/prefix/one?q"), "/?q");
        let strip = PathRewrite::Regex(Box::new(RegexRewrite {
            pattern: Regex::new("^/strip/*").unwrap(),
            replacement: "/".into(),
        }));
        let condition = PathCondition::Separated("/strip".into());
        assert_eq!(path(&strip, &condition, "/strip"), "/");
        assert_eq!(path(&strip, &condition, "/strip/three"), "/three");
        assert_eq!(
            path(&PathRewrite::Full("/x".into()), &condition, "/strip/three?a"),
            "/x?a"
        );
    }

    #[test]
    fn locations_keep_what_is_not_replaced() {
        let any = PathCondition::Prefix("/".into());
        let request = head("http", "a.example:8080", "/p?q");
        assert_eq!(location(&redirect(), &any, &request), "http://a.example:8080/p?q");
        let host = Redirect {
            host: Some("b.example".into()),
            ..redirect()
        };
        assert_eq!(location(&host, &any, &request), "http://b.example/p?q");
        let https = Redirect {
            scheme: Some(RedirectScheme::Https),
            ..redirect()
        };
        assert_eq!(
            location(&https, &any, &head("http", "a.example:80", "/")),
            "https://a.example/"
        );
        // As Envoy does: whoever means the port of the new scheme has to say so.
        assert_eq!(location(&https, &any, &request), "https://a.example:8080/p?q");
        let port = Redirect {
            port: Some(443),
            scheme: Some(RedirectScheme::Https),
            ..redirect()
        };
        assert_eq!(location(&port, &any, &request), "https://a.example/p?q");
        let port = Redirect {
            port: Some(8443),
            scheme: Some(RedirectScheme::Https),
            ..redirect()
        };
        assert_eq!(location(&port, &any, &request), "https://a.example:8443/p?q");
    }

    #[test]
    fn redirect_paths_replace_and_strip() {
        let below = PathCondition::Separated("/old".into());
        let request = head("https", "a.example", "/old/x?q");
        let with = |path, strip_query| Redirect {
            path: Some(path),
            strip_query,
            ..redirect()
        };
        let prefix = with(RedirectPath::Prefix("/new".into()), false);
        assert_eq!(location(&prefix, &below, &request), "https://a.example/new/x?q");
        let full = with(RedirectPath::Full("/f".into()), true);
        assert_eq!(location(&full, &below, &request), "https://a.example/f");
        let own_query = with(RedirectPath::Full("/f?own".into()), false);
        assert_eq!(location(&own_query, &below, &request), "https://a.example/f?own");
    }
}
