//! GatewayClass.

use super::features::supported;
use crate::{
    api::GatewayClass,
    engine::reader::Reader,
    name::Id,
    phase::gateways::class::Class,
    settings::Platform,
    status::{ClassStatus, Condition, Status, StatusBody},
};

/// Whether the class is ours and its parameters good, and what we support.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.class_object(id)?;
    let condition = match &**reader.class(id.name)? {
        Class::Foreign => return Some(unanswered(reader, object)),
        Class::Accepted { .. } => Condition::yes("Accepted", "Accepted", "Valid GatewayClass"),
        Class::Refused { error, .. } => Condition::no(
            "Accepted",
            "InvalidParameters",
            format!("Invalid parametersRef: {error}"),
        ),
    };
    let body = StatusBody::Class(ClassStatus {
        conditions: vec![condition],
        features: supported(reader.settings().platform),
    });
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}

/// In a cluster another controller may own the class. Standalone there is nobody else.
fn unanswered(reader: &Reader<'_>, object: &GatewayClass) -> Option<Status> {
    let settings = reader.settings();
    if settings.platform != Platform::Host {
        return None;
    }
    let reason = format!(
        "spec.controllerName: nobody here answers to {}, this controller is {}",
        object.spec.controller_name, settings.controller_name
    );
    Some(Status {
        observed_generation: object.metadata.generation,
        body: StatusBody::Unattached(vec![reason]),
    })
}
