//! Requests with the key of a client, as Envoy's `api_key_auth` lets them through.

use std::borrow::Cow;

use http::{HeaderValue, StatusCode, header};

use crate::config::filter::api_key::{ApiKeyAuth, KeySource};
use crate::cookies;
use crate::http::Arrived;
use crate::http::filters::{Flow, query};
use crate::message::head::Head;

const FAILED: &str = "Client authentication failed.";

/// Lets a client through.
pub(super) fn request(filter: &ApiKeyAuth, own: Option<&ApiKeyAuth>, arrived: &mut Arrived<'_>) -> Flow {
    let refuse = |arrived: &Arrived<'_>, details| Flow::refuse(arrived, StatusCode::UNAUTHORIZED, FAILED, details);
    let keys = own.and_then(|own| own.keys.as_ref()).or(filter.keys.as_ref());
    let own_sources = own.map(|own| &own.sources).filter(|sources| !sources.is_empty());
    let sources = own_sources.unwrap_or(&filter.sources);
    if sources.is_empty() {
        return refuse(arrived, "missing_key_sources");
    }
    let key = sources.iter().find_map(|source| key(source, &arrived.head));
    let Some(key) = key else {
        return refuse(arrived, "missing_api_key");
    };
    let Some(client) = keys.and_then(|keys| keys.0.get(&*key)) else {
        return refuse(arrived, "unknown_api_key");
    };
    if own.is_some_and(|own| !own.clients.is_empty() && !own.clients.contains(client)) {
        return Flow::refuse(
            arrived,
            StatusCode::FORBIDDEN,
            "Client is forbidden.",
            "client_not_allowed",
        );
    }
    let forwarding = own.and_then(|own| own.forwarding.as_ref());
    let Some(forwarding) = forwarding.or(filter.forwarding.as_ref()) else {
        return Flow::Continue;
    };
    if let Some(told) = &forwarding.client {
        match HeaderValue::from_str(client) {
            Ok(client) => drop(arrived.head.headers.insert(told, client)),
            Err(_) => drop(arrived.head.headers.remove(told)),
        }
    }
    if forwarding.hides_key {
        sources.iter().for_each(|source| hide(source, &mut arrived.head));
    }
    Flow::Continue
}

/// The key that a request has in a place.
fn key<'h>(source: &KeySource, head: &'h Head) -> Option<Cow<'h, str>> {
    let key = match source {
        KeySource::Header(name) => {
            let value = head.headers.get(name)?.to_str().ok()?;
            Cow::Borrowed(value.strip_prefix("Bearer ").unwrap_or(value))
        }
        KeySource::Query(name) => query::value(head.target.as_str(), name)?,
        KeySource::Cookie(name) => Cow::Borrowed(std::str::from_utf8(cookies::value(&head.headers, name)?).ok()?),
    };
    (!key.is_empty()).then_some(key)
}

fn hide(source: &KeySource, head: &mut Head) {
    match source {
        KeySource::Header(name) => drop(head.headers.remove(name)),
        KeySource::Query(name) => query::take_out(name, head),
        KeySource::Cookie(name) => {
            let left = cookies::without(&head.headers, name);
            head.headers.remove(header::COOKIE);
            if let Some(left) = left {
                head.headers.insert(header::COOKIE, left);
            }
        }
    }
}
