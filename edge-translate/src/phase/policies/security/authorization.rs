//! Rules of who may do what.

use super::geoip;
use crate::{
    api::{
        PathMatchType,
        security::{
            authorization::{
                Authorization, AuthorizationAction, AuthorizationRule, ClaimType, JwtPrincipal, Operation, Principal,
            },
            jwt::Jwt,
        },
    },
    phase::{
        cel::{self, Texts},
        cidr::cidr,
        policies::traffic::Problems,
        routes::{check_expression, check_path},
    },
};
use edge_ir::{
    Access, AccessCondition, AccessRule, AccessRules, AddressRange, ClaimCondition, ClaimForm, PathMatch, ValueMatcher,
};
use std::sync::Arc;

pub(super) const AREA: &str = "Authorization";

/// The rules.
pub(super) fn rules(spec: &Authorization, tokens: Option<&Jwt>, problems: &mut Problems) -> AccessRules {
    let otherwise = spec.default_action.as_ref().unwrap_or(&AuthorizationAction::Deny);
    let rules = spec.rules.iter().enumerate();
    let rules = AccessRules {
        otherwise: access(otherwise, problems),
        rules: rules.map(|(i, one)| rule(i, one, tokens, problems)).collect(),
    };
    expressions(&rules, problems);
    rules
}

/// Refuses more expressions than a proxy is told in one policy: each that denies doubles what allowing rules behind it
/// are made of.
fn expressions(rules: &AccessRules, problems: &mut Problems) {
    /// Most rules that have one.
    const MOST: usize = 12;
    /// Most of those that deny and have other conditions, too.
    const MOST_DENYING: usize = 4;
    let is_one = |condition: &AccessCondition| matches!(condition, AccessCondition::Expression(_));
    let with = rules.rules.iter().filter(|rule| rule.conditions.iter().any(is_one));
    let denying = with
        .clone()
        .filter(|rule| rule.access == Access::Deny && rule.conditions.len() > 1);
    if with.count() > MOST {
        problems.add(AREA, format_args!("at most {MOST} rules may have a CEL expression"));
    }
    if denying.count() > MOST_DENYING {
        problems.add(
            AREA,
            format_args!("at most {MOST_DENYING} rules that deny may have a CEL expression beside other conditions"),
        );
    }
}

fn access(action: &AuthorizationAction, problems: &mut Problems) -> Access {
    match action {
        AuthorizationAction::Allow => Access::Allow,
        AuthorizationAction::Deny => Access::Deny,
        AuthorizationAction::Other(other) => {
            problems.add(AREA, format_args!("action {other} is not Allow or Deny"));
            Access::Deny
        }
    }
}

fn rule(i: usize, spec: &AuthorizationRule, tokens: Option<&Jwt>, problems: &mut Problems) -> AccessRule {
    let mut conditions = Vec::new();
    if let Some(operation) = spec.operation.as_deref() {
        requests(i, operation, &mut conditions, problems);
    }
    match spec.principal.as_deref() {
        Some(principal) => {
            senders(i, principal, &mut conditions, problems);
            if let Some(jwt) = principal.jwt.as_deref() {
                claims(i, jwt, tokens, &mut conditions, problems);
            }
        }
        None if spec.cel.is_none() => {
            problems.add(
                AREA,
                format_args!("rule {i}: at least one of principal or cel must be specified"),
            );
        }
        None => {}
    }
    if let Some(text) = spec.cel.as_deref() {
        match cel::read(text, Texts::Made) {
            Ok(expression) => conditions.push(AccessCondition::Expression(Arc::new(expression))),
            Err(why) => problems.add(AREA, format_args!("rule {i}: {why}")),
        }
    }
    AccessRule {
        access: access(&spec.action, problems),
        conditions,
    }
}

