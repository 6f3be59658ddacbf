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
use edge_ir::{FleetKey, Placement, PortProtocol};
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
    /// The EdgeProxy that shapes its fleet: the Gateway's own, else that of the class. A fleet that Gateways share is
    /// the class's to shape, so all of them have the same.
    pub(crate) proxy: Option<Arc<EdgeProxy>>,
    /// The ports of the machine that it wants, sorted; on a platform where each fleet has its own there is no need to
    /// know.
    pub(crate) port_claims: Vec<(PortProtocol, u16)>,
    /// Why it isn't accepted, if it isn't. Its listeners serve all the same: a slip in an infrastructure setting must
    /// not stop traffic.
    pub(crate) problem: Option<GatewayProblem>,
}

impl Member {
    /// A Gateway as it is in its fleet, if it is ours.
    pub(super) fn of<'a>(reader: &Reader<'a>, gateway: Id) -> Option<&'a Self> {
        match &**reader.gateway(gateway)? {
            Gateway::Member(member) => Some(member),
            Gateway::Foreign => None,
        }
    }

    /// Whether what its fleet is made of can't be told. One Gateway of several that share a fleet has no say in that.
    pub(crate) fn holds_infra(&self) -> bool {
        let counts = |problem: &GatewayProblem| self.merge == Merge::Own || problem.of == ProblemOf::Class;
        self.problem.as_ref().is_some_and(counts)
    }
}

/// The EdgeProxy that shapes a fleet. All that is asked of one for a fleet is asked of this one, by units of later
/// stages through the fleet's shape: so a Gateway that joins or leaves makes none of them run again.
pub(crate) fn proxy_of<'a>(reader: &Reader<'a>, fleet: FleetId) -> Option<&'a Arc<EdgeProxy>> {
    let mut members = reader.members(fleet).iter();
    members.find_map(|id| Member::of(reader, *id)?.proxy.as_ref())
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
    /// What an EdgeProxy of a class asks for. Where fleets are in the namespace of their Gateway none can be shared:
    /// one that asks for it is refused, and changes nothing of those that there are.
    pub(crate) fn of(proxy: Option<&Arc<EdgeProxy>>, placement: Placement) -> Self {
        match placement {
            Placement::Controller if proxy.is_some_and(|p| p.spec.merge_gateways) => Self::Class,
            Placement::Controller | Placement::Gateway => Self::Own,
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
    /// That of a fleet.
    pub(crate) fn of(reader: &Reader<'_>, fleet: FleetId) -> Self {
        let as_is = proxy_of(reader, fleet).is_some_and(|proxy| proxy_settings::binds_listener_ports(proxy));
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
    of: ProblemOf,
}

/// What has the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemOf {
    /// Its class.
    Class,
    /// Itself.
    Gateway,
}

/// Judges a Gateway; none when it doesn't exist.
pub(crate) fn gateway(reader: &Reader<'_>, id: Id) -> Option<Gateway> {
    let gateway = reader.gateway_object(id)?;
    let class_name = reader.sym(&gateway.spec.gateway_class_name);
    let Some(class) = reader.class(class_name) else {
        return Some(Gateway::Foreign);
    };
    let (class_proxy, class_problem) = match &**class {
        Class::Foreign => return Some(Gateway::Foreign),
        Class::Accepted { proxy } => (proxy.clone(), None),
        Class::Refused { error, proxy } => {
            let class = &gateway.spec.gateway_class_name;
            let problem = GatewayProblem {
                of: ProblemOf::Class,
                ..invalid_parameters(format!("GatewayClass {class} is not accepted: {error}"))
            };
            (proxy.clone(), Some(problem))
        }
    };
    let merge = Merge::of(class_proxy.as_ref(), reader.settings().placement);
    let fleet = FleetId(match merge {
        Merge::Class => class_name,
        Merge::Own => reader.sym(&FleetKey::of_gateway(
            &gateway.metadata.namespace,
            &gateway.metadata.name,
        )),
    });
    let (own, own_problem) = match merge {
        Merge::Own => own_proxy(reader, gateway, class_proxy.as_ref()),
        Merge::Class => (None, has_no_say(gateway)),
    };
    // That of the class comes first where it concerns more than this Gateway.
    let own_problem = own_problem.map(|error| invalid_parameters(format!("Invalid parametersRef: {error}")));
    let problem = match merge {
        Merge::Own => own_problem.or(class_problem),
        Merge::Class => class_problem.or(own_problem),
    };
    let problem = problem.or_else(|| unsupported_address(gateway));
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
        of: ProblemOf::Gateway,
    }
}

/// The EdgeProxy that the Gateway itself names, and what is wrong with it. One with a slip stays in force as far as it
/// shapes the fleet, so that no socket moves and no request takes another way; see [`Class::Refused`].
fn own_proxy(
    reader: &Reader<'_>,
    gateway: &api::Gateway,
    of_class: Option<&Arc<EdgeProxy>>,
) -> (Option<Arc<EdgeProxy>>, Option<ProxyProblem>) {
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
        Some(OF_CLASS.into())
    } else {
        None
    };
    let proxy = proxy_settings::over(proxy, of_class, reader.settings());
    let problem = problem.or_else(|| proxy_settings::check(&proxy, reader.settings()).err());
    (Some(proxy), problem)
}

/// Why an EdgeProxy that a Gateway names isn't in force.
pub(crate) const OF_CLASS: &str = "mergeGateways must not be set on an EdgeProxy that is attached to a Gateway";

/// Why an EdgeProxy that such a Gateway names isn't in force.
pub(crate) const NO_SAY: &str =
    "has no effect: the class has mergeGateways, and its own EdgeProxy shapes the fleet that its Gateways share";

/// A Gateway that shares the fleet of its class can't shape it for the others.
fn has_no_say(gateway: &api::Gateway) -> Option<ProxyProblem> {
    let reference = gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    Some(format!("{} {} {NO_SAY}", reference.kind, reference.name))
}

/// Whether we know what an address of this type is.
fn is_known(address: &api::GatewayAddress) -> bool {
    matches!(address.r#type, api::AddressType::IpAddress | api::AddressType::Hostname)
}

/// The addresses that a Gateway asks for.
pub(crate) fn asked_addresses(gateway: &api::Gateway) -> impl Iterator<Item = &str> {
    let asked = gateway.spec.addresses.iter().filter(|address| is_known(address));
    asked.map(|address| &*address.value).filter(|value| !value.is_empty())
}

fn unsupported_address(gateway: &api::Gateway) -> Option<GatewayProblem> {
    let bad = gateway.spec.addresses.iter().find(|a| !is_known(a))?;
    Some(GatewayProblem {
        reason: "UnsupportedAddress",
        message: format!("Gateway has an address with an unsupported type: {}", bad.r#type),
        of: ProblemOf::Gateway,
    })
}
