//! ClusterLoadAssignment → [`EndpointSet`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address as ProtoAddress, HealthStatus, Locality, Metadata};
use envoy_types::pb::envoy::config::endpoint::v3::endpoint::HealthCheckConfig;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use rustc_hash::FxHashMap;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, number};
use crate::config::endpoint::{EndpointSet, Group, Health, Host, HostAddress, HostCheck, HostId, LbSettings, Level};
use crate::vitals::{Flag, Vitals};

/// Addresses by host name, as DNS gave them. A name that is not there resolves to nothing.
pub type Resolved = BTreeMap<String, Vec<IpAddr>>;

/// What turns an assignment into hosts.
#[derive(Debug)]
pub struct EndpointInput<'a> {
    /// The cluster they belong to.
    pub cluster: &'a Arc<str>,
    /// The message.
    pub assignment: &'a ClusterLoadAssignment,
    /// Answers of DNS; `None` where only addresses are allowed.
    pub resolved: Option<&'a Resolved>,
    /// The set that this one replaces, to keep hosts that stay.
    pub previous: Option<&'a EndpointSet>,
    /// What of the cluster decides who is drawn.
    pub lb_settings: &'a LbSettings,
    /// Sockets of the cluster that are for some hosts alone.
    pub sockets: &'a [SocketMatch],
    /// The hosts are checked, and count as unhealthy until they have passed a check.
    pub checks: Checks,
}

/// Which hosts a socket of their cluster is for: those whose metadata has all of these texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketMatch(pub Vec<(String, String)>);

impl SocketMatch {
    /// Where in the metadata of a host is looked.
    const NAMESPACE: &str = "envoy.transport_socket_match";

    fn is_for(&self, metadata: Option<&Metadata>) -> bool {
        let own = metadata.and_then(|metadata| metadata.filter_metadata.get(Self::NAMESPACE));
        let said = |name: &String| match own?.fields.get(name)?.kind.as_ref()? {
            ValueKind::StringValue(text) => Some(text),
            _ => None,
        };
        self.0.iter().all(|(name, text)| said(name) == Some(text))
    }
}

/// Whether hosts are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// They aren't: they are as healthy as the message says.
    #[default]
    None,
    /// They are.
    Active,
    /// They are, and don't count at all before their first check.
    Awaited,
}

/// Compiles an assignment.
pub fn endpoints(context: &mut Context, at: &At<'_>, input: &EndpointInput<'_>) -> Result<EndpointSet, Rejection> {
    let message = input.assignment;
    fields!(at, message => ClusterLoadAssignment {
        endpoints, policy;
        ignore cluster_name;
        refuse named_endpoints
    });
    let mut lb_settings = input.lb_settings.clone();
    if let Some(policy) = policy {
        let at = at.field("policy");
        if !policy.drop_overloads.is_empty() {
            return Err(at.unsupported("drop_overloads"));
        }
        if policy.weighted_priority_health {
            return Err(at.unsupported("weighted_priority_health"));
        }
        lb_settings.overprovisioning = number(policy.overprovisioning_factor.as_ref())
            .unwrap_or(lb_settings.overprovisioning)
            .max(100);
    }
    let mut known = Known::default();
    for host in input.previous.iter().flat_map(|set| &set.hosts) {
        known.insert((&host.address, host.socket), host);
    }
    let mut hosts = Vec::new();
    let mut groups: BTreeMap<u32, Vec<Group>> = BTreeMap::new();
    let list = at.field("endpoints");
    for (index, locality) in endpoints.iter().enumerate() {
        let at = list.index(index);
        fields!(at, locality => LocalityLbEndpoints {
            locality, lb_endpoints, load_balancing_weight, priority;
            ignore metadata, proximity;
            refuse lb_config
        });
        let name = locality.as_ref().map_or_else(String::new, place);
        let mut members = Vec::with_capacity(lb_endpoints.len());
        let list = at.field("lb_endpoints");
        for (index, endpoint) in lb_endpoints.iter().enumerate() {
            for host in hosts_of(context, &list.index(index), endpoint, input, &known)? {
                members.push(u32::try_from(hosts.len()).unwrap_or(u32::MAX));
                hosts.push(host);
            }
        }
        let group = Group {
            name: name.into(),
            weight: number(load_balancing_weight.as_ref()),
            members: members.into(),
        };
        groups.entry(*priority).or_default().push(group);
    }
    Ok(EndpointSet::new(hosts.into(), levels(groups), lb_settings))
}

