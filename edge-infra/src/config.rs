//! The ServiceAccount of a fleet, which proves who its proxies are, and the ConfigMap of the files that they start
//! with.

use crate::{
    Installation, Object, ObjectKind, StartFiles,
    metadata::object,
    pod::{CA_FILE, CERTIFICATE_FILE, TOKEN_SECRET_FILE, TRUSTED_CA_FILE},
};
use edge_ir::{Infra, Placement, StringMap};
use serde_json::json;

pub(crate) fn account(infra: &Infra) -> Object {
    let none = StringMap::new();
    let content = json!({"automountServiceAccountToken": false});
    object(infra, ObjectKind::ServiceAccount, (&none, &none), content)
}

pub(crate) fn config_map(infra: &Infra, installation: &Installation, files: &StartFiles) -> Object {
    let none = StringMap::new();
    let mut data = json!({
        TRUSTED_CA_FILE: files.trusted_ca,
        TOKEN_SECRET_FILE: files.token,
    });
    match infra.placement {
        Placement::Controller => data[CERTIFICATE_FILE] = files.certificate.as_str().into(),
        // The Secret with the authorities is in the controller's namespace, and holds a key too.
        Placement::Gateway => data[CA_FILE] = installation.authorities.as_str().into(),
    }
    object(infra, ObjectKind::ConfigMap, (&none, &none), json!({"data": data}))
}
