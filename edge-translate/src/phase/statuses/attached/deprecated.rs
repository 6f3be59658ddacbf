//! Fields of policies that have a newer form.

use crate::{
    api::{Object, load_balancer::ConsistentHashType},
    status::Condition,
};

/// The condition that tells of old fields; none where there are none.
pub(super) fn warning(object: &Object) -> Option<Condition> {
    let mut told: Vec<String> = old_fields(object)
        .into_iter()
        .map(|(old, new)| format!("{old} is deprecated, use {new} instead"))
        .collect();
    told.sort();
    (!told.is_empty()).then(|| Condition::yes("Warning", "DeprecatedField", told.join("; ")))
}

fn old_fields(object: &Object) -> Vec<(&'static str, &'static str)> {
    let mut old = Vec::new();
    if let Object::ClientTrafficPolicy(policy) = object {
        let old_forms = [
            ("/targetRef", "spec.targetRef", "spec.targetRefs"),
            ("/enableProxyProtocol", "spec.enableProxyProtocol", "spec.proxyProtocol"),
            (
                "/headers/preserveXRequestID",
                "spec.headers.preserveXRequestID",
                "spec.headers.requestID",
            ),
            (
                "/tls/clientValidation/optional",
                "spec.tls.clientValidation.optional",
                "spec.tls.clientValidation.mode",
            ),
        ];
        let used = old_forms
            .into_iter()
            .filter(|(field, ..)| policy.spec.pointer(field).is_some_and(|value| !value.is_null()));
        old.extend(used.map(|(_, older, newer)| (older, newer)));
    }
    if let Object::BackendTrafficPolicy(policy) = object {
        let spec = &policy.spec;
        if spec.target_ref.is_some() {
            old.push(("spec.targetRef", "spec.targetRefs"));
        }
        if spec.compression.is_some() {
            old.push(("spec.compression", "spec.compressor"));
        }
        let hash = spec.load_balancer.as_deref().and_then(|b| b.consistent_hash.as_deref());
        if hash.is_some_and(|hash| hash.r#type == ConsistentHashType::Header && hash.header.is_some()) {
            old.push((
                "spec.loadBalancer.consistentHash.header",
                "spec.loadBalancer.consistentHash.headers",
            ));
        }
    }
    if let Object::EdgeExtensionPolicy(policy) = object
        && !policy.spec["targetRef"].is_null()
    {
        old.push(("spec.targetRef", "spec.targetRefs"));
    }
    if let Object::SecurityPolicy(policy) = object {
        let spec = &policy.spec;
        let fields = [
            (!spec["targetRef"].is_null(), ("spec.targetRef", "spec.targetRefs")),
            (
                !spec["extAuth"]["grpc"]["backendRef"].is_null(),
                ("spec.extAuth.grpc.backendRef", "spec.extAuth.grpc.backendRefs"),
            ),
            (
                !spec["extAuth"]["http"]["backendRef"].is_null(),
                ("spec.extAuth.http.backendRef", "spec.extAuth.http.backendRefs"),
            ),
        ];
        old.extend(fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field));
    }
    old
}
