//! One write, and how it ended.

use super::lay::{Needed, Part};
use crate::{
    cluster::{
        FIELD_MANAGER,
        fault::{describe, is_by_admission, is_too_large},
    },
    state::{Finalizers, ObservedStatus},
};
use edge_translate::api::ObjectKey;
use kube::{
    Api as Objects, Error,
    api::{DynamicObject, Patch, PatchParams},
};
use std::sync::Arc;
use tokio::time::Instant;

/// How a write ended.
pub(super) enum Outcome {
    /// The object carries this now.
    Written(ObservedStatus),
    /// Somebody else has written meanwhile: the object carries this.
    Stale(ObservedStatus),
    /// There is no such object.
    Gone,
    /// It couldn't be written, and trying again is of little use.
    Refused(String),
    /// It couldn't be written.
    Failed(Failure),
}

/// Why something couldn't be written.
pub(super) struct Failure {
    /// The same for all objects that fail for one reason: of those, one is told.
    pub(super) class: String,
    /// With the object's name, if the API server says it.
    pub(super) reason: String,
}

impl Failure {
    fn new(key: &ObjectKey, error: &Error) -> Self {
        let reason = describe(error);
        let class = match error {
            Error::Api(status) => format!("{} {}", status.code, key.api_kind().1),
            _ => reason.clone(),
        };
        Self { class, reason }
    }
}

/// A write that ended.
pub(super) struct Done {
    pub(super) key: ObjectKey,
    /// The version on top of which it was made.
    pub(super) base: Arc<str>,
    pub(super) begun: Instant,
    pub(super) part: Part,
    pub(super) outcome: Outcome,
}

/// Writes a part of an object.
pub(super) async fn write(objects: Objects<DynamicObject>, key: ObjectKey, base: Arc<str>, needed: Needed) -> Done {
    let begun = Instant::now();
    let Needed { patch, part, .. } = needed;
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let answer = match part {
        Part::Status => objects.patch_status(key.own_name(), &parameters, &patch).await,
        Part::Metadata => objects.patch(key.own_name(), &parameters, &patch).await,
    };
    let outcome = match answer {
        Ok(object) => Outcome::Written(seen(&key, &object)),
        // The object may be there all the same: its kind may be defined without a status, and who stands between us may
        // not find the API server.
        Err(Error::Api(status)) if [404, 409].contains(&status.code) => match objects.get_opt(key.own_name()).await {
            Ok(Some(object)) if status.code == 409 => Outcome::Stale(seen(&key, &object)),
            Ok(Some(_)) => Outcome::Failed(Failure::new(&key, &Error::Api(status))),
            Ok(None) => Outcome::Gone,
            Err(error) => Outcome::Failed(Failure::new(&key, &error)),
        },
        Err(error @ Error::Api(_)) if is_final(&error) => Outcome::Refused(describe(&error)),
        Err(error) => Outcome::Failed(Failure::new(&key, &error)),
    };
    Done {
        key,
        base,
        begun,
        part,
        outcome,
    }
}

/// Whether the same again would be refused again, until the object, its kind or what is said of it is another.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Api(status) if is_by_admission(status) => false,
        Error::Api(status) => [400, 422].contains(&status.code) || is_too_large(status),
        _ => false,
    }
}

/// What an object carries.
fn seen(key: &ObjectKey, object: &DynamicObject) -> ObservedStatus {
    let status = object.data.get("status").filter(|status| status.is_object());
    ObservedStatus {
        version: object.metadata.resource_version.as_deref().unwrap_or_default().into(),
        status: status.map(|status| status.to_string().into()),
        finalizers: Finalizers::of(key.kind, &object.metadata),
    }
}
