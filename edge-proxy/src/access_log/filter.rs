//! Whether a log tells of an exchange.

use crate::access_log::call;
use crate::access_log::value::Entry;
use crate::config::access_log::{Filter, Moment};

/// Whether a filter takes it.
pub(super) fn takes(filter: &Filter, entry: &Entry<'_>) -> bool {
    let record = entry.record;
    match filter {
        Filter::Everything => true,
        Filter::Status(comparison) => comparison.holds(record.status.into()),
        Filter::Duration(comparison) => entry
            .between(Moment::Begun, Moment::Over, 1_000)
            .is_some_and(|millis| comparison.holds(millis)),
        Filter::Flags(flags) if flags.is_empty() => !record.flags.is_empty(),
        Filter::Flags(flags) => record.flags.meets(*flags),
        Filter::Type { types, exclude } => types.contains(&entry.client.spoken.log_type()) != *exclude,
        Filter::Condition(at) => record
            .request
            .as_ref()
            .is_some_and(|request| request.holds & (1 << at) != 0),
        Filter::Share(fraction) => fraction.takes(record.random),
        Filter::Expression(expression) => expression.holds(entry),
        Filter::NotHealthCheck => !record.health_check,
        Filter::GrpcStatus {
            statuses,
            exclude,
            fields,
        } => statuses.contains(&call::status(fields, entry)) != *exclude,
        Filter::Metadata(condition, otherwise) => condition.judges(&record.metadata).unwrap_or(*otherwise),
        Filter::All(filters) => filters.iter().all(|filter| takes(filter, entry)),
        Filter::Any(filters) => filters.iter().any(|filter| takes(filter, entry)),
    }
}
