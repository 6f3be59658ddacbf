//! Who may send a request: users, keys, and rules over where it comes from and what it asks for.

use super::{
    common::{fractional, number, text_matcher},
    matches::string_matcher,
};
use edge_ir::{
    Access, AccessCondition, AccessRules, AddressRange, ApiKeyAuth, BasicAuth, ClaimCondition, ClaimForm, Fraction,
    KeySeen, KeySource, PathMatch, SecretBytes, SiteCheck, TextMatcher, ValueMatcher,
};
use envoy_types::pb::envoy::{
    config::{
        core::v3::{CidrRange, DataSource, RuntimeFractionalPercent, data_source::Specifier},
        rbac::v3::{
            MetadataSource, Permission, Policy, Principal, Rbac as Rules, SourcedMetadata, permission,
            principal::{Authenticated, Identifier, Set},
            rbac::Action,
        },
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    extensions::filters::{
        http::{
            api_key_auth::v3::{ApiKeyAuthPerRoute, Credential, Forwarding, KeySource as Source},
            basic_auth::v3::{BasicAuth as Users, BasicAuthPerRoute},
            csrf::v3::CsrfPolicy,
            rbac::v3::{Rbac, RbacPerRoute},
        },
        network::rbac::v3::Rbac as NetworkRbac,
    },
    r#type::matcher::v3::{
        ListMatcher, MetadataMatcher, PathMatcher, StringMatcher, ValueMatcher as MetadataValue, list_matcher,
        metadata_matcher::{PathSegment, path_segment::Segment},
        path_matcher::Rule,
        string_matcher::MatchPattern,
        value_matcher,
    },
};
use std::sync::Arc;

/// What verifies tokens and keeps their claims.
const TOKENS: &str = "envoy.filters.http.jwt_authn";

/// The users of a route.
pub(super) fn users(auth: &BasicAuth) -> BasicAuthPerRoute {
    BasicAuthPerRoute {
        users: Some(inline(&auth.users)),
    }
}

/// A list of users without any: a proxy takes no empty text for one.
const NOBODY: &str = "# nobody";

/// An instance that tells the backend who the user is. It knows none itself: it is off but where a route says who.
pub(super) fn users_with_header(header: &str) -> Users {
    Users {
        users: Some(DataSource {
            specifier: Some(Specifier::InlineString(NOBODY.to_owned())),
            ..Default::default()
        }),
        forward_username_header: header.to_owned(),
        ..Default::default()
    }
}

/// Where requests of a route may come from. Those that are only looked at are counted.
pub(super) fn site_check(check: &SiteCheck) -> CsrfPolicy {
    let share = |fraction: Fraction| RuntimeFractionalPercent {
        default_value: Some(fractional(fraction)),
        ..Default::default()
    };
    let enforced = Fraction(1_000_000_u32.saturating_sub(check.shadowed.0));
    CsrfPolicy {
        filter_enabled: Some(share(enforced)),
        shadow_enabled: (check.shadowed.0 > 0).then(|| share(Fraction(1_000_000))),
        additional_origins: check.trusted.iter().map(string_matcher).collect(),
    }
}

/// An instance by itself looks at nothing.
pub(super) fn no_site_check() -> CsrfPolicy {
    site_check(&SiteCheck {
        trusted: Vec::new(),
        shadowed: Fraction(1_000_000),
    })
}

fn inline(bytes: &SecretBytes) -> DataSource {
    DataSource {
        specifier: Some(Specifier::InlineBytes(bytes.expose().to_vec())),
        ..Default::default()
    }
}

/// The keys of a route.
pub(super) fn keys(auth: &ApiKeyAuth) -> ApiKeyAuthPerRoute {
    let credentials = auth.keys.iter().map(|one| Credential {
        key: String::from_utf8_lossy(one.key.expose()).into_owned(),
        client: one.client.to_string(),
    });
    let header = auth.client_header.as_deref().unwrap_or_default().to_owned();
    let hide_credentials = auth.seen == KeySeen::Removed;
    ApiKeyAuthPerRoute {
        credentials: credentials.collect(),
        key_sources: auth.sources.iter().map(source).collect(),
        forwarding: (hide_credentials || !header.is_empty()).then_some(Forwarding {
            header,
            hide_credentials,
        }),
        ..Default::default()
    }
}

fn source(source: &KeySource) -> Source {
    let mut place = Source::default();
    match source {
        KeySource::Header(name) => place.header = name.to_string(),
        KeySource::Query(name) => place.query = name.to_string(),
        KeySource::Cookie(name) => place.cookie = name.to_string(),
    }
    place
}

