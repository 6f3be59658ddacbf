//! Services that what was observed is sent to → [`Collector`].

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{GrpcService, HeaderValue as ProtoHeader};
use envoy_types::pb::google::protobuf::{Duration as ProtoDuration, UInt32Value};
use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, KeyValue};
use http::{HeaderName, HeaderValue};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, deadline, fields, number};
use crate::config::ClusterId;
use crate::config::collector::{Collector, Form};

/// Envoy's default of how long entries are gathered.
const PATIENCE: Duration = Duration::from_secs(1);
/// Envoy's default of how many bytes are.
const FULL: u32 = 16 * 1024;
/// How long a call may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How entries are gathered.
#[derive(Clone, Copy, Default)]
pub(super) struct Gathering<'a> {
    /// `buffer_flush_interval`
    pub(super) interval: Option<&'a ProtoDuration>,
    /// `buffer_size_bytes`
    pub(super) size: Option<&'a UInt32Value>,
}

/// Compiles a service.
pub(super) fn grpc(
    context: &mut Context,
    at: &At<'_>,
    message: Option<&GrpcService>,
    gathering: Gathering<'_>,
    form: Form,
) -> Result<Collector, Rejection> {
    let at = at.field("grpc_service");
    let Some(message) = message else {
        return Err(at.error("is required"));
    };
    fields!(at, message => GrpcService {
        target_specifier, timeout, initial_metadata; ignore; refuse retry_policy
    });
    let Some(TargetSpecifier::EnvoyGrpc(target)) = target_specifier else {
        return Err(at.field("envoy_grpc").error("is required"));
    };
    let list = at.field("initial_metadata");
    let fields = initial_metadata.iter().enumerate();
    let metadata = fields.map(|(index, field)| self::field(&list.index(index), field));
    let metadata = metadata.collect::<Result<_, _>>()?;
    let timeout = deadline(&at.field("timeout"), timeout.as_ref(), Some(TIMEOUT))?.unwrap_or(TIMEOUT);
    let at = at.field("envoy_grpc");
    fields!(at, target => EnvoyGrpc {
        cluster_name, authority; ignore max_receive_message_length; refuse retry_policy, skip_envoy_headers
    });
    let name = if authority.is_empty() { cluster_name } else { authority };
    let interval = deadline(&at.field("buffer_flush_interval"), gathering.interval, Some(PATIENCE))?;
    Ok(Collector {
        cluster: ClusterId(context.clusters.intern(cluster_name)),
        cluster_name: Arc::from(cluster_name.as_str()),
        authority: HeaderValue::from_str(name).map_err(|_| at.field("authority").error("is not a host"))?,
        metadata,
        timeout,
        patience: interval.unwrap_or(PATIENCE),
        full: number(gathering.size).unwrap_or(FULL) as usize,
        form,
    })
}

/// A service that is called over HTTP.
pub(super) fn http(
    context: &mut Context,
    at: &At<'_>,
    cluster_name: &str,
    host: &str,
    form: Form,
) -> Result<Collector, Rejection> {
    if cluster_name.is_empty() {
        return Err(at.field("collector_cluster").error("is required"));
    }
    let name = if host.is_empty() { cluster_name } else { host };
    Ok(Collector {
        cluster: ClusterId(context.clusters.intern(cluster_name)),
        cluster_name: Arc::from(cluster_name),
        authority: HeaderValue::from_str(name).map_err(|_| at.field("collector_hostname").error("is not a host"))?,
        metadata: Box::default(),
        timeout: TIMEOUT,
        patience: PATIENCE,
        full: FULL as usize,
        form,
    })
}

/// An attribute in OTLP.
pub(super) fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn field(at: &At<'_>, message: &ProtoHeader) -> Result<(HeaderName, HeaderValue), Rejection> {
    fields!(at, message => ProtoHeader { key, value; ignore; refuse raw_value });
    if value.contains('%') {
        return Err(at.field("value").error("has a command operator"));
    }
    let name = HeaderName::from_bytes(key.as_bytes()).map_err(|_| at.field("key").error("is not a name"))?;
    let value = HeaderValue::from_str(value).map_err(|_| at.field("value").error("is not a value"))?;
    Ok((name, value))
}
