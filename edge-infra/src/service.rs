//! The Service of a fleet.

use crate::{Object, ObjectKind, is_reserved, metadata::object};
use edge_ir::{Infra, IpFamily, ServiceKind, ServicePort};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The Service; none while no listener serves, because a Service must have a port.
pub(crate) fn service(infra: &Infra) -> Option<Object> {
    if infra.ports.is_empty() {
        return None;
    }
    let settings = &infra.proxy.cluster.service;
    let (families, policy) = match infra.proxy.ip_family {
        IpFamily::V4 => (vec!["IPv4"], "SingleStack"),
        IpFamily::V6 => (vec!["IPv6"], "SingleStack"),
        IpFamily::DualStack => (vec!["IPv4", "IPv6"], "RequireDualStack"),
    };
    let mut spec = json!({
        "type": settings.kind,
        "sessionAffinity": "None",
        "selector": infra.labels,
        "ports": infra.ports.iter().map(port).collect::<Vec<Value>>(),
        "ipFamilies": families,
        "ipFamilyPolicy": policy,
    });
    if settings.kind != ServiceKind::ClusterIp {
        spec["externalTrafficPolicy"] = settings.external_traffic_policy.as_deref().unwrap_or("Local").into();
    }
    addresses(infra, &mut spec);
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec[field] = value;
        }
    };
    put(
        "loadBalancerClass",
        settings.load_balancer_class.as_deref().map(Value::from),
    );
    put(
        "allocateLoadBalancerNodePorts",
        settings.allocate_node_ports.map(Value::from),
    );
    put("loadBalancerIP", settings.load_balancer_ip.as_deref().map(Value::from));
    put(
        "loadBalancerSourceRanges",
        (!settings.source_ranges.is_empty()).then(|| json!(settings.source_ranges)),
    );
    let own = (&settings.labels, &settings.annotations);
    Some(object(infra, ObjectKind::Service, own, json!({"spec": spec})))
}

fn port(port: &ServicePort) -> Value {
    json!({
        "name": port.name,
        "port": port.port,
        "targetPort": port.container_port,
        "protocol": port.protocol,
    })
}

/// Addresses that the Gateway asks for. Names can't be asked for of a Service. External addresses are taken from it as
/// they come, so that those which lead nowhere are left out here; the Gateway says that it doesn't get them.
fn addresses(infra: &Infra, spec: &mut Value) {
    let is_inside = infra.proxy.cluster.service.kind == ServiceKind::ClusterIp;
    let is_askable = |ip: IpAddr| is_inside || !is_reserved(ip);
    let numbers = infra
        .addresses
        .iter()
        .filter(|address| address.parse().is_ok_and(is_askable));
    let numbers: Vec<&str> = numbers.map(|address| &**address).collect();
    match numbers.as_slice() {
        [] => {}
        [first, ..] if is_inside => {
            spec["clusterIP"] = (*first).into();
            spec["clusterIPs"] = json!([first]);
        }
        all => spec["externalIPs"] = json!(all),
    }
}
