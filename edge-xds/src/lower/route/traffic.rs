//! What policies ask of a route besides: limits of its streams, what is hashed, upgrades.

use super::super::{common::duration, matches::Method};
use crate::wire::{put_generated, put_message, put_text};
use edge_ir::{HashInput, Route, RouteAction as Action, RouteTraffic, Tunnel, Upgrade};
use envoy_types::{
    pb::{
        envoy::{
            config::route::v3::{
                retry_policy::{RetryPriority, retry_priority},
                route_action::{
                    HashPolicy, MaxStreamDuration, UpgradeConfig,
                    hash_policy::{
                        ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier, QueryParameter,
                    },
                    upgrade_config::ConnectConfig,
                },
            },
            extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig,
        },
        google::protobuf::BoolValue,
    },
    util::pack_any,
};

/// `RouteAction.hash_policy`, `.idle_timeout`, `.upgrade_configs`, `.max_stream_duration`.
const HASH_POLICY: u32 = 15;
const IDLE_TIMEOUT: u32 = 24;
const UPGRADE_CONFIGS: u32 = 25;
const MAX_STREAM_DURATION: u32 = 36;
/// `UpgradeConfig.upgrade_type`.
const UPGRADE_TYPE: u32 = 1;

/// The upgrade of HTTP itself to a tunnel.
const CONNECT: &str = "CONNECT";

/// What requests a route is for, on the wire a route each: one for CONNECT matches nothing else, so that other
/// upgrades, and what isn't to be upgraded, need one beside it. Tunnels alone are served where a policy lists nothing
/// but CONNECT.
pub(in crate::lower) fn methods(route: &Route) -> impl Iterator<Item = Method> {
    let traffic = match &route.effect.action {
        Action::Forward(forward) => forward.traffic.as_deref(),
        Action::Redirect(_) | Action::Respond(_) => None,
    };
    let upgrades = traffic.and_then(|traffic| traffic.upgrades.as_deref()).unwrap_or(&[]);
    let has_tunnels = upgrades.iter().any(Upgrade::is_tunnel);
    let others = !traffic.is_some_and(RouteTraffic::is_for_tunnels_alone);
    // A match of another method takes no CONNECT.
    let meets_connect = route.matches.method.as_deref().is_none_or(|method| method == CONNECT);
    let any = others.then_some(Method::Any);
    any.into_iter()
        .chain((has_tunnels && meets_connect).then_some(Method::Connect))
}

/// Writes it into a `RouteAction`.
pub(super) fn put(out: &mut Vec<u8>, traffic: Option<&RouteTraffic>, method: Method) {
    let Some(traffic) = traffic else {
        return put_websocket(out);
    };
    for input in &traffic.hash {
        put_generated(out, HASH_POLICY, &lower_hash(input));
    }
    if let Some(timeout) = traffic.idle_timeout {
        put_generated(out, IDLE_TIMEOUT, &duration(timeout));
    }
    if let Some(limit) = traffic.max_stream_duration {
        let limit = MaxStreamDuration {
            max_stream_duration: Some(duration(limit)),
            ..Default::default()
        };
        put_generated(out, MAX_STREAM_DURATION, &limit);
    }
    match &traffic.upgrades {
        None => put_websocket(out),
        Some(upgrades) => {
            let here = |upgrade: &&Upgrade| upgrade.is_tunnel() == (method == Method::Connect);
            for upgrade in upgrades.iter().filter(here) {
                put_generated(out, UPGRADE_CONFIGS, &lower_upgrade(upgrade));
            }
        }
    }
}

/// The upgrade is part of every route; a request that doesn't ask for it is not touched.
fn put_websocket(out: &mut Vec<u8>) {
    put_message(out, UPGRADE_CONFIGS, |out| put_text(out, UPGRADE_TYPE, "websocket"));
}

fn lower_upgrade(upgrade: &Upgrade) -> UpgradeConfig {
    UpgradeConfig {
        upgrade_type: upgrade.name.to_string(),
        enabled: Some(BoolValue { value: true }),
        connect_config: match upgrade.tunnel {
            Tunnel::Whole => None,
            Tunnel::Content => Some(ConnectConfig::default()),
        },
    }
}

fn lower_hash(input: &HashInput) -> HashPolicy {
    let specifier = match input {
        HashInput::SourceIp => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
        HashInput::Header(name) => PolicySpecifier::Header(Header {
            header_name: name.to_string(),
            ..Default::default()
        }),
        HashInput::QueryParameter(name) => PolicySpecifier::QueryParameter(QueryParameter { name: name.to_string() }),
        HashInput::Cookie { name, ttl, attributes } => PolicySpecifier::Cookie(Cookie {
            name: name.to_string(),
            ttl: ttl.map(duration),
            attributes: attributes
                .iter()
                .map(|(name, value)| CookieAttribute {
                    name: name.to_string(),
                    value: value.to_string(),
                })
                .collect(),
            ..Default::default()
        }),
    };
    HashPolicy {
        policy_specifier: Some(specifier),
        ..Default::default()
    }
}

/// After this many tries it is the turn of the next priority.
pub(super) fn next_priority(attempts: u32) -> RetryPriority {
    let config = PreviousPrioritiesConfig {
        update_frequency: i32::try_from(attempts).unwrap_or(i32::MAX),
    };
    RetryPriority {
        name: "envoy.retry_priorities.previous_priorities".to_owned(),
        config_type: Some(retry_priority::ConfigType::TypedConfig(pack_any(config))),
    }
}