/// A locality, in a word.
pub fn place(locality: &Locality) -> String {
    let Locality { region, zone, sub_zone } = locality;
    format!("{region}/{zone}/{sub_zone}").trim_end_matches('/').to_owned()
}

/// Priorities without any locality in the message count as empty ones; a gap costs nothing.
fn levels(mut groups: BTreeMap<u32, Vec<Group>>) -> Box<[Level]> {
    let Some(last) = groups.keys().next_back().copied() else {
        return Box::default();
    };
    (0..=last.min(127))
        .map(|level| Level {
            groups: groups.remove(&level).unwrap_or_default().into(),
        })
        .collect()
}

/// Hosts of before. One that is spoken to otherwise is another.
type Known<'a> = FxHashMap<(&'a HostAddress, Option<u16>), &'a Arc<Host>>;

fn hosts_of(
    context: &mut Context,
    at: &At<'_>,
    message: &LbEndpoint,
    input: &EndpointInput<'_>,
    known: &Known<'_>,
) -> Result<Vec<Arc<Host>>, Rejection> {
    fields!(at, message => LbEndpoint {
        health_status, load_balancing_weight, host_identifier, metadata;
        ignore;
        refuse
    });
    let socket = input.sockets.iter().position(|socket| socket.is_for(metadata.as_ref()));
    let socket = socket.and_then(|number| u16::try_from(number).ok());
    let endpoint = match host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => endpoint,
        Some(HostIdentifier::EndpointName(_)) => return Err(at.unsupported("endpoint_name")),
        None => return Err(at.field("endpoint").error("is required")),
    };
    let at_endpoint = at.field("endpoint");
    fields!(at_endpoint, endpoint => Endpoint {
        address, hostname, health_check_config;
        // A second address of a host is a better way to it, not another host.
        ignore additional_addresses, observability_name;
        refuse
    });
    let check = host_check(&at_endpoint.field("health_check_config"), health_check_config.as_ref())?;
    let health = health(*health_status);
    let weight = number(load_balancing_weight.as_ref()).unwrap_or(1).max(1);
    let at_address = at_endpoint.field("address");
    let (addresses, name) = addresses_of(&at_address, address.as_ref(), input.resolved)?;
    // Only a name that was resolved is worth telling as a host name.
    let hostname = if hostname.is_empty() && name.parse::<IpAddr>().is_err() {
        name
    } else {
        hostname
    };
    let hosts = addresses.into_iter().map(|address| {
        let kept = known.get(&(&address, socket)).copied();
        if let Some(host) = kept
            && (&*host.hostname, host.weight, host.health, &host.check) == (hostname, weight, health, &check)
        {
            return host.clone();
        }
        let id = kept.map_or_else(
            || {
                context.next_host += 1;
                HostId(context.next_host)
            },
            |host| host.id,
        );
        let stats = context.scopes.host(input.cluster, &address);
        let is_checked = !check.as_ref().is_some_and(|check| check.disabled);
        let vitals = kept.map_or_else(|| vitals(input.checks, is_checked), |host| host.vitals.clone());
        Arc::new(Host {
            check: check.clone(),
            vitals,
            id,
            address,
            hostname: hostname.into(),
            weight,
            health,
            socket,
            stats,
        })
    });
    Ok(hosts.collect())
}

/// Where a host is, with the name that was resolved for it, if one was.
fn addresses_of<'a>(
    at: &At<'_>,
    message: Option<&'a ProtoAddress>,
    resolved: Option<&Resolved>,
) -> Result<(Vec<HostAddress>, &'a str), Rejection> {
    match message.and_then(|address| address.address.as_ref()) {
        Some(Address::SocketAddress(address)) => {
            let at = at.field("socket_address");
            let Some(PortSpecifier::PortValue(port)) = address.port_specifier else {
                return Err(at.field("port_value").error("is required"));
            };
            let port = u16::try_from(port).map_err(|_| at.field("port_value").error("is not a port"))?;
            Ok((
                socket_addresses(&at, &address.address, port, resolved)?,
                &address.address,
            ))
        }
        Some(Address::Pipe(pipe)) => Ok((vec![HostAddress::Pipe(Path::new(&pipe.path).into())], "")),
        Some(Address::EnvoyInternalAddress(_)) => Err(at.unsupported("envoy_internal_address")),
        None => Err(at.error("is required")),
    }
}

