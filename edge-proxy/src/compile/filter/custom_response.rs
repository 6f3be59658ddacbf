//! CustomResponse → [`CustomResponses`]: a list of matchers on responses, and what takes their place.

use envoy_types::pb::envoy::config::route::v3::RedirectAction;
use envoy_types::pb::envoy::config::route::v3::redirect_action::PathRewriteSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::custom_response::v3::CustomResponse as ProtoResponse;
use envoy_types::pb::envoy::extensions::http::custom_response::local_response_policy::v3::LocalResponsePolicy;
use envoy_types::pb::envoy::extensions::http::custom_response::redirect_policy::v3::RedirectPolicy;
use envoy_types::pb::envoy::extensions::http::custom_response::redirect_policy::v3::redirect_policy::RedirectActionSpecifier;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    HttpResponseHeaderMatchInput, HttpResponseLocalReplyMatchInput, HttpResponseStatusCodeMatchInput,
    RegexMatcher as EnvoyRegex, StringMatcher as EnvoyMatcher, string_matcher::MatchPattern as EnvoyPattern,
};
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::OnMatch;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::Predicate;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, PredicateList, SinglePredicate, single_predicate,
};
use envoy_types::pb::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::xds::r#type::matcher::v3::{Matcher, StringMatcher};
use http::StatusCode;

use crate::compile::Context;
use crate::compile::access_log;
use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};
use crate::compile::header::{edits, string_condition};
use crate::compile::matcher;
use crate::compile::route_action;
use crate::compile::template::header_name;
use crate::config::filter::custom_response::{CustomResponse, CustomResponses, Instead, ResponseCondition};
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::header::StringCondition;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    responses(context, at, config).map(FilterKind::CustomResponses)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterSettings, Rejection> {
    responses(context, at, config).map(FilterSettings::CustomResponses)
}

/// `None` replaces nothing.
fn responses(context: &Context, at: &At<'_>, config: &Any) -> Result<Option<CustomResponses>, Rejection> {
    let message: ProtoResponse = unpack(at, config)?;
    fields!(at, &message => ProtoResponse { custom_response_matcher; ignore; refuse });
    let Some(matcher) = custom_response_matcher else {
        return Ok(None);
    };
    let at = at.field("custom_response_matcher");
    fields!(at, matcher => Matcher { matcher_type; ignore; refuse on_no_match });
    if matcher_type.is_none() {
        return Ok(None);
    }
    let responses = matcher::entries(&at, matcher_type.as_ref(), |at, predicate, on_match| {
        Ok(CustomResponse {
            condition: condition(&at.field("predicate"), predicate)?,
            instead: instead(context, &at.field("on_match"), on_match)?,
        })
    })?;
    Ok(Some(CustomResponses(responses)))
}

fn condition(at: &At<'_>, message: &Predicate) -> Result<ResponseCondition, Rejection> {
    match &message.match_type {
        Some(MatchType::SinglePredicate(message)) => single(&at.field("single_predicate"), message),
        Some(MatchType::OrMatcher(list)) => conditions(&at.field("or_matcher"), list).map(ResponseCondition::Any),
        Some(MatchType::AndMatcher(list)) => conditions(&at.field("and_matcher"), list).map(ResponseCondition::All),
        Some(MatchType::NotMatcher(_)) => Err(at.unsupported("not_matcher")),
        None => Err(at.error("match_type is required")),
    }
}

fn conditions(at: &At<'_>, list: &PredicateList) -> Result<Box<[ResponseCondition]>, Rejection> {
    let at = at.field("predicate");
    let list = list.predicate.iter().enumerate();
    list.map(|(index, message)| condition(&at.index(index), message))
        .collect()
}

fn single(at: &At<'_>, message: &SinglePredicate) -> Result<ResponseCondition, Rejection> {
    fields!(at, message => SinglePredicate { input, matcher; ignore; refuse });
    let value = match matcher {
        Some(single_predicate::Matcher::ValueMatch(matcher)) => text(&at.field("value_match"), matcher)?,
        Some(single_predicate::Matcher::CustomMatch(_)) => return Err(at.unsupported("custom_match")),
        None => return Err(at.error("matcher is required")),
    };
    let at = at.field("input");
    let config = extension(&at, input.as_ref())?;
    if is::<HttpResponseStatusCodeMatchInput>(config) {
        Ok(ResponseCondition::Status(value))
    } else if is::<HttpResponseLocalReplyMatchInput>(config) {
        Ok(ResponseCondition::Local(value))
    } else if is::<HttpResponseHeaderMatchInput>(config) {
        let at = at.field("typed_config");
        let message: HttpResponseHeaderMatchInput = unpack(&at, config)?;
        let name = header_name(&at.field("header_name"), &message.header_name)?;
        Ok(ResponseCondition::Header(name, value))
    } else {
        Err(at.error(format!("type {:?} is not supported by this proxy", type_name(config))))
    }
}

