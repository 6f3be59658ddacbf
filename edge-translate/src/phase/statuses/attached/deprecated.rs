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
