//! VirtualHost → [`VirtualHost`], with its routes.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::virtual_host::TlsRequirementType;
use envoy_types::pb::envoy::config::route::v3::{RetryPolicy as ProtoRetryPolicy, VirtualHost as ProtoVirtualHost};
use envoy_types::pb::envoy::config::route::v3::{Route as ProtoRoute, RouteMatch};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::google::protobuf::{UInt32Value, UInt64Value};
use prost::Message;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, Rejections, fields, number};
use crate::compile::filter;
use crate::compile::header::{cookie_condition, full_regex, header_condition, query_condition};
use crate::compile::route_action::{self, Inherited};
use crate::compile::route_table::Outline;
use crate::compile::tracing;
use crate::config::header::{HeaderStep, HeaderSteps};
use crate::config::route::{Fraction, PathCondition, Route};
use crate::config::table::{PathIndex, TlsRequirement, VirtualHost};

/// Names of the edit lists in the messages.
pub(super) const REQUEST: (&str, &str) = ("request_headers_to_add", "request_headers_to_remove");
pub(super) const RESPONSE: (&str, &str) = ("response_headers_to_add", "response_headers_to_remove");

/// The edits of one level.
#[derive(Debug, Default)]
pub(super) struct Edits {
    pub(super) request: Vec<HeaderStep>,
    pub(super) response: Vec<HeaderStep>,
}

macro_rules! edits_of {
    ($at:expr, $request_add:expr, $request_remove:expr, $response_add:expr, $response_remove:expr) => {
        $crate::compile::route::Edits {
            request: $crate::compile::header::edits(
                $at,
                $crate::compile::route::REQUEST,
                $request_add,
                $request_remove,
            )?,
            response: $crate::compile::header::edits(
                $at,
                $crate::compile::route::RESPONSE,
                $response_add,
                $response_remove,
            )?,
        }
    };
}
pub(super) use edits_of;

/// The edits around a route, and which end goes first.
#[derive(Clone, Copy)]
pub(super) struct Levels<'a> {
    table: &'a Edits,
    host: &'a Edits,
    specific_last: bool,
}

impl Levels<'_> {
    /// All edits of a request: from the most specific level to the widest, or the other way round when the most
    /// specific one is to win.
    pub(super) fn request(&self, own: &[&[HeaderStep]]) -> HeaderSteps {
        self.join(own, &self.host.request, &self.table.request)
    }

    /// The same for a response.
    pub(super) fn response(&self, own: &[&[HeaderStep]]) -> HeaderSteps {
        self.join(own, &self.host.response, &self.table.response)
    }

    fn join(&self, own: &[&[HeaderStep]], host: &[HeaderStep], table: &[HeaderStep]) -> HeaderSteps {
        let mut levels: Vec<&[HeaderStep]> = own.to_vec();
        levels.extend([host, table]);
        if self.specific_last {
            levels.reverse();
        }
        levels.concat().into()
    }
}

/// Compiles a virtual host; its domains are the table's affair.
pub(super) fn virtual_host(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoVirtualHost,
    outline: &Outline<'_>,
) -> Result<VirtualHost, Rejections> {
    fields!(at, message => ProtoVirtualHost {
        name, routes, require_tls, request_headers_to_add, request_headers_to_remove, response_headers_to_add,
        response_headers_to_remove, include_request_attempt_count, include_attempt_count_in_response, retry_policy,
        request_mirror_policies, typed_per_filter_config, per_request_buffer_limit_bytes, request_body_buffer_limit;
        // Virtual clusters only name statistics.
        ignore domains, virtual_clusters, include_is_timeout_retry_header, metadata;
        refuse matcher, rate_limits, cors, retry_policy_typed_config, hedge_policy,
               route_specifiers
    });
    let require_tls = match TlsRequirementType::try_from(*require_tls) {
        Ok(TlsRequirementType::None) => TlsRequirement::None,
        Ok(TlsRequirementType::ExternalOnly) => TlsRequirement::ExternalOnly,
        Ok(TlsRequirementType::All) => TlsRequirement::All,
        Err(_) => return Err(at.unsupported("require_tls").into()),
    };
    let own = edits_of!(
        at,
        request_headers_to_add,
        request_headers_to_remove,
        response_headers_to_add,
        response_headers_to_remove
    );
    let mirrors = if request_mirror_policies.is_empty() {
        outline.mirrors
    } else {
        request_mirror_policies
    };
    let retry: Option<&ProtoRetryPolicy> = retry_policy.as_ref();
    let filters = filter::of_level(at, typed_per_filter_config, context, &outline.filters)?;
    let inherited = Inherited {
        filters: &filters,
        levels: Levels {
            table: &outline.edits,
            host: &own,
            specific_last: outline.specific_last,
        },
        max_body: outline.max_body,
        body_limit: body_limit(
            request_body_buffer_limit.as_ref(),
            per_request_buffer_limit_bytes.as_ref(),
        ),
        mirrors,
        retry,
        attempt_count_in_request: *include_request_attempt_count,
        attempt_count_in_response: *include_attempt_count_in_response,
    };
    let routes = self::routes(context, at, routes, &inherited)?;
    let index = PathIndex::new(&routes);
    Ok(VirtualHost {
        name: name.as_str().into(),
        routes,
        index,
        require_tls,
    })
}

