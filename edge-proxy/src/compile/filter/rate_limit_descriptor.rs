//! RateLimit of routes → [`Descriptor`]: what requests are counted by.

use envoy_types::pb::envoy::config::route::v3::RateLimit;
use envoy_types::pb::envoy::config::route::v3::rate_limit::action::{
    ActionSpecifier, GenericKey, HeaderValueMatch, QueryParameterValueMatch, QueryParameters, RemoteAddressMatch,
    RequestHeaders,
};
use envoy_types::pb::envoy::config::route::v3::rate_limit::{HitsAddend, XRateLimitOption};

use crate::compile::field::{At, Rejection, fields};
use crate::compile::header::{header_condition, query_condition};
use crate::compile::http::address_filter;
use crate::compile::template::header_name;
use crate::config::access::MetadataPath;
use crate::config::filter::rate_limit_descriptor::{Absent, Descriptor, DescriptorEntry, EntryValue, Hits};

/// Compiles how requests are described.
pub(super) fn descriptor(at: &At<'_>, message: &RateLimit) -> Result<Descriptor, Rejection> {
    fields!(at, message => RateLimit {
        actions, hits_addend, x_ratelimit_option;
        ignore;
        refuse stage, disable_key, limit, apply_on_stream_done
    });
    let list = at.field("actions");
    let entries = actions.iter().enumerate().map(|(index, action)| {
        let at = list.index(index);
        match &action.action_specifier {
            Some(action) => entry(&at, action),
            None => Err(at.error("is required")),
        }
    });
    Ok(Descriptor {
        entries: entries.collect::<Result<_, _>>()?,
        hits: hits(&at.field("hits_addend"), hits_addend.as_ref())?,
        sends_limit_headers: match XRateLimitOption::try_from(*x_ratelimit_option) {
            Ok(XRateLimitOption::Unspecified) => None,
            Ok(XRateLimitOption::Off) => Some(false),
            Ok(XRateLimitOption::DraftVersion03) => Some(true),
            Err(_) => return Err(at.unsupported("x_ratelimit_option")),
        },
    })
}

fn hits(at: &At<'_>, message: Option<&HitsAddend>) -> Result<Hits, Rejection> {
    let Some(message) = message else { return Ok(Hits::One) };
    fields!(at, message => HitsAddend { number, format; ignore; refuse is_negative_hits });
    if format.is_empty() {
        return Ok(number.as_ref().map_or(Hits::One, |number| Hits::Number(number.value)));
    }
    // What else could be said is known of a response, or is a text.
    let inner = format.strip_prefix("%DYNAMIC_METADATA(");
    let inner = inner.and_then(|rest| rest.strip_suffix(")%"));
    let mut keys = inner.unwrap_or_default().split(':').map(Into::into);
    match keys.next() {
        Some(filter) if inner.is_some_and(|inner| !inner.contains(['%', '(', ')'])) => {
            Ok(Hits::Metadata(MetadataPath {
                filter,
                path: keys.collect(),
            }))
        }
        _ => Err(at
            .field("format")
            .error("only %DYNAMIC_METADATA()% is supported by this proxy")),
    }
}

/// A value that stands for itself: one with substitution commands would be another for each request.
fn literal(at: &At<'_>, text: &str) -> Result<Box<str>, Rejection> {
    if text.contains('%') {
        return Err(at.error("substitution commands are not supported by this proxy"));
    }
    Ok(text.into())
}

fn entry(at: &At<'_>, action: &ActionSpecifier) -> Result<DescriptorEntry, Rejection> {
    let key = |own: &str, usual: &str| if own.is_empty() { usual.into() } else { own.into() };
    let absent = |skips: bool| if skips { Absent::Skip } else { Absent::Drop };
    match action {
        ActionSpecifier::GenericKey(message) => {
            let at = at.field("generic_key");
            fields!(at, message => GenericKey {
                descriptor_value, descriptor_key; ignore; refuse default_value
            });
            Ok(DescriptorEntry {
                key: key(descriptor_key, "generic_key"),
                value: EntryValue::Fixed(literal(&at.field("descriptor_value"), descriptor_value)?),
            })
        }
        ActionSpecifier::RequestHeaders(message) => {
            let at = at.field("request_headers");
            fields!(at, message => RequestHeaders { header_name, descriptor_key, skip_if_absent; ignore; refuse });
            let name = self::header_name(&at.field("header_name"), header_name)?;
            Ok(DescriptorEntry {
                key: descriptor_key.as_str().into(),
                value: EntryValue::Header(name, absent(*skip_if_absent)),
            })
        }
        ActionSpecifier::QueryParameters(message) => {
            fields!(at.field("query_parameters"), message => QueryParameters {
                query_parameter_name, descriptor_key, skip_if_absent; ignore; refuse
            });
            Ok(DescriptorEntry {
                key: descriptor_key.as_str().into(),
                value: EntryValue::Parameter(query_parameter_name.as_str().into(), absent(*skip_if_absent)),
            })
        }
        ActionSpecifier::RemoteAddress(_) => Ok(DescriptorEntry {
            key: "remote_address".into(),
            value: EntryValue::Address,
        }),
        other => conditional(at, other),
    }
}

/// An entry that some requests have.
fn conditional(at: &At<'_>, action: &ActionSpecifier) -> Result<DescriptorEntry, Rejection> {
    let key = |own: &str, usual: &str| if own.is_empty() { usual.into() } else { own.into() };
    match action {
        ActionSpecifier::HeaderValueMatch(message) => {
            let at = at.field("header_value_match");
            fields!(at, message => HeaderValueMatch {
                descriptor_value, descriptor_key, expect_match, headers; ignore; refuse default_value
            });
            let list = at.field("headers");
            let conditions = headers.iter().enumerate();
            Ok(DescriptorEntry {
                key: key(descriptor_key, "header_match"),
                value: EntryValue::Headers(
                    literal(&at.field("descriptor_value"), descriptor_value)?,
                    conditions
                        .map(|(index, one)| header_condition(&list.index(index), one))
                        .collect::<Result<_, _>>()?,
                    expect_match.as_ref().is_none_or(|expect| expect.value),
                ),
            })
        }
        ActionSpecifier::QueryParameterValueMatch(message) => {
            let at = at.field("query_parameter_value_match");
            fields!(at, message => QueryParameterValueMatch {
                descriptor_value, descriptor_key, expect_match, query_parameters; ignore; refuse default_value
            });
            let list = at.field("query_parameters");
            let conditions = query_parameters.iter().enumerate();
            Ok(DescriptorEntry {
                key: key(descriptor_key, "query_match"),
                value: EntryValue::Query(
                    literal(&at.field("descriptor_value"), descriptor_value)?,
                    conditions
                        .map(|(index, one)| query_condition(&list.index(index), one))
                        .collect::<Result<_, _>>()?,
                    expect_match.as_ref().is_none_or(|expect| expect.value),
                ),
            })
        }
        ActionSpecifier::RemoteAddressMatch(message) => {
            let at = at.field("remote_address_match");
            fields!(at, message => RemoteAddressMatch {
                descriptor_value, descriptor_key, address_matcher; ignore; refuse default_value
            });
            let at_matcher = at.field("address_matcher");
            let Some(matcher) = address_matcher else {
                return Err(at_matcher.error("is required"));
            };
            Ok(DescriptorEntry {
                key: key(descriptor_key, "remote_address_match"),
                value: EntryValue::Client(
                    literal(&at.field("descriptor_value"), descriptor_value)?,
                    address_filter(&at_matcher, matcher)?,
                ),
            })
        }
        _ => Err(at.error("this action is not supported by this proxy")),
    }
}
