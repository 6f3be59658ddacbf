//! What browsers send for other sites: cross-origin calls of scripts, and requests that a site forges.

use crate::{
    api::{
        Text,
        security::{Cors as Spec, Csrf},
    },
    phase::{
        policies::traffic::Problems,
        routes::{is_token, origin},
    },
};
use edge_ir::{Cors, Fraction, SiteCheck, ValueMatcher};

const AREA: &str = "CORS";

/// Cross-origin rules.
pub(super) fn cors(spec: &Spec, problems: &mut Problems) -> Cors {
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
    Cors {
        origins,
        methods: names("allowMethods", &spec.allow_methods, problems),
        headers: names("allowHeaders", &spec.allow_headers, problems),
        exposed_headers: names("exposeHeaders", &spec.expose_headers, problems),
        max_age,
        credentials: spec.allow_credentials.unwrap_or(false),
    }
}

/// Names of methods or headers. `*` among others makes the others idle.
fn names<'a, T: From<&'a str>>(field: &str, all: &'a [Text], problems: &mut Problems) -> Vec<T> {
    for bad in all.iter().filter(|name| !is_token(name)) {
        problems.add(AREA, format_args!("{field} {bad:?} is not a valid name"));
    }
    if all.iter().any(|name| &**name == "*") {
        return vec!["*".into()];
    }
    all.iter().map(|name| (&**name).into()).collect()
}

/// Where requests that change something may come from. An origin is compared without its scheme.
pub(super) fn site_check(spec: &Csrf, problems: &mut Problems) -> SiteCheck {
    let mut trusted = Vec::with_capacity(spec.additional_origins.len());
    for text in &spec.additional_origins {
        let host = text.split_once("://").map_or(&**text, |(_, host)| host);
        let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        if !is_host {
            problems.add("CSRF", format_args!("{text:?} is not an origin"));
            continue;
        }
        trusted.push(match host.strip_prefix("*.") {
            _ if host == "*" => ValueMatcher::Regex(".*".into()),
            Some(suffix) => ValueMatcher::Regex(format!(".+\\.{}", regex::escape(suffix)).into()),
            None => ValueMatcher::Exact(host.into()),
        });
    }
    let shadowed = spec.shadow_fraction.as_ref().map_or(Fraction(0), |share| {
        let (numerator, denominator) = (i64::from(share.numerator), i64::from(share.denominator));
        let parts = numerator.saturating_mul(1_000_000).checked_div(denominator);
        let parts = parts
            .and_then(|parts| u32::try_from(parts).ok())
            .filter(|parts| *parts <= 1_000_000);
        if parts.is_none() {
            problems.add(
                "CSRF",
                format_args!("invalid ShadowFraction value {numerator}/{denominator}"),
            );
        }
        Fraction(parts.unwrap_or_default())
    });
    SiteCheck { trusted, shadowed }
}
