//! Settings of an EdgeProxy that have no effect where its proxies run.

use crate::{
    api::edge_proxy::{EdgeProxyProviderType, EdgeProxySpec},
    settings::Platform,
};

const PODS: &str = "proxies of this controller are pods";
const PROCESSES: &str = "proxies of this controller are processes of its machine";

/// A sentence for each.
pub(super) fn of_proxy(spec: &EdgeProxySpec, platform: Platform) -> Vec<String> {
    match platform {
        Platform::Cluster => in_pods(spec),
        Platform::Host => on_a_machine(spec),
    }
}

fn in_pods(spec: &EdgeProxySpec) -> Vec<String> {
    let provider = spec.provider.as_deref();
    let is_there = [
        (
            "provider.type",
            provider.is_some_and(|provider| provider.r#type == EdgeProxyProviderType::Host),
        ),
        (
            "provider.host",
            provider.is_some_and(|provider| provider.host.is_some()),
        ),
    ];
    idle(&is_there, PODS)
}

fn on_a_machine(spec: &EdgeProxySpec) -> Vec<String> {
    let shutdown = spec.shutdown.as_ref();
    let is_there = [
        (
            "shutdown.minDrainDuration",
            shutdown.is_some_and(|shutdown| shutdown.min_drain_duration.is_some()),
        ),
        (
            "shutdown.healthCheckFailureDelay",
            shutdown.is_some_and(|shutdown| shutdown.health_check_failure_delay.is_some()),
        ),
    ];
    let mut told = idle(&is_there, PROCESSES);
    let Some(provider) = spec.provider.as_deref() else {
        return told;
    };
    if provider.cluster.is_some() {
        // By which EndpointSlices tell where the other proxies are.
        told.push(format!(
            "spec.provider.cluster has no effect but for the name of its Service: {PROCESSES}"
        ));
    }
    if provider.host.as_ref().is_some_and(|host| host.envoy_version.is_some()) {
        told.push(
            "spec.provider.host.envoyVersion has no effect: the controller's configuration says which program is the \
             proxy"
                .to_owned(),
        );
    }
    told
}

fn idle(fields: &[(&str, bool)], why: &str) -> Vec<String> {
    let set = fields.iter().filter(|(_, is_set)| *is_set);
    set.map(|(field, _)| format!("spec.{field} has no effect: {why}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_belongs_to_the_other_place_is_told() {
        let spec: EdgeProxySpec = serde_json::from_value(json!({
            "shutdown": {"drainTimeout": "9s", "minDrainDuration": "1s", "healthCheckFailureDelay": "2s"},
            "provider": {
                "type": "Host",
                "host": {"envoyVersion": "v9"},
                "cluster": {"envoyDeployment": {"replicas": 3}},
            },
        }))
        .unwrap();
        assert_eq!(
            of_proxy(&spec, Platform::Cluster),
            [
                "spec.provider.type has no effect: proxies of this controller are pods",
                "spec.provider.host has no effect: proxies of this controller are pods",
            ]
        );
        assert_eq!(
            of_proxy(&spec, Platform::Host),
            [
                "spec.shutdown.minDrainDuration has no effect: proxies of this controller are processes of its machine",
                "spec.shutdown.healthCheckFailureDelay has no effect: proxies of this controller are processes of its \
                 machine",
                "spec.provider.cluster has no effect but for the name of its Service: proxies of this controller are \
                 processes of its machine",
                "spec.provider.host.envoyVersion has no effect: the controller's configuration says which program is \
                 the proxy",
            ]
        );
        let spec: EdgeProxySpec = serde_json::from_value(json!({
            "shutdown": {"drainTimeout": "9s"}, "provider": {"type": "Cluster"},
        }))
        .unwrap();
        for platform in [Platform::Cluster, Platform::Host] {
            assert_eq!(of_proxy(&spec, platform), [""; 0]);
        }
    }
}
