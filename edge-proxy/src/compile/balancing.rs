//! Load balancing policies, in Envoy's older form (`lb_policy`) and as extensions.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::LoadBalancingPolicy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::common_lb_config::{
    ConsistentHashingLbConfig as OldConsistent, LocalityConfigSpecifier, ZoneAwareLbConfig as OldZoneAware,
};
use envoy_types::pb::envoy::config::cluster::v3::cluster::ring_hash_lb_config::HashFunction as OldHashFunction;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    CommonLbConfig, LbConfig, LbPolicy as ProtoLbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig,
    RoundRobinLbConfig, SlowStartConfig as OldSlowStart,
};
use envoy_types::pb::envoy::config::core::v3::RuntimeDouble;
use envoy_types::pb::envoy::extensions::load_balancing_policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin;
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::locality_lb_config::{
    LocalityConfigSpecifier as LocalityConfig, ZoneAwareLbConfig, zone_aware_lb_config::ForceLocalZone,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::{
    ConsistentHashingLbConfig, LocalityLbConfig, SlowStartConfig,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3::LeastRequest;
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3::least_request::SelectionMethod;
use envoy_types::pb::envoy::extensions::load_balancing_policies::maglev::v3::Maglev;
use envoy_types::pb::envoy::extensions::load_balancing_policies::override_host::v3::OverrideHost;
use envoy_types::pb::envoy::extensions::load_balancing_policies::random::v3::Random;
use envoy_types::pb::envoy::extensions::load_balancing_policies::ring_hash::v3::RingHash;
use envoy_types::pb::envoy::extensions::load_balancing_policies::ring_hash::v3::ring_hash::HashFunction;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;
use envoy_types::pb::envoy::extensions::load_balancing_policies::wrr_locality::v3::WrrLocality;
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::UInt64Value;

use crate::compile::field::{At, Rejection, duration, fields, is, number, type_name, unpack};
use crate::config::cluster::{ALL, Balancing, LbPolicy, SlowStart};
use crate::config::endpoint::hashing::{Hashing, Shape};
use crate::config::load::{HostSource, LoadWeights};
use crate::config::zones::ZoneAwareness;

mod load;

/// How a host is chosen.
pub(super) struct Chosen {
    pub(super) balancing: Balancing,
    /// The table that this takes.
    pub(super) hashing: Option<Hashing>,
    /// What reports of load make of hosts.
    pub(super) loads: Option<Box<LoadWeights>>,
    /// Where requests may name their host.
    pub(super) named: Box<[HostSource]>,
}

impl From<Balancing> for Chosen {
    fn from(balancing: Balancing) -> Self {
        Self {
            balancing,
            hashing: None,
            loads: None,
            named: Box::default(),
        }
    }
}

/// Envoy's default size of a Maglev table, its greatest, and those of rings.
const MAGLEV: (u64, u64) = (65_537, 5_000_011);
const RING: (u64, u64) = (1024, 8 << 20);

/// How a host is chosen. The extension wins when both forms are there, as the API says.
pub(super) fn balancing(
    at: &At<'_>,
    policy: i32,
    config: Option<&LbConfig>,
    extension: Option<&LoadBalancingPolicy>,
    common: Option<&CommonLbConfig>,
) -> Result<Chosen, Rejection> {
    if let Some(extension) = extension {
        return extension_balancing(&at.field("load_balancing_policy"), extension);
    }
    let specifier = common.and_then(|common| common.locality_config_specifier.as_ref());
    let locality_weighted = matches!(specifier, Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(_)));
    let zones = old_zones(specifier);
    let plain = |policy, slow_start| {
        Chosen::from(Balancing {
            policy,
            locality_weighted,
            zones,
            slow_start,
        })
    };
    let consistent = common.and_then(|common| common.consistent_hashing_lb_config.as_ref());
    let by_hostname = || old_consistent(&at.field("common_lb_config"), consistent);
    let hashing = |shape, by_hostname| {
        Ok(by_hash(Hashing {
            shape,
            by_hostname,
            locality_weighted,
        }))
    };
    match (ProtoLbPolicy::try_from(policy), config) {
        (Ok(ProtoLbPolicy::RoundRobin), None) => Ok(plain(LbPolicy::RoundRobin, None)),
        (Ok(ProtoLbPolicy::RoundRobin), Some(LbConfig::RoundRobinLbConfig(config))) => {
            fields!(at, config => RoundRobinLbConfig { slow_start_config; ignore; refuse });
            let slow_start = old_slow_start(&at.field("round_robin_lb_config"), slow_start_config.as_ref())?;
            Ok(plain(LbPolicy::RoundRobin, slow_start))
        }
        (Ok(ProtoLbPolicy::LeastRequest), None) => Ok(plain(least_request(None, None), None)),
        (Ok(ProtoLbPolicy::LeastRequest), Some(LbConfig::LeastRequestLbConfig(config))) => {
            let at = at.field("least_request_lb_config");
            fields!(at, config => LeastRequestLbConfig {
                choice_count, slow_start_config, active_request_bias; ignore; refuse
            });
            let slow_start = old_slow_start(&at, slow_start_config.as_ref())?;
            let choices = number(choice_count.as_ref());
            Ok(plain(least_request(choices, active_request_bias.as_ref()), slow_start))
        }
        (Ok(ProtoLbPolicy::Random), None) => Ok(plain(LbPolicy::Random, None)),
        (Ok(ProtoLbPolicy::Maglev), None) => hashing(Shape::Maglev { size: MAGLEV.0 }, by_hostname()?),
        (Ok(ProtoLbPolicy::Maglev), Some(LbConfig::MaglevLbConfig(config))) => {
            fields!(at, config => MaglevLbConfig { table_size; ignore; refuse });
            hashing(
                maglev(&at.field("maglev_lb_config"), table_size.as_ref())?,
                by_hostname()?,
            )
        }
        (Ok(ProtoLbPolicy::RingHash), None) => hashing(ring(at, None, None)?, by_hostname()?),
        (Ok(ProtoLbPolicy::RingHash), Some(LbConfig::RingHashLbConfig(config))) => {
            hashing(old_ring(&at.field("ring_hash_lb_config"), config)?, by_hostname()?)
        }
        (
            Ok(
                ProtoLbPolicy::RoundRobin
                | ProtoLbPolicy::LeastRequest
                | ProtoLbPolicy::Random
                | ProtoLbPolicy::Maglev
                | ProtoLbPolicy::RingHash,
            ),
            Some(_),
        ) => Err(at.field("lb_config").error("is of another policy than lb_policy")),
        _ => Err(at.unsupported("lb_policy")),
    }
}

fn by_hash(hashing: Hashing) -> Chosen {
    let balancing = Balancing {
        policy: LbPolicy::Hash,
        locality_weighted: hashing.locality_weighted,
        zones: None,
        slow_start: None,
    };
    Chosen {
        hashing: Some(hashing),
        ..balancing.into()
    }
}

fn least_request(choices: Option<u32>, bias: Option<&RuntimeDouble>) -> LbPolicy {
    LbPolicy::LeastRequest {
        // The greatest number stands for all hosts.
        choices: choices.unwrap_or(2).clamp(2, ALL - 1),
        bias: active_request_bias(bias),
    }
}

/// In Envoy, what can't be a bias stands for the default.
fn active_request_bias(bias: Option<&RuntimeDouble>) -> f64 {
    let bias = bias.map(|bias| bias.default_value);
    bias.filter(|bias| *bias >= 0.0).unwrap_or(1.0)
}

fn maglev(at: &At<'_>, size: Option<&UInt64Value>) -> Result<Shape, Rejection> {
    let size = size.map_or(MAGLEV.0, |size| size.value);
    // Asked only of sizes within the bound.
    let is_prime = || {
        size > 1
            && (2..)
                .take_while(|factor| factor * factor <= size)
                .all(|factor| !size.is_multiple_of(factor))
    };
    if size > MAGLEV.1 || !is_prime() {
        let most = MAGLEV.1;
        return Err(at
            .field("table_size")
            .error(format!("{size} is not a prime of at most {most}")));
    }
    Ok(Shape::Maglev { size })
}

fn ring(at: &At<'_>, min: Option<&UInt64Value>, max: Option<&UInt64Value>) -> Result<Shape, Rejection> {
    let (min, max) = (min.map_or(RING.0, |min| min.value), max.map_or(RING.1, |max| max.value));
    if min > max || min > RING.1 || max > RING.1 || max == 0 {
        return Err(at
            .field("minimum_ring_size")
            .error(format!("{min} and the maximum of {max} are not the bounds of a ring")));
    }
    Ok(Shape::Ring { min, max })
}

fn old_ring(at: &At<'_>, config: &RingHashLbConfig) -> Result<Shape, Rejection> {
    fields!(at, config => RingHashLbConfig { minimum_ring_size, maximum_ring_size, hash_function; ignore; refuse });
    if *hash_function != OldHashFunction::XxHash as i32 {
        return Err(at.unsupported("hash_function"));
    }
    ring(at, minimum_ring_size.as_ref(), maximum_ring_size.as_ref())
}

fn old_consistent(at: &At<'_>, message: Option<&OldConsistent>) -> Result<bool, Rejection> {
    let Some(message) = message else { return Ok(false) };
    let at = at.field("consistent_hashing_lb_config");
    fields!(at, message => OldConsistent {
        use_hostname_for_hashing; ignore; refuse hash_balance_factor
    });
    Ok(*use_hostname_for_hashing)
}

fn consistent(at: &At<'_>, message: Option<&ConsistentHashingLbConfig>) -> Result<bool, Rejection> {
    let Some(message) = message else { return Ok(false) };
    let at = at.field("consistent_hashing_lb_config");
    fields!(at, message => ConsistentHashingLbConfig {
        use_hostname_for_hashing; ignore; refuse hash_balance_factor, hash_policy
    });
    Ok(*use_hostname_for_hashing)
}

fn old_slow_start(at: &At<'_>, message: Option<&OldSlowStart>) -> Result<Option<SlowStart>, Rejection> {
    let Some(message) = message else { return Ok(None) };
    let at = at.field("slow_start_config");
    fields!(at, message => OldSlowStart {
        slow_start_window, aggression, min_weight_percent; ignore; refuse
    });
    let aggression = aggression.as_ref().map(|value| value.default_value);
    slow(&at, slow_start_window.as_ref(), aggression, min_weight_percent.as_ref())
}

fn slow_start(at: &At<'_>, message: Option<&SlowStartConfig>) -> Result<Option<SlowStart>, Rejection> {
    let Some(message) = message else { return Ok(None) };
    let at = at.field("slow_start_config");
    fields!(at, message => SlowStartConfig {
        slow_start_window, aggression, min_weight_percent; ignore; refuse
    });
    let aggression = aggression.as_ref().map(|value| value.default_value);
    slow(&at, slow_start_window.as_ref(), aggression, min_weight_percent.as_ref())
}

fn slow(
    at: &At<'_>,
    window: Option<&envoy_types::pb::google::protobuf::Duration>,
    aggression: Option<f64>,
    least: Option<&Percent>,
) -> Result<Option<SlowStart>, Rejection> {
    let Some(window) = window else { return Ok(None) };
    let window = duration(&at.field("slow_start_window"), window)?;
    let aggression = aggression.unwrap_or(1.0);
    if aggression.is_nan() || aggression <= 0.0 {
        return Err(at.field("aggression").error("must be more than 0"));
    }
    // Envoy's default is 10 per cent.
    let least = least.map_or(10.0, |least| least.value.clamp(0.0, 100.0)) / 100.0;
    Ok((window > Duration::ZERO).then_some(SlowStart {
        window,
        aggression,
        least,
    }))
}

/// The first policy that this proxy knows, as the API says.
fn extension_balancing(at: &At<'_>, message: &LoadBalancingPolicy) -> Result<Chosen, Rejection> {
    let list = at.field("policies");
    let mut unknown = Vec::new();
    for (index, policy) in message.policies.iter().enumerate() {
        let at = list.index(index);
        let at = at.field("typed_extension_config");
        let Some(config) = policy
            .typed_extension_config
            .as_ref()
            .and_then(|config| config.typed_config.as_ref())
        else {
            return Err(at.error("is required"));
        };
        let at = at.field("typed_config");
        if is::<LeastRequest>(config) {
            return least_request_extension(&at, &unpack(&at, config)?);
        }
        if is::<RoundRobin>(config) {
            let message: RoundRobin = unpack(&at, config)?;
            fields!(at, &message => RoundRobin { locality_lb_config, slow_start_config; ignore; refuse });
            let slow_start = slow_start(&at, slow_start_config.as_ref())?;
            return localities(&at, LbPolicy::RoundRobin, locality_lb_config.as_ref(), slow_start);
        }
        if is::<Random>(config) {
            let message: Random = unpack(&at, config)?;
            fields!(at, &message => Random { locality_lb_config; ignore; refuse });
            return localities(&at, LbPolicy::Random, locality_lb_config.as_ref(), None);
        }
        if is::<Maglev>(config) {
            let message: Maglev = unpack(&at, config)?;
            fields!(at, &message => Maglev {
                table_size, consistent_hashing_lb_config, locality_weighted_lb_config; ignore; refuse
            });
            return Ok(by_hash(Hashing {
                shape: maglev(&at, table_size.as_ref())?,
                by_hostname: consistent(&at, consistent_hashing_lb_config.as_ref())?,
                locality_weighted: locality_weighted_lb_config.is_some(),
            }));
        }
        if is::<RingHash>(config) {
            return ring_extension(&at, &unpack(&at, config)?);
        }
        if is::<ClientSideWeightedRoundRobin>(config) {
            return load::by_load(&at, &unpack(&at, config)?);
        }
        if is::<WrrLocality>(config) {
            return load::by_locality(&at, &unpack(&at, config)?);
        }
        if is::<OverrideHost>(config) {
            return load::named(&at, &unpack(&at, config)?);
        }
        unknown.push(type_name(config).to_owned());
    }
    Err(list.error(format!("none of {} is supported by this proxy", unknown.join(", "))))
}

fn least_request_extension(at: &At<'_>, message: &LeastRequest) -> Result<Chosen, Rejection> {
    fields!(at, message => LeastRequest {
        choice_count, locality_lb_config, slow_start_config, selection_method, active_request_bias;
        // Envoy doesn't look at it any more.
        ignore enable_full_scan;
        refuse
    });
    let bias = active_request_bias.as_ref();
    let policy = match SelectionMethod::try_from(*selection_method) {
        Ok(SelectionMethod::NChoices) => least_request(number(choice_count.as_ref()), bias),
        Ok(SelectionMethod::FullScan) => LbPolicy::LeastRequest {
            choices: ALL,
            bias: self::active_request_bias(bias),
        },
        Err(_) => return Err(at.unsupported("selection_method")),
    };
    let slow_start = slow_start(at, slow_start_config.as_ref())?;
    localities(at, policy, locality_lb_config.as_ref(), slow_start)
}

fn ring_extension(at: &At<'_>, message: &RingHash) -> Result<Chosen, Rejection> {
    fields!(at, message => RingHash {
        hash_function, minimum_ring_size, maximum_ring_size, use_hostname_for_hashing, consistent_hashing_lb_config,
        locality_weighted_lb_config;
        ignore;
        refuse hash_balance_factor
    });
    if *hash_function == HashFunction::MurmurHash2 as i32 {
        return Err(at.unsupported("hash_function"));
    }
    Ok(by_hash(Hashing {
        shape: ring(at, minimum_ring_size.as_ref(), maximum_ring_size.as_ref())?,
        by_hostname: match consistent_hashing_lb_config.as_ref() {
            None => *use_hostname_for_hashing,
            config => consistent(at, config)?,
        },
        locality_weighted: locality_weighted_lb_config.is_some(),
    }))
}

fn localities(
    at: &At<'_>,
    policy: LbPolicy,
    message: Option<&LocalityLbConfig>,
    slow_start: Option<SlowStart>,
) -> Result<Chosen, Rejection> {
    let specifier = message.and_then(|message| message.locality_config_specifier.as_ref());
    let zones = match specifier {
        None => Some(ZoneAwareness::default()),
        Some(LocalityConfig::LocalityWeightedLbConfig(_)) => None,
        Some(LocalityConfig::ZoneAwareLbConfig(config)) => Some(zones(&at.field("locality_lb_config"), config)?),
    };
    let balancing = Balancing {
        policy,
        locality_weighted: matches!(specifier, Some(LocalityConfig::LocalityWeightedLbConfig(_))),
        zones,
        slow_start,
    };
    Ok(balancing.into())
}

fn old_zones(specifier: Option<&LocalityConfigSpecifier>) -> Option<ZoneAwareness> {
    let message = match specifier {
        None => return Some(ZoneAwareness::default()),
        Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(_)) => return None,
        Some(LocalityConfigSpecifier::ZoneAwareLbConfig(message)) => message,
    };
    fields!(At::root(), message => OldZoneAware {
        routing_enabled, min_cluster_size, fail_traffic_on_panic; ignore; refuse
    });
    let size = min_cluster_size.as_ref();
    Some(aware(routing_enabled.as_ref(), size, *fail_traffic_on_panic))
}

