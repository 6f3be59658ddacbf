//! Load balancing policies, in Envoy's older form (`lb_policy`) and as extensions.

use envoy_types::pb::envoy::config::cluster::v3::LoadBalancingPolicy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::common_lb_config::LocalityConfigSpecifier;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{CommonLbConfig, LbConfig, LbPolicy as ProtoLbPolicy};
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::LocalityLbConfig;
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::locality_lb_config::LocalityConfigSpecifier as LocalityConfig;
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3::LeastRequest;
use envoy_types::pb::envoy::extensions::load_balancing_policies::random::v3::Random;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;

use crate::compile::field::{At, Rejection, fields, is, number, type_name, unpack};
use crate::config::cluster::{Balancing, LbPolicy};

/// How a host is chosen. The extension wins when both forms are there, as the API says.
pub(super) fn balancing(
    at: &At<'_>,
    policy: i32,
    config: Option<&LbConfig>,
    extension: Option<&LoadBalancingPolicy>,
    common: Option<&CommonLbConfig>,
) -> Result<Balancing, Rejection> {
    if let Some(extension) = extension {
        return extension_balancing(&at.field("load_balancing_policy"), extension);
    }
    let locality_weighted = matches!(
        common.and_then(|common| common.locality_config_specifier.as_ref()),
        Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(_))
    );
    let mut choices = 2;
    match config {
        None => {}
        Some(LbConfig::LeastRequestLbConfig(config)) => {
            let at = at.field("least_request_lb_config");
            if config.slow_start_config.is_some() || config.active_request_bias.is_some() {
                return Err(at.error("slow_start_config and active_request_bias are not supported by this proxy"));
            }
            choices = number(config.choice_count.as_ref()).unwrap_or(2).max(2);
        }
        Some(LbConfig::RoundRobinLbConfig(config)) if config.slow_start_config.is_none() => {}
        Some(_) => return Err(at.unsupported("lb_config")),
    }
    let policy = match ProtoLbPolicy::try_from(policy) {
        Ok(ProtoLbPolicy::RoundRobin) => LbPolicy::RoundRobin,
        Ok(ProtoLbPolicy::LeastRequest) => LbPolicy::LeastRequest { choices },
        Ok(ProtoLbPolicy::Random) => LbPolicy::Random,
        _ => return Err(at.unsupported("lb_policy")),
    };
    Ok(Balancing {
        policy,
        locality_weighted,
    })
}

/// The first policy that this proxy knows, as the API says.
fn extension_balancing(at: &At<'_>, message: &LoadBalancingPolicy) -> Result<Balancing, Rejection> {
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
            let message: LeastRequest = unpack(&at, config)?;
            fields!(at, &message => LeastRequest {
                choice_count, locality_lb_config;
                ignore enable_full_scan, selection_method;
                refuse active_request_bias, slow_start_config
            });
            let choices = number(choice_count.as_ref()).unwrap_or(2).max(2);
            return Ok(localities(
                LbPolicy::LeastRequest { choices },
                locality_lb_config.as_ref(),
            ));
        }
        if is::<RoundRobin>(config) {
            let message: RoundRobin = unpack(&at, config)?;
            fields!(at, &message => RoundRobin { locality_lb_config; ignore; refuse slow_start_config });
            return Ok(localities(LbPolicy::RoundRobin, locality_lb_config.as_ref()));
        }
        if is::<Random>(config) {
            let message: Random = unpack(&at, config)?;
            return Ok(localities(LbPolicy::Random, message.locality_lb_config.as_ref()));
        }
        unknown.push(type_name(config).to_owned());
    }
    Err(list.error(format!("none of {} is supported by this proxy", unknown.join(", "))))
}

fn localities(policy: LbPolicy, message: Option<&LocalityLbConfig>) -> Balancing {
    let specifier = message.and_then(|message| message.locality_config_specifier.as_ref());
    Balancing {
        policy,
        locality_weighted: matches!(specifier, Some(LocalityConfig::LocalityWeightedLbConfig(_))),
    }
}
