//! Where clients come back from a login, and where they end it.

use super::AREA;
use crate::{
    api::security::oidc::Oidc,
    phase::{operators, policies::traffic::Problems, routes::check_path},
};
use std::sync::Arc;

/// Where clients come back to where nothing is said: to the host that they asked.
const REDIRECT: &str = "%REQ(x-forwarded-proto)%://%REQ(:authority)%/oauth2/callback";
/// Path that ends a session where nothing is said.
const LOGOUT: &str = "/logout";

/// Where clients come back, and where they leave.
pub(super) struct Redirect {
    /// URL that the provider sends them to.
    pub(super) url: Arc<str>,
    /// Its path.
    pub(super) callback: Arc<str>,
    /// Path that ends the session.
    pub(super) logout: Arc<str>,
}

/// Reads both; none where one of them can't be used.
pub(super) fn redirect(spec: &Oidc, problems: &mut Problems) -> Option<Redirect> {
    let url = spec.redirect_url.as_deref().unwrap_or(REDIRECT);
    let callback = callback(url).map_err(|why| problems.add(AREA, format_args!("invalid redirect URL {url}: {why}")));
    let logout = spec.logout_path.as_deref().unwrap_or(LOGOUT);
    let is_path = is_plain(logout) && check_path(logout).is_ok();
    if !is_path {
        problems.add(AREA, format_args!("logoutPath {logout:?} is no path"));
    }
    let callback = callback.ok()?;
    if *callback == *logout {
        problems.add(
            AREA,
            format_args!("logoutPath {logout} is the path of the redirect URL too"),
        );
    }
    Some(Redirect {
        url: url.into(),
        callback: callback.into(),
        logout: logout.into(),
    })
}

/// The path of the URL that clients come back to.
fn callback(url: &str) -> Result<&str, String> {
    let schemes = [
        "https://",
        "http://",
        "%REQ(x-forwarded-proto)%://",
        "%REQ(X-FORWARDED-PROTO)%://",
    ];
    let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Err("it must begin with https://, http:// or %REQ(x-forwarded-proto)%://".to_owned());
    };
    operators::check(url)?;
    // A slash inside of an operator belongs to it.
    let mut is_in_operator = false;
    let at = rest.find(|c| {
        is_in_operator ^= c == '%';
        c == '/' && !is_in_operator
    });
    let (host, path) = rest.split_at(at.ok_or("it has no path, by which a proxy knows who comes back")?);
    // Operators may have any of these.
    let mut text = host.split('%').step_by(2);
    if host.is_empty() || text.any(|text| text.contains(['?', '#', '@', ' '])) {
        return Err("it has no host".to_owned());
    }
    if path == "/" {
        return Err("its path must be one that nothing else is at".to_owned());
    }
    if !is_plain(path) {
        return Err("its path must have no query and no command operator".to_owned());
    }
    check_path(path)?;
    Ok(path)
}

fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()) && !path.contains(['?', '#', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_redirect_url_is_where_clients_come_back() {
        for (url, path) in [
            (REDIRECT, "/oauth2/callback"),
            ("https://www.example.com/bar/oauth2/callback", "/bar/oauth2/callback"),
            ("https://%REQ(x-forwarded-host?:authority)%/cb", "/cb"),
            ("http://[::1]:8080/cb", "/cb"),
        ] {
            assert_eq!(callback(url), Ok(path), "{url}");
        }
        for url in [
            "www.example.com/cb",
            "ftp://www.example.com/cb",
            "https:///cb",
            "https://www.example.com",
            "https://www.example.com/",
            "https://www.example.com/cb?x=1",
            "https://www.example.com/%REQ(:path)%",
            "https://%NOTHING%/cb",
            "https://u@www.example.com/cb",
        ] {
            assert!(callback(url).is_err(), "{url}");
        }
    }
}