fn health(status: i32) -> Health {
    match HealthStatus::try_from(status) {
        Ok(HealthStatus::Unknown | HealthStatus::Healthy) => Health::Healthy,
        Ok(HealthStatus::Degraded) => Health::Degraded,
        Ok(HealthStatus::Draining) => Health::Draining,
        _ => Health::Unhealthy,
    }
}

/// How a new host fares.
fn vitals(checks: Checks, is_checked: bool) -> Arc<Vitals> {
    let vitals = Vitals::default();
    if is_checked && checks != Checks::None {
        vitals.set(Flag::FailedCheck);
        if checks == Checks::Awaited {
            vitals.set(Flag::PendingCheck);
        }
    }
    Arc::new(vitals)
}

/// `None` where a host is checked as the others are.
fn host_check(at: &At<'_>, message: Option<&HealthCheckConfig>) -> Result<Option<Box<HostCheck>>, Rejection> {
    let Some(message) = message else { return Ok(None) };
    fields!(at, message => HealthCheckConfig {
        port_value, hostname, address, disable_active_health_check;
        ignore;
        refuse
    });
    let port = match u16::try_from(*port_value) {
        Ok(port) => Some(port).filter(|port| *port > 0),
        Err(_) => return Err(at.field("port_value").error("is not a port")),
    };
    let address = match address.as_ref().and_then(|address| address.address.as_ref()) {
        None => None,
        Some(Address::SocketAddress(address)) => {
            let Some(PortSpecifier::PortValue(port)) = address.port_specifier else {
                return Err(at.field("address").error("needs a port"));
            };
            let socket = address.address.parse().ok().zip(u16::try_from(port).ok());
            let (ip, port): (IpAddr, u16) = socket.ok_or_else(|| at.field("address").error("is not an IP address"))?;
            Some(HostAddress::Socket(SocketAddr::new(ip, port)))
        }
        Some(Address::Pipe(pipe)) => Some(HostAddress::Pipe(Path::new(&pipe.path).into())),
        Some(Address::EnvoyInternalAddress(_)) => return Err(at.unsupported("address")),
    };
    let check = HostCheck {
        disabled: *disable_active_health_check,
        port,
        address,
        hostname: Some(hostname.as_str()).filter(|name| !name.is_empty()).map(Into::into),
    };
    Ok((check != HostCheck::default()).then(|| Box::new(check)))
}

fn socket_addresses(
    at: &At<'_>,
    address: &str,
    port: u16,
    resolved: Option<&Resolved>,
) -> Result<Vec<HostAddress>, Rejection> {
    if let Ok(ip) = address.parse::<IpAddr>() {
        return Ok(vec![HostAddress::Socket(SocketAddr::new(ip, port))]);
    }
    match resolved {
        Some(resolved) => {
            let addresses = resolved.get(address).map(Vec::as_slice).unwrap_or_default();
            Ok(addresses
                .iter()
                .map(|ip| HostAddress::Socket(SocketAddr::new(*ip, port)))
                .collect())
        }
        None => Err(at
            .field("address")
            .error(format!("{address:?} is not an IP address; names need a DNS cluster"))),
    }
}

/// The host names that an assignment needs resolved.
pub fn host_names(assignment: &ClusterLoadAssignment) -> Vec<String> {
    let mut names: Vec<String> = assignment
        .endpoints
        .iter()
        .flat_map(|locality| &locality.lb_endpoints)
        .filter_map(|endpoint| match &endpoint.host_identifier {
            Some(HostIdentifier::Endpoint(endpoint)) => endpoint.address.as_ref()?.address.as_ref(),
            _ => None,
        })
        .filter_map(|address| match address {
            Address::SocketAddress(address) => Some(&address.address),
            _ => None,
        })
        .filter(|address| address.parse::<IpAddr>().is_err())
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}
