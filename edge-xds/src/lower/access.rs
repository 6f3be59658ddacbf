//! Who may send a request: users, keys, and rules over where it comes from and what it asks for.

mod geoip;

use super::{
    common::{fractional, number, text_matcher},
    expression,
    matches::string_matcher,
};
use crate::wire::joined;
use edge_ir::{
    Access, AccessCondition, AccessRule, AccessRules, AddressRange, ApiKeyAuth, BasicAuth, ClaimCondition, ClaimForm,
    Expression, Fraction, KeySeen, KeySource, PathMatch, SecretBytes, SiteCheck, TextMatcher, ValueMatcher,
};
use envoy_types::pb::envoy::{
    config::{
        core::v3::{CelExpressionConfig, CidrRange, DataSource, RuntimeFractionalPercent, data_source::Specifier},
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
use envoy_types::pb::google::protobuf::Any;
use prost::Name;
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
pub(super) fn rules(access: &AccessRules) -> Any {
    let one = |rules| RbacPerRoute {
        rbac: Some(Rbac {
            rules: Some(rules),
            ..Default::default()
        }),
    };
    let (plain, conditional): (Vec<Clause>, Vec<Clause>) =
        allowed(access).into_iter().partition(|clause| clause.when.is_empty());
    let plain = letting(plain.into_iter().map(|clause| all_of(clause.who)).collect());
    let conditional = conditional
        .into_iter()
        .enumerate()
        .map(|(i, clause)| on_condition(i, clause));
    Any {
        type_url: RbacPerRoute::type_url(),
        value: joined([plain].into_iter().chain(conditional).map(one)),
    }
}

/// What lets requests through that meet an expression.
fn on_condition(number: usize, clause: Clause) -> Rules {
    let condition = clause.when.into_iter().reduce(Expression::and);
    let policy = Policy {
        permissions: anything(),
        principals: vec![all_of(clause.who)],
        condition: condition.as_ref().map(expression::lower),
        // Without these a proxy takes `+` of texts, and has no answer for it.
        cel_config: Some(CelExpressionConfig {
            enable_string_conversion: true,
            enable_string_concat: true,
            enable_string_functions: true,
        }),
        ..Default::default()
    };
    Rules {
        action: Action::Allow.into(),
        policies: [(format!("allowed/{number}"), policy)].into(),
        ..Default::default()
    }
}

/// The rules over whole connections.
pub(super) fn of_connections(access: &AccessRules, stat_prefix: &str) -> NetworkRbac {
    NetworkRbac {
        // Expressions are about requests: rules that have one are for no connection.
        rules: Some(letting(
            allowed(access).into_iter().map(|clause| all_of(clause.who)).collect(),
        )),
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

fn letting(principals: Vec<Principal>) -> Rules {
    let policy = Policy {
        permissions: anything(),
        principals,
        ..Default::default()
    };
    let is_open = !policy.principals.is_empty();
    Rules {
        action: Action::Allow.into(),
        // One at most: the order of several would be another each time. Messages of several can be joined.
        policies: is_open.then(|| ("allowed".to_owned(), policy)).into_iter().collect(),
        ..Default::default()
    }
}

fn anything() -> Vec<Permission> {
    vec![Permission {
        rule: Some(permission::Rule::Any(true)),
    }]
}

/// Some who are let through: who is all of these, when all of these are true.
#[derive(Clone, Debug, Default, PartialEq)]
struct Clause {
    who: Vec<Principal>,
    when: Vec<Expression>,
}

impl Clause {
    fn of(rule: &AccessRule) -> Self {
        let expressions = rule.conditions.iter().filter_map(|condition| match condition {
            AccessCondition::Expression(expression) => Some(Expression::clone(expression)),
            _ => None,
        });
        Self {
            who: rule.conditions.iter().filter_map(condition).collect(),
            when: expressions.collect(),
        }
    }
}

/// Whom rules deny, as far as they were read.
#[derive(Default)]
struct Denied {
    /// Whatever is true.
    always: Vec<Principal>,
    /// When something is true.
    sometimes: Vec<Clause>,
}

impl Denied {
    fn add(&mut self, clause: Clause) {
        match clause.when.is_empty() {
            true => self.always.push(all_of(clause.who)),
            false => self.sometimes.push(clause),
        }
    }

    /// Those of a clause who aren't denied. A proxy's condition stands beside those whom it is for and never within, so
    /// whoever is denied by both needs a clause for each way of not being.
    fn spare(&self, clause: Clause) -> Vec<Clause> {
        let others = match self.always.as_slice() {
            [] => None,
            [one] => Some(not(one.clone())),
            several => Some(not(any_of(several.to_vec()))),
        };
        let first = Clause {
            who: others.into_iter().chain(clause.who).collect(),
            when: clause.when,
        };
        self.sometimes.iter().fold(vec![first], |spared, denied| {
            let when = denied.when.iter().cloned().reduce(Expression::and);
            let unmet = |mut clause: Clause| {
                clause.when.extend(when.clone().map(Expression::unmet));
                clause
            };
            let mut all: Vec<Clause> = Vec::new();
            for clause in spared {
                if !denied.who.is_empty() {
                    let mut other = clause.clone();
                    other.who.push(not(all_of(denied.who.clone())));
                    all.push(other);
                }
                all.push(unmet(clause));
            }
            all
        })
    }
}

/// Whom the rules let through, any of them: each allowing rule but for what those before it deny.
fn allowed(access: &AccessRules) -> Vec<Clause> {
    let mut denied = Denied::default();
    let mut allowed: Vec<Clause> = Vec::new();
    for rule in &access.rules {
        // What matched is one, however much it is made of.
        let Clause { who, when } = Clause::of(rule);
        match rule.access {
            Access::Deny => denied.add(Clause { who, when }),
            Access::Allow => allowed.extend(denied.spare(Clause {
                who: vec![all_of(who)],
                when,
            })),
        }
    }
    if access.otherwise == Access::Allow {
        allowed.extend(denied.spare(Clause::default()));
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

/// Who meets a condition; none for an expression, which is no matter of who somebody is.
fn condition(condition: &AccessCondition) -> Option<Principal> {
    Some(match condition {
        AccessCondition::Client(ranges) => any_of(ranges.iter().map(range).collect()),
        AccessCondition::Method(methods) => {
            let methods = methods.iter().map(|method| ValueMatcher::Exact((&**method).into()));
            any_of(methods.map(|method| header(":method", &method)).collect())
        }
        AccessCondition::Path(path) => at_path(path),
        AccessCondition::OtherPath(path) => not(at_path(path)),
        AccessCondition::Header(name, values) => any_of(values.iter().map(|value| header(name, value)).collect()),
        AccessCondition::Claim(claim) => any_of(claim.values.iter().map(|value| has_claim(claim, value)).collect()),
        AccessCondition::Place(places) => geoip::at(places),
        AccessCondition::Expression(_) => return None,
    })
}

fn range(range: &AddressRange) -> Principal {
    principal(Identifier::RemoteIp(cidr(range)))
}

/// A range of addresses.
pub(super) fn cidr(range: &AddressRange) -> CidrRange {
    CidrRange {
        address_prefix: range.address.to_string(),
        prefix_len: number(range.bits.into()),
    }
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
            let regex = string_matcher(&ValueMatcher::Regex(regex.clone()));
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
    let text = string_matcher(&ValueMatcher::Exact((&**value).into()));
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

    fn on(method: &str, access: Access) -> AccessRule {
        AccessRule {
            access,
            conditions: vec![AccessCondition::Method(vec![method.into()])],
        }
    }

    fn those(rules: &[AccessRule], otherwise: Access) -> Vec<Principal> {
        let allowed = allowed(&AccessRules {
            rules: rules.to_vec(),
            otherwise,
        });
        allowed.into_iter().map(|clause| all_of(clause.who)).collect()
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

    /// What is known of `a` and `b`: true, false, or nothing at all.
    type Truths = [Option<bool>; 2];

    /// Whether a clause lets a request through, by its method and what is true of it.
    fn lets(clause: &Clause, method: &str, truths: Truths) -> bool {
        let is_true = |one: &Expression| value(one, truths) == Some(true);
        clause.who.iter().all(|one| holds(one, method)) && clause.when.iter().all(is_true)
    }

    fn value(expression: &Expression, truths: Truths) -> Option<bool> {
        match expression {
            Expression::Name(name) => truths[usize::from(&**name == "b")],
            Expression::Call(call) if &*call.function == "!_" => Some(!value(&call.arguments[0], truths)?),
            Expression::Call(call) if &*call.function == "@not_strictly_false" => {
                Some(value(&call.arguments[0], truths) != Some(false))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_rule_decides_where_expressions_have_a_say() {
        let named = |name: &str| AccessCondition::Expression(Arc::new(Expression::Name(name.into())));
        let of_method = |method: &str| AccessCondition::Method(vec![method.into()]);
        let conditions = [
            vec![of_method("GET")],
            vec![named("a")],
            vec![of_method("GET"), named("b")],
            vec![],
        ];
        let kinds = [Access::Allow, Access::Deny];
        let one: Vec<AccessRule> = kinds
            .into_iter()
            .flat_map(|access| conditions.clone().map(|conditions| AccessRule { access, conditions }))
            .collect();
        let all = [Some(true), Some(false), None];
        let worlds: Vec<(&str, Truths)> = ["GET", "PUT"]
            .into_iter()
            .flat_map(|method| all.map(|a| (method, a)))
            .flat_map(|(method, a)| all.map(|b| (method, [a, b])))
            .collect();
        let meets = |rule: &AccessRule, method: &str, truths: Truths| {
            rule.conditions.iter().all(|condition| match condition {
                AccessCondition::Method(methods) => methods.iter().any(|m| &**m == method),
                AccessCondition::Expression(expression) => value(expression, truths) == Some(true),
                other => panic!("{other:?}"),
            })
        };
        for otherwise in kinds {
            for a in &one {
                for b in &one {
                    for c in &one {
                        let access = AccessRules {
                            rules: vec![a.clone(), b.clone(), c.clone()],
                            otherwise,
                        };
                        let clauses = allowed(&access);
                        for (method, truths) in worlds.iter().copied() {
                            let first = access.rules.iter().find(|rule| meets(rule, method, truths));
                            let meant = first.map_or(otherwise, |rule| rule.access) == Access::Allow;
                            let is_let = clauses.iter().any(|clause| lets(clause, method, truths));
                            assert_eq!(is_let, meant, "{method} {truths:?} {access:?}");
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