/// The rules of a route. The first that matches decides; said as one condition under which a request is let through,
/// for conditions on a path see it without the query there, and a list of matchers doesn't.
pub(super) fn rules(access: &AccessRules) -> RbacPerRoute {
    RbacPerRoute {
        rbac: Some(Rbac {
            rules: Some(let_through(access)),
            ..Default::default()
        }),
    }
}

/// The rules over whole connections.
pub(super) fn of_connections(access: &AccessRules, stat_prefix: &str) -> NetworkRbac {
    NetworkRbac {
        rules: Some(let_through(access)),
        stat_prefix: stat_prefix.to_owned(),
        ..Default::default()
    }
}

/// Rules for the connections of clients: those that show a certificate are let through, whoever it is from.
pub(super) fn of_certificates(stat_prefix: &str) -> NetworkRbac {
    // Without one the subject is empty, which this is not.
    let somebody = text_matcher(&TextMatcher::Regex(".+".into()));
    let shown = Principal {
        identifier: Some(Identifier::Authenticated(Authenticated {
            principal_name: Some(somebody),
        })),
    };
    NetworkRbac {
        rules: Some(letting(vec![shown])),
        stat_prefix: stat_prefix.to_owned(),
        ..Default::default()
    }
}

fn let_through(access: &AccessRules) -> Rules {
    letting(allowed(access))
}

fn letting(principals: Vec<Principal>) -> Rules {
    let policy = Policy {
        permissions: vec![Permission {
            rule: Some(permission::Rule::Any(true)),
        }],
        principals,
        ..Default::default()
    };
    let is_open = !policy.principals.is_empty();
    Rules {
        action: Action::Allow.into(),
        // One at most: the order of several would be another each time.
        policies: is_open.then(|| ("allowed".to_owned(), policy)).into_iter().collect(),
        ..Default::default()
    }
}

/// Whom the rules let through, any of them: each allowing rule but for what those before it deny.
fn allowed(access: &AccessRules) -> Vec<Principal> {
    let mut denied: Vec<Principal> = Vec::new();
    let mut allowed: Vec<Principal> = Vec::new();
    let others = |denied: &[Principal]| match denied {
        [] => None,
        [one] => Some(not(one.clone())),
        several => Some(not(any_of(several.to_vec()))),
    };
    for rule in &access.rules {
        let matched = all_of(rule.conditions.iter().map(condition).collect());
        match rule.access {
            Access::Deny => denied.push(matched),
            Access::Allow => allowed.push(match others(&denied) {
                None => matched,
                Some(others) => all_of(vec![others, matched]),
            }),
        }
    }
    if access.otherwise == Access::Allow {
        allowed.push(others(&denied).unwrap_or_else(anybody));
    }
    allowed
}

fn principal(identifier: Identifier) -> Principal {
    Principal {
        identifier: Some(identifier),
    }
}

fn anybody() -> Principal {
    principal(Identifier::Any(true))
}

fn not(one: Principal) -> Principal {
    principal(Identifier::NotId(Box::new(one)))
}

fn all_of(mut all: Vec<Principal>) -> Principal {
    match all.len() {
        0 => anybody(),
        1 => all.swap_remove(0),
        _ => principal(Identifier::AndIds(Set { ids: all })),
    }
}

/// Of several, at least one.
fn any_of(mut all: Vec<Principal>) -> Principal {
    match all.len() {
        // Of no values none is it.
        0 => not(anybody()),
        1 => all.swap_remove(0),
        _ => principal(Identifier::OrIds(Set { ids: all })),
    }
}

fn condition(condition: &AccessCondition) -> Principal {
    match condition {
        AccessCondition::Client(ranges) => any_of(ranges.iter().map(range).collect()),
        AccessCondition::Method(methods) => {
            let methods = methods.iter().cloned().map(ValueMatcher::Exact);
            any_of(methods.map(|method| header(":method", &method)).collect())
        }
        AccessCondition::Path(path) => at_path(path),
        AccessCondition::OtherPath(path) => not(at_path(path)),
        AccessCondition::Header(name, values) => any_of(values.iter().map(|value| header(name, value)).collect()),
        AccessCondition::Claim(claim) => any_of(claim.values.iter().map(|value| has_claim(claim, value)).collect()),
    }
}

fn range(range: &AddressRange) -> Principal {
    principal(Identifier::RemoteIp(CidrRange {
        address_prefix: range.address.to_string(),
        prefix_len: number(range.bits.into()),
    }))
}

fn header(name: &str, value: &ValueMatcher) -> Principal {
    principal(Identifier::Header(HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(string_matcher(value))),
        ..Default::default()
    }))
}

