//! ExternalProcessor → [`Processor`].

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutationRules;
use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{GrpcService, HeaderValue as ProtoHeader};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ext_proc_per_route::Override as OfRoute;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::external_processor::RouteCacheAction;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::metadata_options::MetadataNamespaces;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::{
    ExtProcOverrides, ExtProcPerRoute, ExternalProcessor, HeaderForwardingRules, MetadataOptions, ProcessingMode,
};
use envoy_types::pb::envoy::r#type::matcher::v3::ListStringMatcher;
use envoy_types::pb::google::protobuf::Any;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration_or, fields, truth, unpack};
use crate::compile::header::{full_regex, string_condition};
use crate::compile::retry;
use crate::compile::template::header_name;
use crate::config::ClusterId;
use crate::config::filter::ext_proc::{
    Attribute, BodyMode, Mode, Modes, MutationRules, Names, Override, Processor, ProcessorOfRoute, Reroute, Role,
    Service,
};
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::header::StringCondition;

/// How long the service may take where nothing is said.
const USUAL_TIMEOUT: Duration = Duration::from_millis(200);
/// How long one that watches has for its end where nothing is said.
const USUAL_PATIENCE: Duration = Duration::from_secs(5);
/// How long one that is waited for has.
const PATIENCE: Duration = Duration::from_secs(1);

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: ExternalProcessor = unpack(at, config)?;
    fields!(at, &message => ExternalProcessor {
        grpc_service, failure_mode_allow, processing_mode, request_attributes, response_attributes, message_timeout,
        mutation_rules, max_message_timeout, forward_rules, allow_mode_override, disable_immediate_response,
        metadata_options, observability_mode, disable_clear_route_cache, route_cache_action, deferred_close_timeout,
        allowed_override_modes, status_on_error;
        // Statistics, logs and traces.
        ignore stat_prefix, filter_metadata, emit_client_span;
        refuse http_service, send_body_without_waiting_for_header_response, processing_request_modifier,
               on_processing_response, allow_content_length_header
    });
    let at_service = at.field("grpc_service");
    let Some(message) = grpc_service else {
        return Err(at_service.error("is required"));
    };
    let service = service(&at_service, message, context)?;
    let at_modes = at.field("processing_mode");
    let modes = modes(&at_modes, &processing_mode.unwrap_or_default())?;
    let code = status_on_error.as_ref().map_or(500, |status| status.code);
    let status = u16::try_from(code)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or_else(|| at.field("status_on_error").error(format!("{code} is not a status")))?;
    let role = match observability_mode {
        true => Role::Watches,
        false => Role::Processes,
    };
    let metadata = metadata_options.clone().unwrap_or_default();
    let (readable, writable) = self::metadata(&at.field("metadata_options"), &metadata)?;
    let (readable, writable) = (readable.unwrap_or_default(), writable.unwrap_or_default());
    let forwarded = forward_rules.clone().unwrap_or_default();
    let (forwarded_headers, withheld_headers) = forward(&at.field("forward_rules"), &forwarded)?;
    let rules = mutation_rules.clone().unwrap_or_default();
    let time = |field, value: &Option<_>, usual| duration_or(&at.field(field), value.as_ref(), usual);
    Ok(FilterKind::Processor(Arc::new(Processor {
        service,
        modes,
        role,
        may_fail: *failure_mode_allow,
        on_error: status,
        timeout: time("message_timeout", message_timeout, USUAL_TIMEOUT)?,
        max_timeout: time("max_message_timeout", max_message_timeout, Duration::ZERO)?,
        patience: match role {
            Role::Watches => time("deferred_close_timeout", deferred_close_timeout, USUAL_PATIENCE)?,
            Role::Processes => PATIENCE,
        },
        overrides: overrides(at, *allow_mode_override, allowed_override_modes)?,
        may_answer: !disable_immediate_response,
        reroute: match (
            disable_clear_route_cache,
            RouteCacheAction::try_from(*route_cache_action),
        ) {
            (true, _) | (_, Ok(RouteCacheAction::Retain)) => Reroute::Never,
            (_, Ok(RouteCacheAction::Clear)) => Reroute::Always,
            (_, Ok(RouteCacheAction::Default)) => Reroute::OnDemand,
            (_, Err(_)) => return Err(at.field("route_cache_action").error("is not known")),
        },
        of_request: attributes(&at.field("request_attributes"), request_attributes)?,
        of_response: attributes(&at.field("response_attributes"), response_attributes)?,
        forwarded_headers,
        withheld_headers,
        readable,
        writable,
        rules: Arc::new(self::rules(&at.field("mutation_rules"), &rules, context)?),
    })))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: ExtProcPerRoute = unpack(at, config)?;
    match &message.r#override {
        Some(OfRoute::Disabled(true)) => Ok(FilterSettings::Processor(None)),
        Some(OfRoute::Disabled(false)) => Err(at.field("disabled").error("must be true")),
        Some(OfRoute::Overrides(said)) => {
            let said = of_route_otherwise(&at.field("overrides"), said, context)?;
            Ok(FilterSettings::Processor(Some(Box::new(said))))
        }
        None => Err(at.error("disabled or overrides is required")),
    }
}

