//! Filters of logs.

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::comparison_filter::Op;
use envoy_types::pb::envoy::config::accesslog::v3::extension_filter::ConfigType;
use envoy_types::pb::envoy::config::accesslog::v3::{AccessLogFilter, ComparisonFilter, LogTypeFilter, MetadataFilter};
use envoy_types::pb::envoy::data::accesslog::v3::AccessLogType;
use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;

use crate::compile::access;
use crate::compile::access_log::expression;
use crate::compile::field::{At, Rejection, is, unpack};
use crate::compile::header::header_condition;
use crate::compile::route::fraction;
use crate::config::access_log::{CapturedFields, Comparison, Filter, Flags, MAX_CONDITIONS};

/// Compiles a filter; none takes everything.
pub(super) fn filter(
    at: &At<'_>,
    message: Option<&AccessLogFilter>,
    wanted: &mut CapturedFields,
) -> Result<Filter, Rejection> {
    let Some(message) = message else {
        return Ok(Filter::Everything);
    };
    let Some(message) = &message.filter_specifier else {
        return Err(at.error("a filter is required"));
    };
    Ok(match message {
        FilterSpecifier::StatusCodeFilter(message) => {
            let at = at.field("status_code_filter");
            Filter::Status(comparison(&at, message.comparison.as_ref())?)
        }
        FilterSpecifier::DurationFilter(message) => {
            let at = at.field("duration_filter");
            Filter::Duration(comparison(&at, message.comparison.as_ref())?)
        }
        FilterSpecifier::NotHealthCheckFilter(_) => Filter::NotHealthCheck,
        FilterSpecifier::RuntimeFilter(message) => {
            let at = at.field("runtime_filter");
            match &message.percent_sampled {
                Some(share) => Filter::Share(fraction(&at.field("percent_sampled"), Some(share))?),
                // The runtime key alone says nothing here, and Envoy's default is that none is taken.
                None => return Err(at.unsupported("runtime_key")),
            }
        }
        FilterSpecifier::AndFilter(message) => Filter::All(filters(&at.field("and_filter"), &message.filters, wanted)?),
        FilterSpecifier::OrFilter(message) => Filter::Any(filters(&at.field("or_filter"), &message.filters, wanted)?),
        FilterSpecifier::HeaderFilter(message) => {
            let at = at.field("header_filter");
            let Some(header) = &message.header else {
                return Err(at.field("header").error("is required"));
            };
            if wanted.conditions.len() >= MAX_CONDITIONS {
                return Err(at.error(format!(
                    "more than {MAX_CONDITIONS} conditions on headers in a list of logs"
                )));
            }
            wanted.conditions.push(header_condition(&at.field("header"), header)?);
            Filter::Condition(wanted.conditions.len() - 1)
        }
        FilterSpecifier::ResponseFlagFilter(message) => {
            let at = at.field("response_flag_filter");
            let mut flags = Flags::default();
            for (index, name) in message.flags.iter().enumerate() {
                let flag = Flags::named(name);
                let list = at.field("flags");
                flags.add(flag.ok_or_else(|| list.index(index).error(format!("{name:?} is not a response flag")))?);
            }
            Filter::Flags(flags)
        }
        FilterSpecifier::LogTypeFilter(message) => log_type(message),
        FilterSpecifier::TraceableFilter(_) => return Err(at.unsupported("traceable_filter")),
        FilterSpecifier::GrpcStatusFilter(message) => Filter::GrpcStatus {
            // The numbers of the enumeration are those of gRPC.
            statuses: message
                .statuses
                .iter()
                .filter_map(|status| u32::try_from(*status).ok())
                .collect(),
            exclude: message.exclude,
            fields: wanted.of_call(),
        },
        FilterSpecifier::MetadataFilter(message) => metadata(&at.field("metadata_filter"), message)?,
        FilterSpecifier::ExtensionFilter(message) => {
            let at = at.field("extension_filter");
            match &message.config_type {
                Some(ConfigType::TypedConfig(config)) if is::<ExpressionFilter>(config) => {
                    let at = at.field("typed_config");
                    expression::filter(&at, &unpack(&at, config)?, wanted)?
                }
                _ => return Err(at.error(format!("filter {:?} is not supported by this proxy", message.name))),
            }
        }
    })
}

fn metadata(at: &At<'_>, message: &MetadataFilter) -> Result<Filter, Rejection> {
    let otherwise = message.match_if_key_not_found.as_ref().is_none_or(|is| is.value);
    let Some(matcher) = &message.matcher else {
        return Err(at.field("matcher").error("is required"));
    };
    let condition = access::metadata_condition(&at.field("matcher"), matcher)?;
    Ok(Filter::Metadata(Box::new(condition), otherwise))
}

/// Whether only connections that no filter chain is for are taken.
pub(super) fn is_of_unmatched(message: &AccessLogFilter) -> bool {
    match &message.filter_specifier {
        Some(FilterSpecifier::ResponseFlagFilter(message)) => message.flags == ["NR"],
        Some(FilterSpecifier::AndFilter(message)) => message.filters.iter().any(is_of_unmatched),
        _ => false,
    }
}

fn filters(at: &At<'_>, list: &[AccessLogFilter], wanted: &mut CapturedFields) -> Result<Box<[Filter]>, Rejection> {
    let at = at.field("filters");
    let filters = list.iter().enumerate();
    filters
        .map(|(index, message)| filter(&at.index(index), Some(message), wanted))
        .collect()
}

fn log_type(message: &LogTypeFilter) -> Filter {
    let named = message
        .types
        .iter()
        .filter_map(|number| AccessLogType::try_from(*number).ok());
    Filter::Type {
        types: named.map(|named| named.as_str_name()).collect(),
        exclude: message.exclude,
    }
}

/// Runtime keys are not looked at: the default beside them counts.
fn comparison(at: &At<'_>, message: Option<&ComparisonFilter>) -> Result<Comparison, Rejection> {
    let at = at.field("comparison");
    let Some(ComparisonFilter { op, value: Some(value) }) = message else {
        return Err(at.field("value").error("is required"));
    };
    let with = u64::from(value.default_value);
    Ok(match Op::try_from(*op) {
        Ok(Op::Eq) => Comparison::Equal(with),
        Ok(Op::Ne) => Comparison::Other(with),
        Ok(Op::Ge) => Comparison::AtLeast(with),
        Ok(Op::Le) => Comparison::AtMost(with),
        Err(_) => return Err(at.unsupported("op")),
    })
}