fn at_path(path: &PathMatch) -> Principal {
    let at = |pattern: MatchPattern| {
        let path = StringMatcher {
            match_pattern: Some(pattern),
            ignore_case: false,
        };
        principal(Identifier::UrlPath(PathMatcher {
            rule: Some(Rule::Path(path)),
        }))
    };
    match path {
        PathMatch::Any => anybody(),
        PathMatch::Exact(path) => at(MatchPattern::Exact(path.to_string())),
        // By whole segments.
        PathMatch::Prefix(prefix) => any_of(vec![
            at(MatchPattern::Exact(prefix.to_string())),
            at(MatchPattern::Prefix(format!("{prefix}/"))),
        ]),
        PathMatch::Regex(regex) => {
            let regex = string_matcher(&ValueMatcher::Regex(Arc::clone(regex)));
            principal(Identifier::UrlPath(PathMatcher {
                rule: Some(Rule::Path(regex)),
            }))
        }
    }
}

fn has_claim(claim: &ClaimCondition, value: &Arc<str>) -> Principal {
    let key = |name: &Arc<str>| PathSegment {
        segment: Some(Segment::Key(name.to_string())),
    };
    let text = string_matcher(&ValueMatcher::Exact(Arc::clone(value)));
    let text = MetadataValue {
        match_pattern: Some(value_matcher::MatchPattern::StringMatch(text)),
    };
    let value = match claim.form {
        ClaimForm::Text => text,
        ClaimForm::List => {
            let list = ListMatcher {
                match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(text))),
            };
            MetadataValue {
                match_pattern: Some(value_matcher::MatchPattern::ListMatch(Box::new(list))),
            }
        }
    };
    principal(Identifier::SourcedMetadata(SourcedMetadata {
        metadata_matcher: Some(MetadataMatcher {
            filter: TOKENS.to_owned(),
            path: [&claim.provider].into_iter().chain(&claim.path).map(key).collect(),
            value: Some(value),
            invert: false,
        }),
        metadata_source: MetadataSource::Dynamic.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::AccessRule;

    fn on(method: &str, access: Access) -> AccessRule {
        AccessRule {
            access,
            conditions: vec![AccessCondition::Method(vec![method.into()])],
        }
    }

    fn those(rules: &[AccessRule], otherwise: Access) -> Vec<Principal> {
        allowed(&AccessRules {
            rules: rules.to_vec(),
            otherwise,
        })
    }

    /// What a method's request meets: the meaning of what is written, for conditions on methods alone.
    fn holds(one: &Principal, method: &str) -> bool {
        match one.identifier.as_ref().expect("an identifier") {
            Identifier::Any(any) => *any,
            Identifier::NotId(one) => !holds(one, method),
            Identifier::AndIds(all) => all.ids.iter().all(|one| holds(one, method)),
            Identifier::OrIds(all) => all.ids.iter().any(|one| holds(one, method)),
            Identifier::Header(header) => *header == header_matcher(method),
            other => panic!("{other:?}"),
        }
    }

    fn header_matcher(method: &str) -> HeaderMatcher {
        match header(":method", &ValueMatcher::Exact(method.into())).identifier {
            Some(Identifier::Header(header)) => header,
            other => panic!("{other:?}"),
        }
    }

    /// The rules as they are written, first match first.
    fn meant(rules: &[AccessRule], otherwise: Access, method: &str) -> bool {
        let matching = rules.iter().find(|rule| {
            rule.conditions.iter().all(|condition| match condition {
                AccessCondition::Method(methods) => methods.iter().any(|m| &**m == method),
                other => panic!("{other:?}"),
            })
        });
        matching.map_or(otherwise, |rule| rule.access) == Access::Allow
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let methods = ["GET", "PUT", "POST"];
        let kinds = [Access::Allow, Access::Deny];
        // Every list of up to three rules over three methods, and one that is for all requests.
        let mut one: Vec<AccessRule> = kinds.into_iter().flat_map(|k| methods.map(|m| on(m, k))).collect();
        one.extend(kinds.map(|access| AccessRule {
            access,
            conditions: vec![],
        }));
        for otherwise in kinds {
            for a in &one {
                for b in &one {
                    for c in &one {
                        let rules = [a.clone(), b.clone(), c.clone()];
                        let allowed = those(&rules, otherwise);
                        for method in methods.into_iter().chain(["HEAD"]) {
                            let is_let = allowed.iter().any(|one| holds(one, method));
                            assert_eq!(is_let, meant(&rules, otherwise, method), "{method} {rules:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_rule_and_deny_lets_nobody_through() {
        assert!(those(&[], Access::Deny).is_empty());
        assert_eq!(those(&[], Access::Allow), [anybody()]);
    }
}
