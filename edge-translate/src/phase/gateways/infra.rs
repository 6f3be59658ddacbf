//! What must exist around a fleet: name, labels, ports, and how its proxies are started.

use super::{
    gateway::{Member, Merge, PortMapping, asked_addresses, proxy_of, transport},
    infrastructure::{self, Part},
    proxy_settings,
};
use crate::{
    api::{self, Kind},
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::{
        listeners::fleet::{FleetListeners, ListenerState, Serving},
        origin,
        policies::client::Http3,
    },
};
use edge_ir::{Infra, Origin, Owner, Placement, PortProtocol, ProxySettings, ServicePort, StringMap, label};
use sha2::{Digest, Sha256};
use std::{fmt::Write, sync::Arc};

/// Describes the infrastructure of a fleet. None when it has no Gateway, or when what a Gateway asks for can't be used:
/// then what exists stays as it is.
pub(crate) fn infra(reader: &Reader<'_>, fleet: FleetId) -> Option<Option<Infra>> {
    let listeners = reader.listeners(fleet)?;
    let first = listeners.gateways.first()?;
    let member = Member::of(reader, first.id)?;
    if listeners
        .gateways
        .iter()
        .any(|g| Member::of(reader, g.id).is_none_or(Member::holds_infra))
    {
        return Some(None);
    }
    let key = reader.text(fleet.0);
    let gateways = || listeners.gateways.iter().map(|gateway| &*gateway.object);
    let placement = reader.settings().placement;
    let telemetry = reader.fleet_shape(fleet).map(|shape| &*shape.telemetry);
    Some(Some(Infra {
        name: object_name(&key).into(),
        namespace: fleet_namespace(reader, [first.id])?,
        placement,
        owner: owner(reader, &first.object, member),
        labels: owner_labels(&first.object, member, &key, placement),
        extra_labels: infrastructure::entries(reader, listeners, Part::Labels),
        annotations: infrastructure::entries(reader, listeners, Part::Annotations),
        ports: ports(listeners, PortMapping::of(reader, fleet)),
        addresses: addresses(gateways()),
        proxy: Arc::new(ProxySettings {
            metrics_compressor: telemetry.and_then(|told| told.metrics_compressor),
            kept_metrics: telemetry.map(|told| told.kept_metrics.clone()).unwrap_or_default(),
            metric_sinks: telemetry.map(|told| told.metric_sinks.clone()).unwrap_or_default(),
            ..proxy_settings::proxy_settings(proxy_of(reader, fleet).map(|proxy| &**proxy))
        }),
        origins: listeners.gateways.iter().map(|g| stands_for(&g.object)).collect(),
        key: (&*key).into(),
    }))
}

/// Where the cluster objects of the fleet of some Gateways are; none of no Gateway.
pub(super) fn fleet_namespace(reader: &Reader<'_>, gateways: impl IntoIterator<Item = Id>) -> Option<Arc<str>> {
    let own = gateways.into_iter().map(|id| reader.text(id.namespace)).min()?;
    Some(match reader.settings().placement {
        Placement::Controller => Arc::clone(&reader.settings().controller_namespace),
        Placement::Gateway => own,
    })
}

/// The Gateway owns what is made beside it. What is made beside the controller can't be owned by an object of another
/// namespace, so its class does.
fn owner(reader: &Reader<'_>, gateway: &api::Gateway, member: &Member) -> Option<Owner> {
    let (kind, metadata) = match reader.settings().placement {
        Placement::Gateway => (Kind::Gateway, &gateway.metadata),
        Placement::Controller => {
            let class = Id {
                namespace: reader.sym(""),
                name: member.class,
            };
            (Kind::GatewayClass, &reader.class_object(class)?.metadata)
        }
    };
    Some(Owner {
        api_version: kind.api_version().as_str().into(),
        kind: kind.as_str().into(),
        name: Arc::clone(&metadata.name),
        uid: metadata.uid.as_deref()?.into(),
    })
}

fn stands_for(gateway: &api::Gateway) -> Origin {
    origin::origin(
        Kind::Gateway,
        Arc::clone(&gateway.metadata.namespace),
        Arc::clone(&gateway.metadata.name),
    )
}

