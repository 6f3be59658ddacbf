//! Limits on the connections of a filter chain.

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::network::connection_limit::v3::ConnectionLimit as Message;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::field::{At, Rejection, duration_or, fields, unpack};
use crate::config::connection_limit::ConnectionLimit;

/// Compiles a limit; `None` when it is switched off.
pub(super) fn connection_limit(at: &At<'_>, config: &Any) -> Result<Option<ConnectionLimit>, Rejection> {
    let message: Message = unpack(at, config)?;
    fields!(at, &message => Message {
        max_connections, delay, runtime_enabled;
        // A name for statistics.
        ignore stat_prefix;
        refuse
    });
    let most = match max_connections {
        Some(most) if most.value > 0 => most.value,
        _ => return Err(at.field("max_connections").error("must be at least 1")),
    };
    let delay = duration_or(&at.field("delay"), delay.as_ref(), Duration::ZERO)?;
    let default = runtime_enabled.as_ref().and_then(|flag| flag.default_value.as_ref());
    let is_on = default.is_none_or(|default| default.value);
    Ok(is_on.then(|| ConnectionLimit::new(most, delay)))
}
