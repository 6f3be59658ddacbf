//! Requests that are given a credential for the backend (Envoy's `credential_injector`).

use http::StatusCode;

use crate::config::filter::credential_injector::{Existing, Injector};
use crate::http::Arrived;
use crate::http::filters::Flow;

/// Gives a request its credential. One that must have it and can't is refused: it would be somebody else's.
pub(super) fn request(injector: &Injector, arrived: &mut Arrived<'_>) -> Flow {
    let fields = &mut arrived.head.headers;
    if injector.existing == Existing::Kept && fields.contains_key(&injector.header) {
        return Flow::Continue;
    }
    match injector.slot.get() {
        Some(value) => {
            fields.insert(&injector.header, value);
            Flow::Continue
        }
        None if injector.optional => Flow::Continue,
        None => Flow::refuse(
            arrived,
            StatusCode::UNAUTHORIZED,
            "Failed to inject credential.",
            "failed_to_inject_credential",
        ),
    }
}
