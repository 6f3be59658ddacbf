//! GatewayClass.

use super::features::SUPPORTED;
use crate::{
    engine::reader::Reader,
    name::Id,
    phase::gateways::class::Class,
    status::{ClassStatus, Condition, Status, StatusBody},
};

/// Whether the class is ours and its parameters good, and what we support.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.class_object(id)?;
    let condition = match &**reader.class(id.name)? {
        Class::Foreign => return Some(None),
        Class::Accepted { .. } => Condition::yes("Accepted", "Accepted", "Valid GatewayClass"),
        Class::Refused { error, .. } => Condition::no(
            "Accepted",
            "InvalidParameters",
            format!("Invalid parametersRef: {error}"),
        ),
    };
    let body = StatusBody::Class(ClassStatus {
        conditions: vec![condition],
        features: SUPPORTED,
    });
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}