fn of_route_otherwise(
    at: &At<'_>,
    message: &ExtProcOverrides,
    context: &mut Context,
) -> Result<ProcessorOfRoute, Rejection> {
    fields!(at, message => ExtProcOverrides {
        processing_mode, grpc_service, metadata_options, grpc_initial_metadata, failure_mode_allow;
        // Traces, and what Envoy itself has no use for.
        ignore emit_client_span, async_mode, request_attributes, response_attributes;
        refuse processing_request_modifier
    });
    let modes = processing_mode.map(|message| modes(&at.field("processing_mode"), &message));
    let at_service = at.field("grpc_service");
    let service = grpc_service
        .as_ref()
        .map(|message| service(&at_service, message, context));
    let metadata = metadata_options.clone().unwrap_or_default();
    let (readable, writable) = self::metadata(&at.field("metadata_options"), &metadata)?;
    let list = at.field("grpc_initial_metadata");
    let headers = grpc_initial_metadata.iter().enumerate();
    Ok(ProcessorOfRoute {
        service: service.transpose()?,
        headers: headers
            .map(|(index, message)| header(&list.index(index), message))
            .collect::<Result<_, _>>()?,
        modes: modes.transpose()?,
        may_fail: failure_mode_allow.as_ref().map(|may| may.value),
        readable,
        writable,
    })
}

/// A header that comes with a call.
fn header(at: &At<'_>, message: &ProtoHeader) -> Result<(HeaderName, HeaderValue), Rejection> {
    fields!(at, message => ProtoHeader { key, value; ignore; refuse raw_value });
    let name = header_name(&at.field("key"), key)?;
    let value = HeaderValue::from_str(value);
    Ok((
        name,
        value.map_err(|_| at.field("value").error("can't stand in a header"))?,
    ))
}

fn service(at: &At<'_>, message: &GrpcService, context: &mut Context) -> Result<Service, Rejection> {
    fields!(at, message => GrpcService {
        target_specifier, timeout, retry_policy; ignore; refuse initial_metadata
    });
    // Of the whole stream: what is waited for is each answer.
    if timeout.is_some() {
        return Err(at.unsupported("timeout"));
    }
    let Some(TargetSpecifier::EnvoyGrpc(target)) = target_specifier else {
        return Err(at.field("envoy_grpc").error("is required"));
    };
    let retry = retry::of_service(context, at, retry_policy.as_ref(), None)?;
    let at = at.field("envoy_grpc");
    fields!(at, target => EnvoyGrpc {
        cluster_name, authority; ignore max_receive_message_length; refuse retry_policy, skip_envoy_headers
    });
    let name = if authority.is_empty() { cluster_name } else { authority };
    let authority = HeaderValue::from_str(name).map_err(|_| at.field("authority").error("is not a host"))?;
    let cluster = ClusterId(context.clusters.intern(cluster_name));
    Ok(Service {
        cluster,
        authority,
        retry: retry.map(Arc::from),
        headers: Arc::default(),
    })
}

fn modes(at: &At<'_>, message: &ProcessingMode) -> Result<Modes, Rejection> {
    fields!(at, message => ProcessingMode {
        request_header_mode, response_header_mode, request_body_mode, response_body_mode, request_trailer_mode,
        response_trailer_mode;
        ignore;
        refuse
    });
    let head = |field, mode| Ok::<_, Rejection>(sends(&at.field(field), mode)?.unwrap_or(true));
    let trailers = |field, mode| Ok::<_, Rejection>(sends(&at.field(field), mode)?.unwrap_or(false));
    let request = Mode {
        head: head("request_header_mode", *request_header_mode)?,
        body: body(&at.field("request_body_mode"), *request_body_mode)?,
        trailers: trailers("request_trailer_mode", *request_trailer_mode)?,
    };
    let response = Mode {
        head: head("response_header_mode", *response_header_mode)?,
        body: body(&at.field("response_body_mode"), *response_body_mode)?,
        trailers: trailers("response_trailer_mode", *response_trailer_mode)?,
    };
    for (mode, field) in [(request, "request_trailer_mode"), (response, "response_trailer_mode")] {
        if mode.body == BodyMode::Duplex && !mode.trailers {
            return Err(at
                .field(field)
                .error("must be SEND where the body is FULL_DUPLEX_STREAMED"));
        }
    }
    Ok(Modes { request, response })
}

