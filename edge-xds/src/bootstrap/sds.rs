//! The files that tell a proxy where its certificate, its token and the authorities lie. A proxy follows them and what
//! they name, so that nothing that is rotated needs a restart.

use edge_ir::pod_certificate;
use serde_json::{Value, json};

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// Content of `xds-certificate.json`.
pub fn certificate_file(certificate_path: &str, key_path: &str) -> Value {
    json!({"resources": [{
        "@type": SECRET,
        "name": pod_certificate::SECRET,
        "tls_certificate": {
            "certificate_chain": {"filename": certificate_path},
            "private_key": {"filename": key_path},
        },
    }]})
}

/// Content of `xds-trusted-ca.json`. The controller's certificate must also be for one of these names.
pub fn trusted_ca_file(ca_path: &str, server_names: &[&str]) -> Value {
    let names: Vec<Value> = server_names
        .iter()
        .map(|name| json!({"san_type": "DNS", "matcher": {"exact": name}}))
        .collect();
    let mut context = json!({"trusted_ca": {"filename": ca_path}});
    if !names.is_empty() {
        context["match_typed_subject_alt_names"] = names.into();
    }
    json!({"resources": [{"@type": SECRET, "name": "xds_trusted_ca", "validation_context": context}]})
}

/// Name of the secret that holds a proxy's token.
pub(super) const TOKEN: &str = "jwt-sa-bearer";

/// Content of `xds_service_account_token.json`: what a proxy in a cluster proves its fleet with.
pub fn token_file(token_path: &str) -> Value {
    json!({"resources": [{
        "@type": SECRET,
        "name": TOKEN,
        "generic_secret": {"secret": {"filename": token_path}},
    }]})
}