/// How far the own locality comes first. Who says nothing of localities gets Envoy's defaults, which need a local
/// cluster.
fn zones(at: &At<'_>, message: &ZoneAwareLbConfig) -> Result<ZoneAwareness, Rejection> {
    let at = at.field("zone_aware_lb_config");
    fields!(at, message => ZoneAwareLbConfig {
        routing_enabled, min_cluster_size, fail_traffic_on_panic, force_locality_direct_routing, force_local_zone;
        ignore;
        refuse locality_basis
    });
    let least = |force: &ForceLocalZone| number(force.min_size.as_ref()).unwrap_or(1);
    Ok(ZoneAwareness {
        force: force_local_zone
            .as_ref()
            .map(least)
            .or(force_locality_direct_routing.then_some(1)),
        ..aware(
            routing_enabled.as_ref(),
            min_cluster_size.as_ref(),
            *fail_traffic_on_panic,
        )
    })
}

fn aware(enabled: Option<&Percent>, size: Option<&UInt64Value>, fails_in_panic: bool) -> ZoneAwareness {
    let usual = ZoneAwareness::default();
    ZoneAwareness {
        min_cluster_size: size.map_or(usual.min_cluster_size, |size| size.value),
        percent: enabled.map_or(usual.percent, |percent| percent.value.clamp(0.0, 100.0).round() as u32),
        fails_in_panic,
        ..usual
    }
}