/// How much of a request's content a level lets be kept. The older field counts where the newer one is absent.
fn body_limit(limit: Option<&UInt64Value>, older: Option<&UInt32Value>) -> Option<usize> {
    let limit = limit.map(|limit| limit.value).or(number(older).map(u64::from))?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Compiles all routes, for each bad one is told. What is wrong with a route that has a name is told by that name.
fn routes(
    context: &mut Context,
    at: &At<'_>,
    messages: &[ProtoRoute],
    inherited: &Inherited<'_>,
) -> Result<Box<[Route]>, Rejections> {
    let list = at.field("routes");
    let mut compiled = Vec::with_capacity(messages.len());
    let mut bad = None;
    for (index, message) in messages.iter().enumerate() {
        let (root, element) = (At::root(), list.index(index));
        let by_name = at.is_root() && !message.name.is_empty();
        match route(context, if by_name { &root } else { &element }, message, inherited) {
            Ok(route) => compiled.push(route),
            Err(rejection) => Rejections::collect(&mut bad, rejection.of_route(&message.name)),
        }
    }
    bad.map_or(Ok(compiled.into()), Err)
}

fn route(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoRoute,
    inherited: &Inherited<'_>,
) -> Result<Route, Rejection> {
    fields!(at, message => ProtoRoute {
        name, r#match, request_headers_to_add, request_headers_to_remove, response_headers_to_add,
        response_headers_to_remove, action, typed_per_filter_config, metadata, tracing,
        per_request_buffer_limit_bytes, request_body_buffer_limit;
        ignore decorator, stat_prefix;
        refuse route_specifiers
    });
    let filters = filter::of_level(at, typed_per_filter_config, context, inherited.filters)?;
    let own = edits_of!(
        at,
        request_headers_to_add,
        request_headers_to_remove,
        response_headers_to_add,
        response_headers_to_remove
    );
    let Some(message) = r#match else {
        return Err(at.field("match").error("is required"));
    };
    let conditions = conditions(&at.field("match"), message)?;
    let Some(action) = action else {
        return Err(at.field("action").error("is required"));
    };
    let own_limit = body_limit(
        request_body_buffer_limit.as_ref(),
        per_request_buffer_limit_bytes.as_ref(),
    );
    let around = Inherited {
        filters: &filters,
        body_limit: own_limit.or(inherited.body_limit),
        ..*inherited
    };
    let action = route_action::action(context, at, action, &own, &around)?;
    let tracing = tracing.as_ref();
    let tracing = tracing.map(|message| tracing::route(context, &at.field("tracing"), message));
    Ok(Route {
        name: name.as_str().into(),
        path: conditions.path,
        headers: conditions.headers,
        query: conditions.query,
        cookies: conditions.cookies,
        fraction: conditions.fraction,
        grpc_only: conditions.grpc_only,
        filters,
        tracing: tracing.transpose()?.map(Arc::new),
        action,
        request_headers: inherited.levels.request(&[&own.request]),
        response_headers: inherited.levels.response(&[&own.response]),
        metadata: metadata.as_ref().map(said_of_route).unwrap_or_default(),
    })
}

/// What filters may tell their services of the route.
fn said_of_route(metadata: &Metadata) -> Box<[u8]> {
    let untyped = Metadata {
        filter_metadata: metadata.filter_metadata.clone(),
        ..Metadata::default()
    };
    untyped.encode_to_vec().into()
}

