//! Hosts that a request names (Envoy's `override_host`): each attempt goes to the next of them that the cluster has,
//! and when there is none left, the cluster's policy decides. As in Envoy nobody asks how they fare.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::access::Metadata;
use crate::config::endpoint::{EndpointSet, Host, HostAddress};
use crate::config::load::HostSource;
use crate::message::head::Head;

/// What is left of them.
#[derive(Debug)]
pub(super) struct OverrideHosts(std::vec::IntoIter<HostAddress>);

impl OverrideHosts {
    /// Those that a request names; `None` where the cluster doesn't ask.
    pub(super) fn of(sources: &[HostSource], head: &Head, metadata: &Metadata) -> Option<Self> {
        if sources.is_empty() {
            return None;
        }
        let texts = sources.iter().filter_map(|source| match source {
            HostSource::Header(name) => head.headers.get(name)?.to_str().ok(),
            HostSource::Metadata(path) => path.find(metadata)?.as_str(),
        });
        let named = texts
            .flat_map(|text| text.split(','))
            .filter_map(|text| address(text.trim()));
        Some(Self(named.collect::<Vec<_>>().into_iter()))
    }

    /// The next that the cluster has.
    pub(super) fn next<'e>(&mut self, endpoints: &'e EndpointSet) -> Option<&'e Arc<Host>> {
        self.0.find_map(|address| endpoints.host_at(&address))
    }
}

/// An address as a host is known by; a text in another form names nobody.
fn address(text: &str) -> Option<HostAddress> {
    let parsed: SocketAddr = text.parse().ok()?;
    (parsed.to_string() == text).then_some(HostAddress::Socket(parsed))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::config::access::MetadataPath;

    #[test]
    fn addresses_come_from_all_places_in_order_and_in_one_form() {
        let mut head = Head::empty();
        let value = HeaderValue::from_static("10.0.0.1:80, [2001:db8::1]:80,10.0.0.1:080,name:80,,10.0.0.2");
        head.headers.insert("x-a", value);
        head.headers.append("x-a", HeaderValue::from_static("10.0.0.9:80"));
        let metadata = serde_json::json!({"f": {"to": "10.0.0.3:80"}});
        let mut known = Metadata::new();
        known.insert(Arc::from("f"), metadata["f"].clone());
        let sources = [
            HostSource::Header(HeaderName::from_static("x-none")),
            HostSource::Header(HeaderName::from_static("x-a")),
            HostSource::Metadata(MetadataPath {
                filter: "f".into(),
                path: ["to".into()].into(),
            }),
        ];
        let named = OverrideHosts::of(&sources, &head, &known).unwrap();
        let expected = ["10.0.0.1:80", "[2001:db8::1]:80", "10.0.0.3:80"];
        let expected = expected.map(|text| HostAddress::Socket(text.parse().unwrap()));
        assert_eq!(named.0.as_slice(), expected);
        assert!(OverrideHosts::of(&[], &head, &known).is_none());
    }
}
