//! Whose a Gateway is, which fleet carries it, and with which EdgeProxy.

use super::{
    class::Class,
    proxy_settings::{self, ProxyProblem},
};
use crate::{
    api::{self, EdgeProxy, Protocol},
    engine::reader::Reader,
    name::{FleetId, Id, Sym},
    settings::Platform,
};
use edge_ir::PortProtocol;
use std::{collections::BTreeSet, sync::Arc};

/// The judgement on a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Gateway {
    /// Its class is missing or somebody else's.
    Foreign,
    /// It is ours.
    Member(Member),
}

/// A Gateway that we serve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// The fleet it is part of.
    pub(crate) fleet: FleetId,
    /// Its class.
    pub(crate) class: Sym,
    /// Whether the fleet is the class's rather than the Gateway's own.
    pub(crate) merge: Merge,
    /// Its EdgeProxy: the Gateway's own, else that of the class.
    pub(crate) proxy: Option<Arc<EdgeProxy>>,
    /// The ports of the machine that it wants, sorted; on a platform where each fleet has its own there is no need to
    /// know.
    pub(crate) port_claims: Vec<(PortProtocol, u16)>,
    /// Why it isn't accepted, if it isn't. Its listeners serve all the same: a slip in an infrastructure setting must
    /// not stop traffic.
    pub(crate) problem: Option<GatewayProblem>,
}

/// Whether Gateways share a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// A fleet of its own.
    Own,
    /// One fleet for the class.
    Class,
}

impl Merge {
    /// What an EdgeProxy of a class asks for.
    pub(crate) fn of(proxy: Option<&Arc<EdgeProxy>>) -> Self {
        if proxy.is_some_and(|p| p.spec.merge_gateways) {
            Self::Class
        } else {
            Self::Own
        }
    }
}

/// How the ports of listeners become ports that proxies bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortMapping {
    /// Ports that need privileges are shifted by 10000.
    Shifted,
    /// Every port is bound as it is.
    AsIs,
}

impl PortMapping {
    /// That of the fleet which a Gateway is part of; Gateways that share one have that of their class.
    pub(crate) fn of(reader: &Reader<'_>, gateway: Id) -> Self {
        let proxy = match reader.gateway(gateway).map(|g| &**g) {
            Some(Gateway::Member(Member {
                merge: Merge::Class,
                class,
                ..
            })) => reader.class(*class).and_then(|class| class.proxy()),
            Some(Gateway::Member(member)) => member.proxy.as_ref(),
            _ => None,
        };
        let as_is = proxy.is_some_and(|proxy| proxy_settings::binds_listener_ports(proxy));
        match reader.settings().platform {
            Platform::Cluster if !as_is => Self::Shifted,
            _ => Self::AsIs,
        }
    }

    /// Port that the proxy binds for a listener's.
    pub(crate) fn container_port(self, port: u16) -> u16 {
        /// Ports below this need privileges.
        const FIRST_UNPRIVILEGED: u16 = 1024;
        /// What is added to those.
        const SHIFT: u16 = 10000;
        match self {
            Self::Shifted if port < FIRST_UNPRIVILEGED => port + SHIFT,
            _ => port,
        }
    }
}

/// Why a Gateway isn't accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayProblem {
    /// Reason of the condition.
    pub(crate) reason: &'static str,
    /// Message of the condition.
    pub(crate) message: String,
}

/// Judges a Gateway; none when it doesn't exist.
pub(crate) fn gateway(reader: &Reader<'_>, id: Id) -> Option<Gateway> {
    let gateway = reader.gateway_object(id)?;
    let class_name = reader.sym(&gateway.spec.gateway_class_name);
    let Some(class) = reader.class(class_name) else {
        return Some(Gateway::Foreign);
    };
    let (class_proxy, merge, class_problem) = match &**class {
        Class::Foreign => return Some(Gateway::Foreign),
        Class::Accepted { proxy } => (proxy.clone(), Merge::of(proxy.as_ref()), None),
        Class::Refused { error, proxy } => {
            let class = &gateway.spec.gateway_class_name;
            let problem = invalid_parameters(format!("GatewayClass {class} is not accepted: {error}"));
            (proxy.clone(), Merge::of(proxy.as_ref()), Some(problem))
        }
    };
    let fleet = FleetId(match merge {
        Merge::Class => class_name,
        Merge::Own => reader.sym(&format!("{}/{}", gateway.metadata.namespace, gateway.metadata.name)),
    });
    let (own, own_problem) = own_proxy(reader, gateway);
    let problem = own_problem
        .map(|error| invalid_parameters(format!("Invalid parametersRef: {error}")))
        .or(class_problem)
        .or_else(|| unsupported_address(gateway));
    Some(Gateway::Member(Member {
        fleet,
        class: class_name,
        merge,
        proxy: own.or(class_proxy),
        port_claims: port_claims(gateway, reader.settings().platform),
        problem,
    }))
}

fn port_claims(gateway: &api::Gateway, platform: Platform) -> Vec<(PortProtocol, u16)> {
    if platform != Platform::Host {
        return Vec::new();
    }
    let listeners = gateway.spec.listeners.iter();
    let claims: BTreeSet<_> = listeners
        .map(|listener| (transport(&listener.protocol), listener.port))
        .collect();
    claims.into_iter().collect()
}

/// What a listener of a protocol binds its port for.
pub(crate) fn transport(protocol: &Protocol) -> PortProtocol {
    match protocol {
        Protocol::Udp => PortProtocol::Udp,
        _ => PortProtocol::Tcp,
    }
}

fn invalid_parameters(message: String) -> GatewayProblem {
    GatewayProblem {
        reason: "InvalidParameters",
        message,
    }
}

/// The EdgeProxy that the Gateway itself names, and what is wrong with it. One with a slip stays in force as far as it
/// shapes the fleet, so that no socket moves and no request takes another way; see [`Class::Refused`].
fn own_proxy(reader: &Reader<'_>, gateway: &api::Gateway) -> (Option<Arc<EdgeProxy>>, Option<ProxyProblem>) {
    let infrastructure = gateway.spec.infrastructure.as_ref();
    let Some(reference) = infrastructure.and_then(|i| i.parameters_ref.as_ref()) else {
        return (None, None);
    };
    if let Err(problem) = proxy_settings::check_reference(&reference.group, &reference.kind) {
        return (None, Some(problem));
    }
    let namespace = &gateway.metadata.namespace;
    let Some(proxy) = reader.edge_proxy(reader.id(namespace, &reference.name)) else {
        return (
            None,
            Some(format!("edgeproxy {namespace}/{} not found", reference.name)),
        );
    };
    let problem = if proxy.spec.merge_gateways {
        Some("mergeGateways must not be set on an EdgeProxy that is attached to a Gateway".into())
    } else {
        proxy_settings::check(proxy, reader.settings()).err()
    };
    (Some(Arc::clone(proxy)), problem)
}

fn unsupported_address(gateway: &api::Gateway) -> Option<GatewayProblem> {
    let known = |a: &&api::GatewayAddress| matches!(a.r#type, api::AddressType::IpAddress | api::AddressType::Hostname);
    let bad = gateway.spec.addresses.iter().find(|a| !known(a))?;
    Some(GatewayProblem {
        reason: "UnsupportedAddress",
        message: format!("Gateway has an address with an unsupported type: {}", bad.r#type),
    })
}
