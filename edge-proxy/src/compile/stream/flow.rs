//! The matcher of a UDP proxy → [`FlowRoute`].

use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::Route;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::SourcePortInput;
use envoy_types::pb::envoy::extensions::matching::input_matchers::consistent_hashing::v3::ConsistentHashing;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::OnMatch;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::Predicate;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, SinglePredicate, single_predicate,
};
use prost::{Message, Name};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::matcher;
use crate::config::ClusterId;
use crate::config::stream::{FlowRoute, PortHash};

/// A list of shares of the flows by the hash of their source port, and where all others go.
pub(super) fn route(context: &mut Context, at: &At<'_>, message: &Matcher) -> Result<FlowRoute, Rejection> {
    fields!(at, message => Matcher { matcher_type, on_no_match; ignore; refuse });
    let Some(otherwise) = on_no_match.as_deref() else {
        return Err(at.field("on_no_match").error("is required"));
    };
    let otherwise = cluster(context, &at.field("on_no_match"), otherwise)?;
    let shares = matcher::entries(at, matcher_type.as_ref(), |at, predicate, on_match| {
        let hash = port_hash(&at.field("predicate"), predicate)?;
        Ok((hash, cluster(context, &at.field("on_match"), on_match)?))
    })?;
    Ok(FlowRoute { shares, otherwise })
}

fn port_hash(at: &At<'_>, message: &Predicate) -> Result<PortHash, Rejection> {
    let Some(MatchType::SinglePredicate(message)) = &message.match_type else {
        return Err(at.error("only single_predicate is supported by this proxy"));
    };
    let at = at.field("single_predicate");
    fields!(at, message => SinglePredicate { input, matcher; ignore; refuse });
    let _: SourcePortInput = extension(&at.field("input"), input.as_ref())?;
    let Some(single_predicate::Matcher::CustomMatch(custom)) = matcher else {
        return Err(at.unsupported("value_match"));
    };
    let at = at.field("custom_match");
    let message: ConsistentHashing = extension(&at, Some(custom))?;
    fields!(at, &message => ConsistentHashing { threshold, modulo, seed; ignore; refuse });
    if *modulo == 0 {
        return Err(at.field("typed_config").field("modulo").error("must be at least 1"));
    }
    Ok(PortHash {
        threshold: *threshold,
        modulo: *modulo,
        seed: *seed,
    })
}

fn cluster(context: &mut Context, at: &At<'_>, message: &OnMatch) -> Result<ClusterId, Rejection> {
    let action = matcher::action(at, message)?;
    let at = at.field("action");
    let message: Route = extension(&at, Some(action))?;
    fields!(at, &message => Route { cluster; ignore; refuse });
    Ok(ClusterId(context.clusters.intern(cluster)))
}

/// The message inside; the name only identifies, the type says what it is.
fn extension<M: Message + Name + Default>(at: &At<'_>, message: Option<&TypedExtensionConfig>) -> Result<M, Rejection> {
    let at = at.field("typed_config");
    match message.and_then(|message| message.typed_config.as_ref()) {
        Some(config) => unpack(&at, config),
        None => Err(at.error("is required")),
    }
}