struct Conditions {
    path: PathCondition,
    headers: Box<[crate::config::header::HeaderCondition]>,
    query: Box<[crate::config::route::QueryCondition]>,
    cookies: Box<[crate::config::route::CookieCondition]>,
    fraction: Option<Fraction>,
    grpc_only: bool,
}

fn conditions(at: &At<'_>, message: &RouteMatch) -> Result<Conditions, Rejection> {
    fields!(at, message => RouteMatch {
        case_sensitive, runtime_fraction, headers, query_parameters, cookies, grpc, path_specifier;
        ignore;
        refuse tls_context, dynamic_metadata, filter_state
    });
    let folds = case_sensitive.as_ref().is_some_and(|sensitive| !sensitive.value);
    let list = at.field("headers");
    let headers = headers
        .iter()
        .enumerate()
        .map(|(index, matcher)| header_condition(&list.index(index), matcher))
        .collect::<Result<_, _>>()?;
    let list = at.field("query_parameters");
    let query = query_parameters
        .iter()
        .enumerate()
        .map(|(index, matcher)| query_condition(&list.index(index), matcher))
        .collect::<Result<_, _>>()?;
    let list = at.field("cookies");
    let cookies = cookies
        .iter()
        .enumerate()
        .map(|(index, matcher)| cookie_condition(&list.index(index), matcher))
        .collect::<Result<_, _>>()?;
    let fraction = match runtime_fraction {
        None => None,
        Some(fraction) => Some(self::fraction(
            &at.field("runtime_fraction"),
            fraction.default_value.as_ref(),
        )?),
    };
    let path = path_condition(at, path_specifier.as_ref(), folds)?;
    Ok(Conditions {
        path,
        headers,
        query,
        cookies,
        fraction,
        grpc_only: grpc.is_some(),
    })
}

fn path_condition(at: &At<'_>, message: Option<&PathSpecifier>, folds: bool) -> Result<PathCondition, Rejection> {
    let text = |text: &String| -> Box<str> { text.as_str().into() };
    Ok(match message {
        Some(PathSpecifier::Prefix(prefix)) if folds => PathCondition::PrefixIgnoreCase(text(prefix)),
        Some(PathSpecifier::Prefix(prefix)) => PathCondition::Prefix(text(prefix)),
        Some(PathSpecifier::Path(path)) if folds => PathCondition::ExactIgnoreCase(text(path)),
        Some(PathSpecifier::Path(path)) => PathCondition::Exact(text(path)),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            // The API's own rule for this field; the index relies on it.
            if let Some(rule) = broken_rule(prefix) {
                return Err(at.field("path_separated_prefix").error(format!("{rule}: {prefix:?}")));
            }
            if folds {
                PathCondition::SeparatedIgnoreCase(text(prefix))
            } else {
                PathCondition::Separated(text(prefix))
            }
        }
        Some(PathSpecifier::SafeRegex(regex)) => {
            PathCondition::Regex(Box::new(full_regex(&at.field("safe_regex"), regex)?))
        }
        Some(PathSpecifier::ConnectMatcher(_)) => PathCondition::Connect,
        Some(PathSpecifier::PathMatchPolicy(_)) => return Err(at.unsupported("path_match_policy")),
        None => return Err(at.error("a path condition is required")),
    })
}

/// What a prefix of whole segments must be and isn't.
fn broken_rule(prefix: &str) -> Option<&'static str> {
    if !prefix.starts_with('/') {
        Some("must begin with \"/\"")
    } else if prefix.ends_with('/') {
        Some("must not end with \"/\"")
    } else if prefix.contains(['?', '#']) {
        Some("must not contain \"?\" or \"#\": it is compared with the path alone")
    } else {
        None
    }
}

/// A share in hundredths, ten thousandths or millionths.
pub(super) fn fraction(at: &At<'_>, message: Option<&FractionalPercent>) -> Result<Fraction, Rejection> {
    let Some(message) = message else {
        return Err(at.field("default_value").error("is required"));
    };
    let denominator = match DenominatorType::try_from(message.denominator) {
        Ok(DenominatorType::Hundred) => 100,
        Ok(DenominatorType::TenThousand) => 10_000,
        Ok(DenominatorType::Million) => 1_000_000,
        Err(_) => return Err(at.unsupported("denominator")),
    };
    Ok(Fraction {
        numerator: message.numerator,
        denominator,
    })
}