/// The addresses that the Gateways of a fleet ask for, each once.
fn addresses<'a>(gateways: impl Iterator<Item = &'a api::Gateway>) -> Vec<Arc<str>> {
    let mut all: Vec<Arc<str>> = Vec::new();
    for address in gateways.flat_map(asked_addresses) {
        if all.iter().all(|known| **known != *address) {
            all.push(Arc::from(address));
        }
    }
    all
}

fn owner_labels(gateway: &api::Gateway, member: &Member, key: &str, placement: Placement) -> StringMap {
    let mut labels: Vec<(&str, &str)> = vec![
        (label::NAME, "edge"),
        (label::COMPONENT, "proxy"),
        (label::MANAGED_BY, "edge-gateway"),
    ];
    match member.merge {
        Merge::Class => labels.push((label::OWNING_CLASS, key)),
        Merge::Own => labels.extend([
            (label::OWNING_NAMESPACE, &*gateway.metadata.namespace),
            (label::OWNING_GATEWAY, &*gateway.metadata.name),
        ]),
    }
    if placement == Placement::Gateway {
        labels.push((label::GATEWAY_NAME, &*gateway.metadata.name));
    }
    labels
        .into_iter()
        .map(|(key, value)| (key.into(), label_value(value)))
        .collect()
}

/// Longest value of a label.
const MAX_LABEL: usize = 63;

/// Names of objects may be longer than values of labels: those are cut and made unique by their hash.
fn label_value(value: &str) -> Arc<str> {
    if value.len() <= MAX_LABEL {
        value.into()
    } else {
        cut_and_hash(value, MAX_LABEL - 9).into()
    }
}

/// Name of everything made for a fleet: readable, at most 57 characters with the hash, and unique because the hash
/// is of the uncut key. Names of Gateways and classes may have dots, and that of a Service may not (RFC 1035).
pub(super) fn object_name(key: &str) -> String {
    let readable = format!("edge-{}", key.replace(['/', '.'], "-"));
    let mut name = cut(&readable, 48).to_owned();
    let _ = write!(name, "-{}", short_hash(key));
    name
}

fn cut_and_hash(text: &str, length: usize) -> String {
    format!("{}-{}", cut(text, length), short_hash(text))
}

fn cut(text: &str, length: usize) -> &str {
    let mut end = length.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end_matches(['-', '.'])
}

fn short_hash(text: &str) -> String {
    format!("{:.8x}", Sha256::digest(text))
}

fn ports(listeners: &FleetListeners, mapping: PortMapping) -> Vec<ServicePort> {
    let all = listeners.all().filter(|l| l.serving == Serving::Yes);
    let mut ports: Vec<ServicePort> = all.flat_map(|l| ports_of(l, mapping)).collect();
    ports.sort();
    ports.dedup_by_key(|p| (p.port, p.protocol));
    ports
}

/// The ports of a listener: HTTP/3 has the same number once more, for datagrams.
fn ports_of(listener: &ListenerState, mapping: PortMapping) -> impl Iterator<Item = ServicePort> {
    let port = listener.port;
    let own = ServicePort {
        port,
        protocol: transport(&listener.protocol),
        container_port: mapping.container_port(port),
        name: format!("{}-{port}", listener.protocol.as_str().to_lowercase()).into(),
    };
    let http3 = (listener.http3() == Http3::Offered).then(|| ServicePort {
        protocol: PortProtocol::Udp,
        name: format!("{}-h3", own.name).into(),
        ..own
    });
    [own].into_iter().chain(http3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_are_short_readable_and_unique() {
        assert_eq!(
            object_name("default/gateway-1"),
            format!("edge-default-gateway-1-{}", short_hash("default/gateway-1"))
        );
        let long = format!("default/{}", "g".repeat(253));
        assert_eq!(object_name(&long).len(), 57);
        assert_ne!(object_name("a/b-c"), object_name("a-b/c"));
        // The name of a Service is a label of DNS.
        let dotted = object_name("apps/www.example.com");
        assert_eq!(
            dotted,
            format!("edge-apps-www-example-com-{}", short_hash("apps/www.example.com"))
        );
        assert_ne!(dotted, object_name("apps/www-example-com"));
    }

    #[test]
    fn a_long_label_value_is_cut_and_hashed() {
        assert_eq!(&*label_value("short"), "short");
        assert_eq!(label_value(&"x".repeat(253)).len(), 63);
    }
}
