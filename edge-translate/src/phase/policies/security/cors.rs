//! Cross-origin rules of a policy.

use crate::{
    api::security::Cors as Spec,
    phase::{
        policies::traffic::Problems,
        routes::{is_token, origin},
    },
};
use edge_ir::Cors;
use std::sync::Arc;

const AREA: &str = "CORS";

/// The rules; none where they can't be honoured.
pub(super) fn cors(spec: &Spec, problems: &mut Problems) -> Option<Cors> {
    let mut origins = Vec::with_capacity(spec.allow_origins.len());
    for text in &spec.allow_origins {
        match origin(text) {
            Some(origin) => origins.push(origin),
            None => problems.add(AREA, format_args!("{text:?} is not an origin")),
        }
    }
    let mut max_age = None;
    if let Some(age) = &spec.max_age {
        match age.parse() {
            Ok(age) => max_age = u32::try_from(age.as_secs()).ok(),
            Err(_) => problems.add(AREA, format_args!("invalid MaxAge value {}", age.as_str())),
        }
    }
    Some(Cors {
        origins,
        methods: names("allowMethods", &spec.allow_methods, problems),
        headers: names("allowHeaders", &spec.allow_headers, problems),
        exposed_headers: names("exposeHeaders", &spec.expose_headers, problems),
        max_age,
        credentials: spec.allow_credentials.unwrap_or(false),
    })
}

/// Names of methods or headers. `*` among others makes the others idle.
fn names(field: &str, all: &[Box<str>], problems: &mut Problems) -> Vec<Arc<str>> {
    for bad in all.iter().filter(|name| !is_token(name)) {
        problems.add(AREA, format_args!("{field} {bad:?} is not a valid name"));
    }
    if all.iter().any(|name| &**name == "*") {
        return vec!["*".into()];
    }
    all.iter().map(|name| (&**name).into()).collect()
}
