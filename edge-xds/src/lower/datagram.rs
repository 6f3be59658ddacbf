//! Datagrams: flows handed on as they are.
//!
//! A flow is what comes from one address and port of a client. Envoy's UDP proxy has no weights; what it has is a
//! matcher, asked once a flow. So a flow is drawn by the hash of its source port: the hash, taken modulo the sum of the
//! weights, is a number that falls into the stretch of one backend, and the thresholds between stretches are tried from
//! the last to the first. Clients that all send from one fixed port go to one backend together.

use super::{
    access_log::{self, LogPoint},
    stream::{INVALID, NOBODY},
};
use edge_ir::{FleetSettings, StreamProxy};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                core::v3::UdpSocketConfig,
                listener::v3::{ListenerFilter, UdpListenerConfig, listener_filter},
            },
            extensions::{
                filters::udp::udp_proxy::v3::{
                    Route, UdpProxyConfig,
                    udp_proxy_config::{HashPolicy, RouteSpecifier, hash_policy::PolicySpecifier},
                },
                matching::{
                    common_inputs::network::v3::SourcePortInput,
                    input_matchers::consistent_hashing::v3::ConsistentHashing,
                },
            },
        },
        xds::{
            core::v3::TypedExtensionConfig,
            r#type::matcher::v3::{
                Matcher,
                matcher::{
                    MatcherList, MatcherType, OnMatch,
                    matcher_list::{
                        FieldMatcher, Predicate,
                        predicate::{MatchType, SinglePredicate, single_predicate},
                    },
                    on_match,
                },
            },
        },
    },
    util::pack_any,
};
use prost::{Message, Name};

/// The listener filter that hands datagrams on.
pub(super) fn proxy(stream: &StreamProxy, settings: &FleetSettings) -> ListenerFilter {
    let proxy = UdpProxyConfig {
        stat_prefix: stream.stat_prefix.to_string(),
        route_specifier: Some(RouteSpecifier::Matcher(draw(&destinations(stream)))),
        access_log: access_log::at(LogPoint::Requests, &settings.access_log),
        hash_policies: stream.hashes_source.then(source_ip).into_iter().collect(),
        ..Default::default()
    };
    ListenerFilter {
        name: "envoy.filters.udp_listener.udp_proxy".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack_any(proxy))),
        ..Default::default()
    }
}

fn source_ip() -> HashPolicy {
    HashPolicy {
        policy_specifier: Some(PolicySpecifier::SourceIp(true)),
    }
}

/// What a UDP listener must have to be one.
pub(super) fn listener_config() -> UdpListenerConfig {
    UdpListenerConfig {
        downstream_socket_config: Some(UdpSocketConfig::default()),
        ..Default::default()
    }
}

/// Clusters with their weights; what can't be resolved keeps its share, which is dropped.
fn destinations(stream: &StreamProxy) -> Vec<(&str, u32)> {
    let shares = stream.shares.iter().map(|share| (&*share.cluster, share.weight));
    let nowhere = (stream.invalid_weight > 0).then_some((INVALID, stream.invalid_weight));
    shares.chain(nowhere).collect()
}

/// Chooses a cluster for each flow.
fn draw(destinations: &[(&str, u32)]) -> Matcher {
    let [(first, weight), others @ ..] = destinations else {
        return always(NOBODY);
    };
    let modulo = destinations.iter().fold(0, |sum: u32, (_, w)| sum.saturating_add(*w));
    let mut threshold = *weight;
    let mut matchers = Vec::with_capacity(others.len());
    for (cluster, weight) in others {
        matchers.push(FieldMatcher {
            predicate: Some(at_least(threshold, modulo)),
            on_match: Some(to(cluster)),
        });
        threshold = threshold.saturating_add(*weight);
    }
    // The first that matches wins, so the highest threshold comes first.
    matchers.reverse();
    let list = (!matchers.is_empty()).then_some(MatcherType::MatcherList(MatcherList { matchers }));
    Matcher {
        matcher_type: list,
        ..always(first)
    }
}

fn always(cluster: &str) -> Matcher {
    Matcher {
        on_no_match: Some(Box::new(to(cluster))),
        ..Default::default()
    }
}

fn to(cluster: &str) -> OnMatch {
    let cluster = cluster.to_owned();
    OnMatch {
        on_match: Some(on_match::OnMatch::Action(extension("route", Route { cluster }))),
        ..Default::default()
    }
}

/// Whether a flow's number among `modulo` is a threshold or more.
fn at_least(threshold: u32, modulo: u32) -> Predicate {
    let hash = ConsistentHashing {
        threshold,
        modulo,
        seed: 0,
    };
    let hash = extension("envoy.matching.matchers.consistent_hashing", hash);
    let port = extension("envoy.matching.inputs.source_port", SourcePortInput::default());
    Predicate {
        match_type: Some(MatchType::SinglePredicate(SinglePredicate {
            input: Some(port),
            matcher: Some(single_predicate::Matcher::CustomMatch(hash)),
        })),
    }
}

fn extension<M: Message + Name>(name: &str, config: M) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: name.to_owned(),
        typed_config: Some(pack_any(config)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thresholds in their order, and the sum.
    fn thresholds(matcher: &Matcher) -> (Vec<u32>, u32) {
        let Some(MatcherType::MatcherList(list)) = &matcher.matcher_type else {
            return (Vec::new(), 0);
        };
        let hashes = list.matchers.iter().filter_map(|m| {
            let Some(MatchType::SinglePredicate(single)) = &m.predicate.as_ref()?.match_type else {
                return None;
            };
            let Some(single_predicate::Matcher::CustomMatch(custom)) = &single.matcher else {
                return None;
            };
            ConsistentHashing::decode(custom.typed_config.as_ref()?.value.as_slice()).ok()
        });
        let hashes: Vec<_> = hashes.collect();
        let modulo = hashes.first().map_or(0, |hash| hash.modulo);
        assert!(
            hashes
                .iter()
                .all(|hash| hash.modulo == modulo && hash.threshold < modulo)
        );
        (hashes.iter().map(|hash| hash.threshold).collect(), modulo)
    }

    #[test]
    fn stretches_lie_behind_each_other_and_the_last_is_tried_first() {
        let matcher = draw(&[("a", 70), ("b", 20), ("c", 10)]);
        assert_eq!(thresholds(&matcher), (vec![90, 70], 100));
        assert_eq!(thresholds(&draw(&[("a", 1)])), (vec![], 0));
        assert_eq!(draw(&[]), always(NOBODY));
    }
}
