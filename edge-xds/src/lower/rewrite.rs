//! Path rewrites and redirects.
//!
//! A prefix is replaced by whole segments and `//` never appears (Gateway API, HTTPPathModifier). A plain prefix
//! rewrite does so as long as neither side is the root; the other cases need an expression.

use edge_ir::{PathRewrite, Redirect, RedirectPort, RegexRewrite};
use envoy_types::pb::envoy::{
    config::route::v3::{
        RedirectAction,
        redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
    },
    r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher},
};

/// How a path becomes another one.
pub(super) enum Lowered {
    /// Not at all.
    Same,
    /// The matched prefix becomes this.
    Prefix(String),
    /// What matches becomes this.
    Regex(RegexMatchAndSubstitute),
}

/// The path rewrite of an action.
pub(super) fn lower_path(rewrite: &PathRewrite) -> Lowered {
    match rewrite {
        // The pattern takes all of the path; the query is not part of what is matched.
        PathRewrite::Full(path) => Lowered::Regex(substitute("^/.*$".to_owned(), path)),
        PathRewrite::Prefix { matched, replacement } => lower_prefix(matched, replacement),
        PathRewrite::Regex(rewrite) => Lowered::Regex(lower_regex(rewrite)),
    }
}

/// What an expression finds becomes something else; groups are written alike on both sides.
pub(super) fn lower_regex(rewrite: &RegexRewrite) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(matcher(rewrite.pattern.to_string())),
        substitution: rewrite.substitution.to_string(),
    }
}

/// A redirect of a request that came in on a port.
pub(super) fn lower_redirect(redirect: &Redirect, listener_port: u16) -> RedirectAction {
    let path = redirect.path.as_ref().and_then(|path| match path {
        PathRewrite::Full(path) => Some(PathRewriteSpecifier::PathRedirect(path.to_string())),
        PathRewrite::Prefix { matched, replacement } => match lower_prefix(matched, replacement) {
            Lowered::Same => None,
            Lowered::Prefix(prefix) => Some(PathRewriteSpecifier::PrefixRewrite(prefix)),
            Lowered::Regex(regex) => Some(PathRewriteSpecifier::RegexRewrite(regex)),
        },
        PathRewrite::Regex(rewrite) => Some(PathRewriteSpecifier::RegexRewrite(lower_regex(rewrite))),
    });
    RedirectAction {
        scheme_rewrite_specifier: redirect
            .scheme
            .as_ref()
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.to_string())),
        host_redirect: redirect.host.as_deref().unwrap_or_default().to_owned(),
        port_redirect: redirect_port(redirect, listener_port).into(),
        path_rewrite_specifier: path,
        response_code: response_code(redirect.code).into(),
        strip_query: false,
    }
}

/// The port that the Location names; 0 for none.
///
/// Envoy keeps the port of the request's Host where none is set, so a port that the route names, or that its scheme
/// implies (GEP-726, `port`), has to be set even where it goes without saying: a client that used 8080 would be sent to
/// `https://host:8080/` otherwise. Only behind a new host nothing is kept, and the scheme's own port can be left out.
fn redirect_port(redirect: &Redirect, listener_port: u16) -> u16 {
    match redirect.port {
        RedirectPort::Number(port) => match (&redirect.host, redirect.scheme.as_deref()) {
            (Some(_), Some("http")) if port == 80 => 0,
            (Some(_), Some("https")) if port == 443 => 0,
            _ => port,
        },
        // The scheme stays what it is, and the port is the well-known one of either.
        RedirectPort::Listener if matches!(listener_port, 80 | 443) => 0,
        RedirectPort::Listener => listener_port,
    }
}

fn response_code(code: u16) -> RedirectResponseCode {
    match code {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}

fn lower_prefix(matched: &str, replacement: &str) -> Lowered {
    match (matched.trim_end_matches('/'), replacement.trim_end_matches('/')) {
        ("", "") => Lowered::Same,
        // `/foo` → `/`, `/foo/bar` → `/bar`.
        (matched, "") => Lowered::Regex(substitute(format!("^{}/*", escape(matched)), "/")),
        // `/` is the matched text, so that its replacement must end in one.
        ("", replacement) => Lowered::Prefix(format!("{replacement}/")),
        (_, replacement) => Lowered::Prefix(replacement.to_owned()),
    }
}

fn substitute(regex: String, substitution: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(matcher(regex)),
        // A backslash introduces a captured group.
        substitution: substitution.replace('\\', r"\\"),
    }
}

fn matcher(regex: String) -> RegexMatcher {
    RegexMatcher {
        regex,
        ..Default::default()
    }
}

/// The text as an RE2 expression that matches it alone.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex_of(matched: &str, replacement: &str) -> (String, String) {
        match lower_prefix(matched, replacement) {
            Lowered::Same => ("same".to_owned(), String::new()),
            Lowered::Prefix(prefix) => ("prefix".to_owned(), prefix),
            Lowered::Regex(regex) => (regex.pattern.unwrap().regex, regex.substitution),
        }
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    #[test]
    fn a_prefix_rewrite_never_leaves_two_slashes() {
        assert_eq!(regex_of("/foo", "/bar"), pair("prefix", "/bar"));
        assert_eq!(regex_of("/foo", ""), pair("^/foo/*", "/"));
        assert_eq!(regex_of("/v1.0", "/"), pair(r"^/v1\.0/*", "/"));
        assert_eq!(regex_of("", "/bar"), pair("prefix", "/bar/"));
        assert_eq!(regex_of("", ""), pair("same", ""));
    }

    #[test]
    fn a_redirect_names_its_port_unless_nothing_else_could_be_meant() {
        let redirect = |scheme: Option<&str>, host: Option<&str>, port| Redirect {
            code: 302,
            scheme: scheme.map(Into::into),
            host: host.map(Into::into),
            port,
            path: None,
        };
        let port = |scheme, host, port| redirect_port(&redirect(scheme, host, port), 8080);
        assert_eq!(port(None, None, RedirectPort::Listener), 8080);
        assert_eq!(port(Some("https"), None, RedirectPort::Number(443)), 443);
        assert_eq!(port(Some("https"), Some("b.example"), RedirectPort::Number(443)), 0);
        assert_eq!(port(Some("http"), Some("b.example"), RedirectPort::Number(443)), 443);
        assert_eq!(port(None, None, RedirectPort::Number(443)), 443);
        assert_eq!(port(None, Some("b.example"), RedirectPort::Number(80)), 80);
        let plain = redirect(None, None, RedirectPort::Listener);
        assert_eq!(redirect_port(&plain, 80), 0);
    }
}
