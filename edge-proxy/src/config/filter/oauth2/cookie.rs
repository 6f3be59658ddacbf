//! A cookie that is set with attributes known ahead of time (RFC 6265 §4.1), in Envoy's form.

use http::HeaderValue;

/// A cookie.
#[derive(Debug)]
pub struct Cookie {
    /// Its name.
    pub name: Box<str>,
    /// It is set. One that isn't is read all the same.
    pub is_set: bool,
    /// What stands between its value and its lifetime.
    scope: Box<str>,
    /// What stands behind its lifetime.
    rest: Box<str>,
    /// What stands behind its name to delete it.
    deletion: Box<str>,
}

impl Cookie {
    /// A cookie of a path and perhaps a domain; `attributes` stand behind those that all have. `None` where that can't
    /// stand in a header.
    pub fn new(name: &str, path: &str, domain: Option<&str>, attributes: &str) -> Option<Self> {
        let domain = domain.map_or_else(String::new, |domain| format!(";domain={domain}"));
        // Browsers take a cookie of such a name only together with the attribute, to delete it too (RFC 6265bis
        // §4.1.3).
        let secure = match name.starts_with("__Secure-") || name.starts_with("__Host-") {
            true => "; Secure",
            false => "",
        };
        let cookie = Self {
            name: name.into(),
            is_set: true,
            scope: format!("{domain};path={path};Max-Age=").into(),
            rest: format!(";secure;HttpOnly{attributes}").into(),
            deletion: format!("=deleted; path={path}; expires=Thu, 01 Jan 1970 00:00:00 GMT{domain}{secure}").into(),
        };
        let is_name = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
        let is_path = !path.contains(';') && !domain.trim_start_matches(';').contains(';');
        let is_good = !name.is_empty() && name.bytes().all(is_name) && is_path;
        (is_good && cookie.set("", "x", 0).is_some() && cookie.delete("").is_some()).then_some(cookie)
    }

    /// What sets it for so many seconds. What stands behind its name tells it from others: a dot and a word, or
    /// nothing.
    pub fn set(&self, behind: &str, value: &str, lifetime: u64) -> Option<HeaderValue> {
        let Self { name, scope, rest, .. } = self;
        let mut text = HeaderValue::try_from(format!("{name}{behind}={value}{scope}{lifetime}{rest}")).ok()?;
        text.set_sensitive(true);
        Some(text)
    }

    /// What deletes it.
    pub fn delete(&self, behind: &str) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("{}{behind}{}", self.name, self.deletion)).ok()
    }

    /// Whether this is its name, or that with a dot and a word behind it.
    pub fn is_named(&self, name: &[u8]) -> bool {
        let behind = name.strip_prefix(self.name.as_bytes());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b"."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_set_and_deleted_as_envoy_does_it() {
        let cookie = Cookie::new("Token", "/", Some("example.com"), ";SameSite=Lax").expect("a cookie");
        let set = cookie.set(".ab", "v", 60).expect("a header");
        assert_eq!(
            set,
            "Token.ab=v;domain=example.com;path=/;Max-Age=60;secure;HttpOnly;SameSite=Lax"
        );
        assert!(set.is_sensitive());
        assert_eq!(
            cookie.delete("").expect("a header"),
            "Token=deleted; path=/; expires=Thu, 01 Jan 1970 00:00:00 GMT;domain=example.com"
        );
        let secure = Cookie::new("__Host-Token", "/a", None, "").expect("a cookie");
        let deleted = secure.delete(".x").expect("a header");
        assert!(deleted.as_bytes().ends_with(b"GMT; Secure"), "{deleted:?}");
    }

    #[test]
    fn what_can_t_stand_in_a_header_is_no_cookie() {
        for (name, path, domain) in [
            ("", "/", None),
            ("a b", "/", None),
            ("a=b", "/", None),
            ("a", "/;b", None),
            ("a", "/\n", None),
            ("a", "/", Some("b;c")),
        ] {
            assert!(Cookie::new(name, path, domain, "").is_none(), "{name:?} {path:?}");
        }
    }

    #[test]
    fn a_cookie_knows_those_of_its_name() {
        let cookie = Cookie::new("Nonce", "/", None, "").expect("a cookie");
        assert!(cookie.is_named(b"Nonce") && cookie.is_named(b"Nonce.1"));
        assert!(!cookie.is_named(b"Nonce1") && !cookie.is_named(b"Nonc"));
    }
}
