//! Where clients are, as Envoy's `geoip` filter tells those behind it.
//!
//! An address is looked up in databases, and what they say goes into headers, in the place of what a client has
//! put there. Where they say nothing a header stays as it came: rules that ask for one need it taken off before (the
//! translation sees to that).

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::config::filter::geoip::{ClientSource, Database, Fact, GeoIp, Records, Telling};
use crate::http::Arrived;
use crate::http::ingress::forwarded;

/// Tells where the client of a request is.
pub(super) fn request(places: &GeoIp, arrived: &mut Arrived<'_>) {
    let address = address(places, arrived);
    for lookup in &places.lookups {
        if let Some(records) = lookup.database.records() {
            tell(&records, &lookup.facts, address, &mut arrived.head.headers);
        }
    }
    let now = arrived.exchange.connection.worker.clock.recent();
    for lookup in &places.lookups {
        if lookup.database.is_due(now) {
            renew(Arc::clone(&lookup.database));
        }
    }
}

fn address(places: &GeoIp, arrived: &Arrived<'_>) -> IpAddr {
    let head = &arrived.head;
    let said = match &places.client {
        ClientSource::Manager => None,
        ClientSource::Forwarded(skip) => forwarded(&head.headers, *skip),
        ClientSource::Header(name) => {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.and_then(|value| value.trim().parse::<IpAddr>().ok())
        }
    };
    let known = || head.client.unwrap_or_else(|| arrived.exchange.connection.client.ip());
    said.unwrap_or_else(known).to_canonical()
}

/// Reads a database again where nobody waits for it.
fn renew(database: Arc<Database>) {
    tokio::task::spawn_blocking(move || match database.renew() {
        Ok(false) => {}
        Ok(true) => tracing::info!(path = %database.path().display(), "read a new database of places"),
        Err(error) => {
            let path = database.path().display();
            tracing::warn!(%path, error, "a database of places can't be read again; the one before stays");
        }
    });
}

/// Sets the headers of what a database says of an address.
fn tell(records: &Records, facts: &[Fact], address: IpAddr, fields: &mut HeaderMap) {
    // A database of IPv4 knows nothing of other addresses.
    let Ok(found) = records.lookup(address) else { return };
    if !found.has_data() {
        return;
    }
    for fact in facts {
        let Ok(Some(value)) = found.decode_path::<Value>(fact.path) else {
            continue;
        };
        if let Some(value) = text(value, fact.telling) {
            fields.insert(fact.header.clone(), value);
        }
    }
}

/// What a header says of something.
fn text(value: Value, telling: Telling) -> Option<HeaderValue> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(is_so) => is_so.to_string(),
        _ => return None,
    };
    match telling {
        Telling::Plain if text.is_empty() => None,
        Telling::Plain => HeaderValue::try_from(text).ok(),
        Telling::Whether(wanted) => Some(HeaderValue::from_static(if text == wanted { "true" } else { "false" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_database_tells_becomes_a_header() {
        let told = |value: Value, telling| text(value, telling).map(|value| value.as_bytes().to_vec());
        let plain = |value| told(value, Telling::Plain);
        assert_eq!(plain("NZ".into()), Some(b"NZ".to_vec()));
        assert_eq!(plain("Z\u{fc}rich".into()), Some("Z\u{fc}rich".as_bytes().to_vec()));
        assert_eq!(plain(64512.into()), Some(b"64512".to_vec()));
        assert_eq!(plain(false.into()), Some(b"false".to_vec()));
        for nothing in [Value::Null, "".into(), "a\nb".into(), Value::Array(Vec::new())] {
            assert_eq!(plain(nothing.clone()), None, "{nothing}");
        }
        let relay = Telling::Whether("relay");
        assert_eq!(told("relay".into(), relay), Some(b"true".to_vec()));
        assert_eq!(told("other".into(), relay), Some(b"false".to_vec()));
    }
}
