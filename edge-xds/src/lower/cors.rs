//! Cross-origin rules.

use super::matches::string_matcher;
use edge_ir::Cors;
use envoy_types::pb::{envoy::extensions::filters::http::cors::v3::CorsPolicy, google::protobuf::BoolValue};
use std::sync::Arc;

/// The rules of a route. To `*` both proxies answer with what the preflight asks for, which is right with credentials
/// too, where `*` would stand for a method of that name (Fetch standard, "CORS protocol and credentials").
pub(super) fn lower(cors: &Cors) -> CorsPolicy {
    let joined = |names: &[Arc<str>]| names.join(", ");
    CorsPolicy {
        allow_origin_string_match: cors.origins.iter().map(string_matcher).collect(),
        allow_methods: cors.methods.join(", "),
        allow_headers: joined(&cors.headers),
        expose_headers: joined(&cors.exposed_headers),
        max_age: cors.max_age.map(|seconds| seconds.to_string()).unwrap_or_default(),
        allow_credentials: cors.credentials.then_some(BoolValue { value: true }),
        // A preflight is for the gateway; what it doesn't let in the backend needn't see.
        forward_not_matching_preflights: Some(BoolValue { value: false }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::ValueMatcher;

    fn lowered(edit: impl FnOnce(&mut Cors)) -> CorsPolicy {
        let mut cors = Cors {
            origins: vec![ValueMatcher::Exact("https://a.example".into())],
            methods: vec!["*".into()],
            headers: vec!["x-a".into(), "x-b".into()],
            exposed_headers: vec![],
            max_age: Some(5),
            credentials: false,
        };
        edit(&mut cors);
        lower(&cors)
    }

    #[test]
    fn lists_are_joined_and_numbers_written() {
        let policy = lowered(|_| {});
        assert_eq!((&*policy.allow_methods, &*policy.allow_headers), ("*", "x-a, x-b"));
        assert_eq!((&*policy.max_age, policy.allow_credentials), ("5", None));
        assert_eq!(policy.forward_not_matching_preflights.map(|b| b.value), Some(false));
    }

    #[test]
    fn credentials_are_allowed_by_name() {
        let policy = lowered(|cors| cors.credentials = true);
        assert_eq!(policy.allow_methods, "*");
        assert_eq!(policy.allow_credentials.map(|b| b.value), Some(true));
    }
}