fn sends(at: &At<'_>, mode: i32) -> Result<Option<bool>, Rejection> {
    match HeaderSendMode::try_from(mode) {
        Ok(HeaderSendMode::Default) => Ok(None),
        Ok(HeaderSendMode::Send) => Ok(Some(true)),
        Ok(HeaderSendMode::Skip) => Ok(Some(false)),
        Err(_) => Err(at.error("is not known")),
    }
}

fn body(at: &At<'_>, mode: i32) -> Result<BodyMode, Rejection> {
    match BodySendMode::try_from(mode) {
        Ok(BodySendMode::Grpc) => Err(at.error("GRPC is not supported by this proxy")),
        Ok(mode) => BodyMode::of(mode).ok_or_else(|| at.error("is not known")),
        Err(_) => Err(at.error("is not known")),
    }
}

/// What the service may choose to see.
fn overrides(at: &At<'_>, is_allowed: bool, list: &[ProcessingMode]) -> Result<Option<Arc<[Override]>>, Rejection> {
    let at = at.field("allowed_override_modes");
    let list = list.iter().enumerate().map(|(index, message)| {
        let at = at.index(index);
        Override::of(message).ok_or_else(|| at.error("is not supported by this proxy"))
    });
    let list = list.collect::<Result<_, _>>()?;
    Ok(is_allowed.then_some(list))
}

fn attributes(at: &At<'_>, names: &[String]) -> Result<Arc<[Attribute]>, Rejection> {
    let named = names.iter().enumerate().map(|(index, name)| {
        let known = Attribute::ALL.iter().find(|(known, _)| known == name);
        known.map(|(_, attribute)| *attribute).ok_or_else(|| {
            at.index(index)
                .error(format!("{name:?} is not supported by this proxy"))
        })
    });
    named.collect()
}

/// The namespaces that the service is told, and those that it may write.
fn metadata(at: &At<'_>, message: &MetadataOptions) -> Result<(Option<Names>, Option<Names>), Rejection> {
    fields!(at, message => MetadataOptions {
        forwarding_namespaces, receiving_namespaces; ignore; refuse cluster_metadata_forwarding_namespaces
    });
    let names = |field: &str, namespaces: &Option<MetadataNamespaces>| {
        let Some(namespaces) = namespaces else { return Ok(None) };
        let at = at.field(field);
        fields!(at, namespaces => MetadataNamespaces { untyped; ignore; refuse typed });
        Ok::<_, Rejection>(Some(untyped.iter().map(|name| name.as_str().into()).collect::<Names>()))
    };
    Ok((
        names("forwarding_namespaces", forwarding_namespaces)?,
        names("receiving_namespaces", receiving_namespaces)?,
    ))
}

type Conditions = Arc<[StringCondition]>;

/// The headers that the service is told, and those that it isn't.
fn forward(at: &At<'_>, message: &HeaderForwardingRules) -> Result<(Option<Conditions>, Conditions), Rejection> {
    fields!(at, message => HeaderForwardingRules { allowed_headers, disallowed_headers; ignore; refuse });
    let list = |field: &str, list: &Option<ListStringMatcher>| {
        let (at, list) = (at.field(field), list.clone().unwrap_or_default());
        let at = at.field("patterns");
        let conditions = list.patterns.iter().enumerate();
        let conditions = conditions.map(|(index, matcher)| string_condition(&at.index(index), matcher));
        conditions.collect::<Result<Conditions, _>>()
    };
    let told = list("allowed_headers", allowed_headers)?;
    // As in Envoy an empty list is none.
    Ok((
        (!told.is_empty()).then_some(told),
        list("disallowed_headers", disallowed_headers)?,
    ))
}

fn rules(at: &At<'_>, message: &HeaderMutationRules, context: &Context) -> Result<MutationRules, Rejection> {
    fields!(at, message => HeaderMutationRules {
        allow_all_routing, allow_envoy, disallow_system, disallow_all, allow_expression, disallow_expression,
        disallow_is_error;
        ignore;
        refuse
    });
    let expression = |field: &str, matcher: &Option<_>| {
        let regex = matcher.as_ref().map(|matcher| full_regex(&at.field(field), matcher));
        Ok::<_, Rejection>(regex.transpose()?.map(|regex| StringCondition::Regex(Box::new(regex))))
    };
    let internal = context.prefixed.internal.as_str();
    let prefix = internal.strip_suffix("-internal").unwrap_or(internal);
    Ok(MutationRules {
        routing: truth(allow_all_routing.as_ref()),
        own_prefix: (!truth(allow_envoy.as_ref())).then(|| prefix.into()),
        system: !truth(disallow_system.as_ref()),
        any: !truth(disallow_all.as_ref()),
        allowed: expression("allow_expression", allow_expression)?,
        disallowed: expression("disallow_expression", disallow_expression)?,
        strict: truth(disallow_is_error.as_ref()),
    })
}
