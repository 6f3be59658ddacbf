//! ClusterLoadAssignment → [`EndpointSet`], with priorities, localities and panic decided.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use rustc_hash::FxHashMap;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, number};
use crate::config::endpoint::{EndpointSet, Health, Host, HostAddress, HostId, Locality, Priority};

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
    /// Below that many per cent of healthy hosts, all hosts are used.
    pub panic_threshold: u32,
}

/// One locality while the set is built.
struct Group {
    name: Arc<str>,
    weight: Option<u32>,
    members: Vec<u32>,
}

/// Compiles an assignment.
pub fn endpoints(context: &mut Context, at: &At<'_>, input: &EndpointInput<'_>) -> Result<EndpointSet, Rejection> {
    let message = input.assignment;
    fields!(at, message => ClusterLoadAssignment {
        endpoints, policy;
        ignore cluster_name;
        refuse named_endpoints
    });
    let mut factor = 140;
    if let Some(policy) = policy {
        let at = at.field("policy");
        if !policy.drop_overloads.is_empty() {
            return Err(at.unsupported("drop_overloads"));
        }
        if policy.weighted_priority_health {
            return Err(at.unsupported("weighted_priority_health"));
        }
        factor = number(policy.overprovisioning_factor.as_ref())
            .unwrap_or(factor)
            .max(100);
    }
    let mut known: FxHashMap<&HostAddress, &Arc<Host>> = FxHashMap::default();
    for host in input.previous.iter().flat_map(|set| &set.hosts) {
        known.insert(&host.address, host);
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
        let name = locality.as_ref().map_or_else(String::new, |name| {
            format!("{}/{}/{}", name.region, name.zone, name.sub_zone)
                .trim_end_matches('/')
                .to_owned()
        });
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
            members,
        };
        groups.entry(*priority).or_default().push(group);
    }
    Ok(assemble(hosts, &groups, factor, input.panic_threshold))
}

fn hosts_of(
    context: &mut Context,
    at: &At<'_>,
    message: &LbEndpoint,
    input: &EndpointInput<'_>,
    known: &FxHashMap<&HostAddress, &Arc<Host>>,
) -> Result<Vec<Arc<Host>>, Rejection> {
    fields!(at, message => LbEndpoint {
        health_status, load_balancing_weight, host_identifier;
        ignore metadata;
        refuse
    });
    let endpoint = match host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => endpoint,
        Some(HostIdentifier::EndpointName(_)) => return Err(at.unsupported("endpoint_name")),
        None => return Err(at.field("endpoint").error("is required")),
    };
    let at_endpoint = at.field("endpoint");
    // Active health checks are refused at the cluster, so their settings apply to nothing.
    fields!(at_endpoint, endpoint => Endpoint {
        address, hostname;
        ignore health_check_config, additional_addresses, observability_name;
        refuse
    });
    let health = match HealthStatus::try_from(*health_status) {
        Ok(HealthStatus::Unknown | HealthStatus::Healthy) => Health::Healthy,
        Ok(HealthStatus::Degraded) => Health::Degraded,
        _ => Health::Unhealthy,
    };
    let weight = number(load_balancing_weight.as_ref()).unwrap_or(1).max(1);
    let at_address = at_endpoint.field("address");
    let (addresses, name) = match address.as_ref().and_then(|address| address.address.as_ref()) {
        Some(Address::SocketAddress(address)) => {
            let at = at_address.field("socket_address");
            let Some(PortSpecifier::PortValue(port)) = address.port_specifier else {
                return Err(at.field("port_value").error("is required"));
            };
            let port = u16::try_from(port).map_err(|_| at.field("port_value").error("is not a port"))?;
            (
                socket_addresses(&at, &address.address, port, input.resolved)?,
                address.address.as_str(),
            )
        }
        Some(Address::Pipe(pipe)) => (vec![HostAddress::Pipe(Path::new(&pipe.path).into())], ""),
        Some(Address::EnvoyInternalAddress(_)) => return Err(at_address.unsupported("envoy_internal_address")),
        None => return Err(at_address.error("is required")),
    };
    // Only a name that was resolved is worth telling as a host name.
    let hostname = if hostname.is_empty() && name.parse::<IpAddr>().is_err() {
        name
    } else {
        hostname
    };
    let hosts = addresses.into_iter().map(|address| {
        let kept = known.get(&address).copied();
        if let Some(host) = kept
            && (&*host.hostname, host.weight, host.health) == (hostname, weight, health)
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
        Arc::new(Host {
            id,
            address,
            hostname: hostname.into(),
            weight,
            health,
            stats,
        })
    });
    Ok(hosts.collect())
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