/// The same matcher, in the package of which the compiler knows.
fn text(at: &At<'_>, message: &StringMatcher) -> Result<StringCondition, Rejection> {
    fields!(at, message => StringMatcher { match_pattern, ignore_case; ignore; refuse });
    let pattern = match match_pattern.clone() {
        Some(MatchPattern::Exact(text)) => EnvoyPattern::Exact(text),
        Some(MatchPattern::Prefix(text)) => EnvoyPattern::Prefix(text),
        Some(MatchPattern::Suffix(text)) => EnvoyPattern::Suffix(text),
        Some(MatchPattern::Contains(text)) => EnvoyPattern::Contains(text),
        Some(MatchPattern::SafeRegex(matcher)) => EnvoyPattern::SafeRegex(EnvoyRegex {
            regex: matcher.regex,
            ..Default::default()
        }),
        Some(MatchPattern::Custom(_)) => return Err(at.unsupported("custom")),
        None => return Err(at.error("match_pattern is required")),
    };
    let same = EnvoyMatcher {
        match_pattern: Some(pattern),
        ignore_case: *ignore_case,
    };
    string_condition(at, &same)
}

fn instead(context: &Context, at: &At<'_>, message: &OnMatch) -> Result<Instead, Rejection> {
    let action = matcher::action(at, message)?;
    let at = at.field("action");
    let config = extension(&at, Some(action))?;
    let at = at.field("typed_config");
    if is::<LocalResponsePolicy>(config) {
        answer(context, &at, &unpack(&at, config)?)
    } else if is::<RedirectPolicy>(config) {
        elsewhere(&at, &unpack(&at, config)?)
    } else {
        Err(at.error(format!("type {:?} is not supported by this proxy", type_name(config))))
    }
}

fn answer(context: &Context, at: &At<'_>, message: &LocalResponsePolicy) -> Result<Instead, Rejection> {
    fields!(at, message => LocalResponsePolicy {
        body_format, status_code, response_headers_to_add;
        // What access logs are told; they are told of what was replaced.
        ignore response_code_details_action;
        refuse body
    });
    let body = body_format.as_ref();
    Ok(Instead::Answer {
        status: status(&at.field("status_code"), status_code.as_ref())?,
        body: body
            .map(|body| access_log::body(context, &at.field("body_format"), body))
            .transpose()?,
        headers: edits(at, ("response_headers_to_add", ""), response_headers_to_add, &[])?.into(),
    })
}

fn elsewhere(at: &At<'_>, message: &RedirectPolicy) -> Result<Instead, Rejection> {
    fields!(at, message => RedirectPolicy {
        status_code, redirect_action_specifier;
        ignore;
        refuse response_headers_to_add, request_headers_to_add, modify_request_headers_action
    });
    let action = match redirect_action_specifier {
        Some(RedirectActionSpecifier::RedirectAction(action)) => action,
        Some(RedirectActionSpecifier::Uri(_)) => return Err(at.unsupported("uri")),
        None => return Err(at.field("redirect_action").error("is required")),
    };
    let status = status(&at.field("status_code"), status_code.as_ref())?;
    let at = at.field("redirect_action");
    let location = location(&at, action)?;
    Ok(Instead::Elsewhere {
        status,
        location: Box::new(location),
    })
}

fn location(at: &At<'_>, action: &RedirectAction) -> Result<crate::config::route::Redirect, Rejection> {
    match &action.path_rewrite_specifier {
        None => {}
        Some(PathRewriteSpecifier::PathRedirect(path)) if path.contains('#') => {
            return Err(at.field("path_redirect").error("must not have a fragment"));
        }
        Some(PathRewriteSpecifier::PathRedirect(_)) => {}
        Some(_) => return Err(at.error("of paths only path_redirect is supported by this proxy")),
    }
    route_action::redirect(at, action)
}

fn status(at: &At<'_>, code: Option<&UInt32Value>) -> Result<Option<StatusCode>, Rejection> {
    let Some(code) = code else { return Ok(None) };
    let status = u16::try_from(code.value).ok().filter(|code| (200..600).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    let wrong = || at.error(format!("{} is not the status of a response", code.value));
    status.map(Some).ok_or_else(wrong)
}

fn extension<'m>(at: &At<'_>, message: Option<&'m TypedExtensionConfig>) -> Result<&'m Any, Rejection> {
    let config = message.and_then(|message| message.typed_config.as_ref());
    config.ok_or_else(|| at.field("typed_config").error("is required"))
}
