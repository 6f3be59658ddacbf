//! What marks an object as ours, besides its labels, which are cut to their length and the same for every controller:
//! its controller, its fleet, and what of it we asked for.

use crate::{Installation, Object};
use edge_ir::Infra;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Annotation with the name of the controller that made an object.
pub const CONTROLLER: &str = "gateway.edge/controller";
/// Annotation with the key of the fleet that an object is made for.
pub const FLEET: &str = "gateway.edge/fleet";
/// Annotation with a hash of all that was asked for: what is asked for no longer can't be seen otherwise.
pub const REVISION: &str = "gateway.edge/revision";

/// The finished object with its marks.
pub(crate) fn marked(mut object: Object, infra: &Infra, installation: &Installation) -> Object {
    let mut put = |key: &str, value: Value| {
        let annotations = &mut object.body["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[key] = value;
    };
    put(CONTROLLER, (*installation.controller_name).into());
    put(FLEET, infra.key.to_string().into());
    put(REVISION, "".into());
    let revision = revision(&object.body);
    object.body["metadata"]["annotations"][REVISION] = revision.into();
    object
}

fn revision(body: &Value) -> String {
    format!("{:.16x}", Sha256::digest(body.to_string()))
}