/// Decides health, panic and priority load as Envoy does: a priority's health is its share of healthy hosts times the
/// overprovisioning factor, capped at 100; load spills over to the next priority as far as health lacks.
fn assemble(
    hosts: Vec<Arc<Host>>,
    groups: &BTreeMap<u32, Vec<Group>>,
    factor: u32,
    panic_threshold: u32,
) -> EndpointSet {
    let usable = |members: &[u32], accept: fn(Health) -> bool| -> Vec<u32> {
        members
            .iter()
            .copied()
            .filter(|index| accept(hosts[*index as usize].health))
            .collect()
    };
    let health_of = |groups: &[Group]| {
        let total: usize = groups.iter().map(|group| group.members.len()).sum();
        let fit: usize = groups
            .iter()
            .map(|group| usable(&group.members, |health| health != Health::Unhealthy).len())
            .sum();
        (fit as u64, total as u64)
    };
    let last = groups.keys().next_back().copied().unwrap_or(0);
    let empty: Vec<Group> = Vec::new();
    // Priorities without any locality in the message count as empty ones; a gap costs nothing.
    let levels: Vec<&Vec<Group>> = if groups.is_empty() {
        Vec::new()
    } else {
        (0..=last.min(127))
            .map(|level| groups.get(&level).unwrap_or(&empty))
            .collect()
    };
    let percents: Vec<u64> = levels
        .iter()
        .map(|groups| match health_of(groups) {
            (_, 0) => 0,
            (fit, total) => (u64::from(factor) * fit / total).min(100),
        })
        .collect();
    let total_health: u64 = percents.iter().sum::<u64>().min(100);
    let priority_load = spread(&percents, total_health, &levels);
    let priorities = levels
        .iter()
        .map(|groups| {
            let (fit, total) = health_of(groups);
            let panics = total > 0 && total_health < 100 && fit * 100 < u64::from(panic_threshold) * total;
            priority(&hosts, groups, factor, panics)
        })
        .collect();
    EndpointSet {
        hosts: hosts.into(),
        priorities,
        priority_load,
        ..EndpointSet::default()
    }
}

fn spread(percents: &[u64], total_health: u64, levels: &[&Vec<Group>]) -> Box<[u32]> {
    let mut load = vec![0_u32; percents.len()];
    if total_health == 0 {
        // All is lost: the first priority that has hosts takes everything, in panic.
        if let Some(first) = levels
            .iter()
            .position(|groups| groups.iter().any(|group| !group.members.is_empty()))
        {
            load[first] = 100;
        }
        return load.into();
    }
    let mut left = 100_u64;
    for (share, percent) in load.iter_mut().zip(percents) {
        let part = (percent * 100 / total_health).min(left);
        *share = part as u32;
        left -= part;
    }
    // What rounding lost goes to the first that is healthy at all.
    if let Some(first) = load.iter().position(|share| *share > 0) {
        load[first] += left as u32;
    }
    load.into()
}

fn priority(hosts: &[Arc<Host>], groups: &[Group], factor: u32, panics: bool) -> Priority {
    let any_healthy = groups
        .iter()
        .flat_map(|group| &group.members)
        .any(|index| hosts[*index as usize].health == Health::Healthy);
    let fits = |index: &u32| {
        let health = hosts[*index as usize].health;
        panics || health == Health::Healthy || (!any_healthy && health == Health::Degraded)
    };
    let weight = |indexes: &[u32]| {
        indexes
            .iter()
            .map(|index| u64::from(hosts[*index as usize].weight))
            .sum::<u64>()
    };
    let equal = |indexes: &[u32]| {
        indexes
            .windows(2)
            .all(|pair| hosts[pair[0] as usize].weight == hosts[pair[1] as usize].weight)
    };
    let mut all = Vec::new();
    let mut localities = Vec::new();
    for group in groups {
        let usable: Box<[u32]> = group.members.iter().copied().filter(|index| fits(index)).collect();
        all.extend_from_slice(&usable);
        if let Some(configured) = group.weight.filter(|weight| *weight > 0 && !usable.is_empty()) {
            let share = (u64::from(factor) * usable.len() as u64 / group.members.len() as u64).min(100);
            localities.push(Locality {
                name: group.name.clone(),
                // In hundredths, so that a share of a small weight does not vanish.
                effective_weight: u64::from(configured) * share,
                equal_weights: equal(&usable),
                total_weight: weight(&usable),
                usable,
            });
        }
    }
    Priority {
        equal_weights: equal(&all),
        total_weight: weight(&all),
        total_locality_weight: localities.iter().map(|locality| locality.effective_weight).sum(),
        localities: localities.into(),
        usable: all.into(),
    }
}