/// What a request does.
fn requests(i: usize, spec: &Operation, conditions: &mut Vec<AccessCondition>, problems: &mut Problems) {
    if spec.methods.is_empty() && spec.path.is_none() {
        problems.add(
            AREA,
            format_args!("rule {i}: at least one of methods or path must be specified"),
        );
    }
    if !spec.methods.is_empty() {
        let methods = spec.methods.iter();
        let methods = methods.map(|method| problems.token(AREA, "method", method)).collect();
        conditions.push(AccessCondition::Method(methods));
    }
    let Some(path) = &spec.path else { return };
    let value = path.value.clone();
    let (checked, matches) = match &path.r#type {
        PathMatchType::PathPrefix => (check_path(&value), PathMatch::Prefix(value)),
        PathMatchType::Exact => (check_path(&value), PathMatch::Exact(value)),
        PathMatchType::RegularExpression => (check_expression(&value), PathMatch::Regex(value)),
        PathMatchType::Other(other) => (Err(format!("type {other} is not supported")), PathMatch::Any),
    };
    if let Err(why) = checked {
        problems.add(AREA, format_args!("rule {i}: path {:?} is invalid: {why}", path.value));
    }
    // The prefix of every path.
    let matches = match matches {
        PathMatch::Prefix(prefix) if prefix.trim_end_matches('/').is_empty() => PathMatch::Any,
        PathMatch::Prefix(prefix) => PathMatch::Prefix(prefix.trim_end_matches('/').into()),
        other => other,
    };
    conditions.push(match path.invert {
        true => AccessCondition::OtherPath(matches),
        false => AccessCondition::Path(matches),
    });
}

/// Who sent a request.
fn senders(i: usize, spec: &Principal, conditions: &mut Vec<AccessCondition>, problems: &mut Problems) {
    let before = conditions.len();
    if let Some(ranges) = &spec.client_cidrs {
        if ranges.is_empty() {
            problems.add(AREA, format_args!("rule {i}: clientCIDRs must not be empty"));
        }
        let ranges = ranges.iter().filter_map(|text| range(text, problems)).collect();
        conditions.push(AccessCondition::Client(ranges));
    }
    for header in spec.headers.as_deref().unwrap_or_default() {
        let name = problems.token(AREA, "header", &header.name).to_ascii_lowercase();
        if header.values.is_empty() {
            problems.add(AREA, format_args!("rule {i}: header {name} has no values"));
        }
        let values = header.values.iter();
        let values = values.map(|value| ValueMatcher::Exact((&*problems.text(AREA, "header value", value)).into()));
        conditions.push(AccessCondition::Header(name.into(), values.collect()));
    }
    if let Some(places) = spec.client_ip_geo_locations.as_deref() {
        conditions.push(AccessCondition::Place(geoip::conditions(i, places, problems)));
    }
    if conditions.len() == before && spec.jwt.is_none() {
        problems.add(
            AREA,
            format_args!(
                "rule {i}: at least one of clientCIDRs, jwt, headers, or clientIPGeoLocations must be specified"
            ),
        );
    }
}

/// What a token says of who sent a request.
fn claims(
    i: usize,
    spec: &JwtPrincipal,
    tokens: Option<&Jwt>,
    conditions: &mut Vec<AccessCondition>,
    problems: &mut Problems,
) {
    let provider = &spec.provider;
    match tokens {
        None => problems.add(
            AREA,
            "if authorization.rules.principal.jwt is used, jwt must be defined",
        ),
        Some(tokens) if tokens.providers.iter().all(|known| known.name != *provider) => {
            problems.add(AREA, format_args!("rule {i}: there is no jwt provider {provider}"));
        }
        Some(_) => {}
    }
    if spec.claims.is_empty() && spec.scopes.is_empty() {
        problems.add(
            AREA,
            format_args!("rule {i}: at least one of claims or scopes must be specified"),
        );
    }
    let condition = |path: Vec<Arc<str>>, form: ClaimForm, values: Vec<Arc<str>>| {
        AccessCondition::Claim(ClaimCondition {
            provider: (&**provider).into(),
            path,
            form,
            values,
        })
    };
    for claim in &spec.claims {
        let form = match &claim.value_type {
            ClaimType::String => ClaimForm::Text,
            ClaimType::StringArray => ClaimForm::List,
            ClaimType::Other(other) => {
                problems.add(
                    AREA,
                    format_args!("rule {i}: claim type {other} is not String or StringArray"),
                );
                ClaimForm::Text
            }
        };
        if claim.name.is_empty() || claim.values.is_empty() {
            problems.add(AREA, format_args!("rule {i}: a claim needs a name and values"));
        }
        let path = claim.name.split('.').map(Into::into).collect();
        let values = claim.values.iter().map(|value| (&**value).into()).collect();
        conditions.push(condition(path, form, values));
    }
    // Several words in one text, which the proxy takes apart.
    for scope in &spec.scopes {
        conditions.push(condition(
            vec!["scope".into()],
            ClaimForm::List,
            vec![(&**scope).into()],
        ));
    }
}

fn range(text: &str, problems: &mut Problems) -> Option<AddressRange> {
    cidr(text)
        .map_err(|why| problems.add(AREA, format_args!("invalid ClientCIDR {text:?}: {why}")))
        .ok()
}
