//! Backend, and whether it can be used at all.

use crate::{
    engine::reader::Reader,
    name::Id,
    phase::backends::problem::backend_problem,
    settings::Feature,
    status::{Condition, Status, StatusBody},
};

/// The status of a Backend.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.backend(id)?;
    let settings = reader.settings();
    let condition = if settings.backend_api == Feature::Disabled {
        let message = "The Backend was not accepted since Backend is not enabled in Edge Gateway Config";
        Condition::no("Accepted", "Invalid", message)
    } else {
        match backend_problem(object, settings) {
            None => Condition::yes("Accepted", "Accepted", "The Backend was accepted"),
            Some(problem) => Condition::no(
                "Accepted",
                "Invalid",
                format!("The Backend was not accepted: {}", problem.message),
            ),
        }
    };
    let body = StatusBody::Conditions(vec![condition]);
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}
