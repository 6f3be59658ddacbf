//! The hash of a request, by which clusters with tables choose its host.
//!
//! Envoy's rules and Envoy's numbers, so that a client stays at its host when the proxy is exchanged.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderValue};

use crate::config::endpoint::hashing::{hash, seeded};
use crate::config::hashing::{HashCookie, HashPolicy, HashSource};
use crate::config::route::RegexRewrite;
use crate::config::table::first_parameter;
use crate::connection::Connection;
use crate::cookies;
use crate::message::head::Head;

/// What the policies of a route make of a request.
#[derive(Debug, Default)]
pub(crate) struct Hashed {
    /// Its hash, if anything of it counts.
    pub(crate) hash: Option<u64>,
    /// Cookies that the client is given.
    pub(crate) cookies: Vec<HeaderValue>,
}

/// Looks at a request, as its route has edited it.
pub(crate) fn of_request(policies: &[HashPolicy], connection: &Connection, head: &Head) -> Hashed {
    let mut hashed = Hashed::default();
    for policy in policies {
        let new = match &policy.source {
            HashSource::Header(name, rewrite) => of_header(&head.headers, name, rewrite.as_deref()),
            HashSource::Cookie(cookie) => of_cookie(cookie, connection, head, &mut hashed.cookies),
            HashSource::Address => {
                let client = head.client.unwrap_or_else(|| connection.client.ip().to_canonical());
                Some(hash(client.to_string().as_bytes()))
            }
            HashSource::Query(name) => head
                .target
                .query()
                .and_then(|query| first_parameter(query, name))
                .map(|value| hash(value.as_bytes())),
        };
        if let Some(new) = new {
            // Rotated, so that two policies about the same don't cancel each other.
            hashed.hash = Some(hashed.hash.unwrap_or(0).rotate_left(1) ^ new);
        }
        if policy.terminal && hashed.hash.is_some() {
            break;
        }
    }
    hashed
}

/// Of all values together, in a fixed order.
fn of_header(headers: &HeaderMap, name: &http::HeaderName, rewrite: Option<&RegexRewrite>) -> Option<u64> {
    let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let mut values: Vec<Vec<u8>> = match rewrite {
        None => values.map(<[u8]>::to_vec).collect(),
        Some(rewrite) => values
            .map(|value| {
                let text = String::from_utf8_lossy(value);
                let new = rewrite.pattern.replace_all(&text, &*rewrite.replacement);
                new.into_owned().into_bytes()
            })
            .collect(),
    };
    values.sort();
    // Each value is hashed with the hash of those before it as its seed.
    (!values.is_empty()).then(|| values.iter().fold(0, |seed, value| seeded(value, seed)))
}

fn of_cookie(cookie: &HashCookie, connection: &Connection, head: &Head, given: &mut Vec<HeaderValue>) -> Option<u64> {
    if let Some(value) = cookies::value(&head.headers, &cookie.name).filter(|value| !value.is_empty()) {
        return Some(hash(value));
    }
    let attributes = cookie.attributes.as_deref()?;
    let client = match head.client {
        // A proxy before this one says which address, but not which port.
        Some(address) => SocketAddr::new(address, 0),
        None => connection.client,
    };
    let value = format!("{:016x}", hash(format!("{client}{}", connection.local).as_bytes()));
    let line = format!("{}=\"{value}\"{attributes}", cookie.name);
    given.extend(HeaderValue::try_from(line).ok());
    Some(hash(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hashed_together_and_in_order() {
        let headers = |values: &[&'static str]| -> HeaderMap {
            let name = http::HeaderName::from_static("x");
            let pairs = values
                .iter()
                .map(|value| (name.clone(), HeaderValue::from_static(value)));
            pairs.collect()
        };
        let of = |values: &[&'static str]| of_header(&headers(values), &http::HeaderName::from_static("x"), None);
        assert_eq!(of(&["foo", "bar"]), Some(seeded(b"foo", hash(b"bar"))));
        assert_eq!(of(&["bar", "foo"]), of(&["foo", "bar"]));
        assert_eq!(of(&["foo"]), Some(hash(b"foo")));
        assert_eq!(of(&[]), None);
    }
}
