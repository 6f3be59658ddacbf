//! Rules over who may do what (Envoy's `rbac`), for requests and for connections.
//!
//! A condition is a tree whose leaves look at one fact. What can't be known of a connection, such as a header, is
//! refused by the compiler there.

use std::net::{IpAddr, SocketAddr};

use http::Method;
use serde_json::Value;

use crate::config::address::AddressRange;
use crate::config::header::{HeaderCondition, StringCondition};
use crate::config::table::RequestView;
pub use crate::expression::Metadata;
use crate::expression::{self, Expression};

/// What conditions see.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The peer of the connection.
    pub peer: IpAddr,
    /// Whose the connection is: the peer, or whom its PROXY header names.
    pub source: IpAddr,
    /// The client, as far as proxies before this one are trusted to say who it is.
    pub client: IpAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The name that the client has asked for in TLS; empty where it has asked for none.
    pub server_name: &'a str,
    /// The names in the certificate that the client has shown; over TLS without one there is an empty one alone, and
    /// `None` in cleartext. Reading one is work, so it is done when it is asked for.
    pub certificate: &'a dyn Fn() -> Option<Vec<String>>,
    /// The request; a connection has none.
    pub request: Option<(RequestView<'a>, &'a Metadata)>,
    /// What expressions may ask of the request.
    pub attributes: Option<&'a dyn expression::Facts>,
}

/// Rules, as one decision.
#[derive(Debug)]
pub struct AccessRules {
    /// What it means that a policy holds.
    pub effect: Effect,
    /// In the order of their names.
    pub policies: Vec<AccessPolicy>,
}

/// What it means that a policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only what a policy holds for is let through.
    Allow,
    /// All else is.
    Deny,
    /// Nothing: it is only noted.
    Log,
}

/// What may be done by whom.
#[derive(Debug)]
pub struct AccessPolicy {
    /// Its name.
    pub name: Box<str>,
    /// All of them must hold.
    pub permission: Condition,
    /// All of them must hold.
    pub principal: Condition,
    /// All of them must hold; without a value it doesn't.
    pub condition: Option<Expression>,
}

impl AccessPolicy {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        let is_true = |condition: &Expression| facts.attributes.is_some_and(|attributes| condition.holds(attributes));
        self.permission.holds(facts) && self.principal.holds(facts) && self.condition.as_ref().is_none_or(is_true)
    }
}

/// A condition on a request or a connection.
#[derive(Debug)]
pub enum Condition {
    /// Always.
    Any,
    /// All of them.
    All(Box<[Condition]>),
    /// At least one.
    OneOf(Box<[Condition]>),
    /// Not this.
    Not(Box<Condition>),
    /// A header.
    Header(Box<HeaderCondition>),
    /// The path without its query.
    Path(StringCondition),
    /// The peer of the connection.
    Peer(AddressRange),
    /// Whose the connection is, after the PROXY header.
    Source(AddressRange),
    /// The client, as far as proxies before this one are trusted to say who it is.
    Client(AddressRange),
    /// Our address.
    Local(AddressRange),
    /// Our port, from … to before.
    LocalPort(u32, u32),
    /// The name that the client has asked for in TLS; empty where it has asked for none.
    ServerName(StringCondition),
    /// The client speaks TLS; if a name is asked for, with that in its certificate, where one without has an empty
    /// name.
    Certificate(Option<StringCondition>),
    /// What a filter before this one has found out.
    Metadata(Box<MetadataCondition>),
}

/// Where something is that filters have found out.
#[derive(Debug, PartialEq, Eq)]
pub struct MetadataPath {
    /// Which filter.
    pub filter: Box<str>,
    /// The way from object to object.
    pub path: Box<[Box<str>]>,
}

impl MetadataPath {
    /// What is there.
    pub fn find<'m>(&self, metadata: &'m Metadata) -> Option<&'m Value> {
        let mut value = metadata.get(&*self.filter)?;
        for key in &self.path {
            value = value.get(&**key)?;
        }
        Some(value)
    }
}

/// A condition on what filters have found out.
#[derive(Debug)]
pub struct MetadataCondition {
    /// Which filter.
    pub filter: Box<str>,
    /// The way from object to object.
    pub path: Box<[Box<str>]>,
    /// What is there.
    pub test: ValueTest,
    /// The condition holds when the test does not.
    pub invert: bool,
}

/// A test of a value.
#[derive(Debug)]
pub enum ValueTest {
    /// It is null.
    Null,
    /// It is a text.
    Text(StringCondition),
    /// It is this.
    Bool(bool),
    /// It is a number in `start..end`.
    Range(f64, f64),
    /// It is this number.
    Number(f64),
    /// It is there.
    Present,
    /// Nothing passes.
    Never,
    /// It is a list with an element that passes.
    Element(Box<ValueTest>),
    /// It passes one of these.
    OneOf(Box<[ValueTest]>),
}

impl AccessRules {
    /// Whether something is let through; and the policy that holds, if one does.
    pub fn judge(&self, facts: &Facts<'_>) -> (bool, Option<&AccessPolicy>) {
        let mut policies = self.policies.iter();
        let found = policies.find(|policy| policy.holds(facts));
        let is_let = match self.effect {
            Effect::Allow => found.is_some(),
            Effect::Deny => found.is_none(),
            Effect::Log => true,
        };
        (is_let, found)
    }

    /// Why somebody isn't let in, by the policy that holds, in Envoy's words.
    pub fn why_denied(&self, policy: Option<&AccessPolicy>) -> String {
        let name = policy
            .filter(|_| self.effect == Effect::Deny)
            .map_or("none", |policy| &*policy.name);
        // A log has no blanks in a word.
        let name = name.replace(char::is_whitespace, "_");
        format!("rbac_access_denied_matched_policy[{name}]")
    }
}

impl Condition {
    /// Whether it holds.
    fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::All(all) => all.iter().all(|one| one.holds(facts)),
            Self::OneOf(some) => some.iter().any(|one| one.holds(facts)),
            Self::Not(one) => !one.holds(facts),
            Self::Header(condition) => facts.request.is_some_and(|(request, _)| condition.holds(&request)),
            // A CONNECT has no path (RFC 9110 §9.3.6), which no condition on paths meets.
            Self::Path(condition) => facts
                .request
                .is_some_and(|(request, _)| *request.method != Method::CONNECT && condition.matches(request.path())),
            Self::Peer(range) => range.contains(facts.peer),
            Self::Source(range) => range.contains(facts.source),
            Self::Client(range) => range.contains(facts.client),
            Self::Local(range) => range.contains(facts.local.ip()),
            Self::LocalPort(from, before) => (*from..*before).contains(&u32::from(facts.local.port())),
            Self::ServerName(condition) => condition.matches(facts.server_name),
            Self::Certificate(name) => (facts.certificate)().is_some_and(|names| {
                name.as_ref()
                    .is_none_or(|condition| names.iter().any(|name| condition.matches(name)))
            }),
            Self::Metadata(condition) => facts.request.is_some_and(|(_, metadata)| condition.holds(metadata)),
        }
    }
}

impl MetadataCondition {
    /// What it is about.
    fn value<'m>(&self, metadata: &'m Metadata) -> Option<&'m Value> {
        let mut value = metadata.get(&*self.filter);
        for key in &self.path {
            value = value.and_then(|value| value.get(&**key));
        }
        value
    }

    fn holds(&self, metadata: &Metadata) -> bool {
        self.test.passes(self.value(metadata)) != self.invert
    }

    /// Whether what is there passes; `None` where nothing is.
    pub fn judges(&self, metadata: &Metadata) -> Option<bool> {
        let value = self.value(metadata)?;
        Some(self.test.passes(Some(value)) != self.invert)
    }
}

impl ValueTest {
    /// Whether what is there passes; nothing passes no test.
    fn passes(&self, value: Option<&Value>) -> bool {
        let number = || value.and_then(Value::as_f64);
        match self {
            Self::Null => value.is_some_and(Value::is_null),
            Self::Text(condition) => value
                .and_then(Value::as_str)
                .is_some_and(|text| condition.matches(text)),
            Self::Bool(want) => value.and_then(Value::as_bool) == Some(*want),
            Self::Range(start, end) => number().is_some_and(|number| (*start..*end).contains(&number)),
            Self::Number(want) => number().is_some_and(|number| number.total_cmp(want).is_eq()),
            Self::Present => value.is_some(),
            Self::Never => false,
            Self::Element(test) => value
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|element| test.passes(Some(element)))),
            Self::OneOf(tests) => tests.iter().any(|test| test.passes(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str, prefix_len: u8) -> AddressRange {
        AddressRange {
            address: text.parse().expect("an address"),
            prefix_len,
        }
    }

    /// As in Envoy, where `authenticated` asks for TLS, and for a certificate only by a name that none has without.
    #[test]
    fn whoever_speaks_tls_is_somebody() {
        let nobody = || Some(StringCondition::Exact("".into()));
        let named = || Some(StringCondition::Prefix("spiffe:".into()));
        let shown = ["spiffe://a".to_owned(), "CN=a".to_owned()];
        for (names, any, without, with) in [
            (None, false, false, false),
            (Some(vec![String::new()]), true, true, false),
            (Some(shown.to_vec()), true, false, true),
            // What can't be read.
            (Some(Vec::new()), true, false, false),
        ] {
            let facts = Facts {
                certificate: &|| names.clone(),
                ..facts("192.0.2.9")
            };
            for (name, wanted) in [(None, any), (nobody(), without), (named(), with)] {
                let found = Condition::Certificate(name).holds(&facts);
                assert_eq!(found, wanted, "{names:?}");
            }
        }
    }

    fn facts(client: &str) -> Facts<'static> {
        Facts {
            peer: "10.0.0.1".parse().expect("an address"),
            source: "10.0.0.2".parse().expect("an address"),
            client: client.parse().expect("an address"),
            local: "127.0.0.1:80".parse().expect("an address"),
            server_name: "",
            certificate: &|| None,
            request: None,
            attributes: None,
        }
    }

    fn is_let(effect: Effect, principal: Condition, client: &str) -> bool {
        let rules = AccessRules {
            effect,
            policies: vec![AccessPolicy {
                name: "p".into(),
                permission: Condition::Any,
                principal,
                condition: None,
            }],
        };
        rules.judge(&facts(client)).0
    }

    #[test]
    fn effects_turn_what_holds_into_a_decision() {
        let here = || Condition::Client(range("192.0.2.0", 24));
        for (effect, inside, outside) in [
            (Effect::Allow, true, false),
            (Effect::Deny, false, true),
            (Effect::Log, true, true),
        ] {
            assert_eq!(is_let(effect, here(), "192.0.2.9"), inside, "{effect:?}");
            assert_eq!(is_let(effect, here(), "198.51.100.9"), outside, "{effect:?}");
        }
        // Without a request nothing holds that is about one, and in cleartext nothing about certificates.
        assert!(!is_let(
            Effect::Allow,
            Condition::Path(StringCondition::Prefix("/".into())),
            "192.0.2.9"
        ));
        assert!(!is_let(Effect::Allow, Condition::Certificate(None), "192.0.2.9"));
        for (address, peer, source) in [("10.0.0.1", true, false), ("10.0.0.2", false, true)] {
            let one = || range(address, 32);
            assert_eq!(is_let(Effect::Allow, Condition::Peer(one()), "192.0.2.9"), peer);
            assert_eq!(is_let(Effect::Allow, Condition::Source(one()), "192.0.2.9"), source);
        }
    }

    #[test]
    fn a_connect_has_no_path_that_lets_it_through() {
        use crate::config::header::{HeaderField, HeaderTest};
        let headers = http::HeaderMap::new();
        let path = |method: &Method| {
            let view = RequestView {
                method,
                scheme: "http",
                authority: "a.example:443",
                path_and_query: "/",
                headers: &headers,
                random: 0,
            };
            let facts = Facts {
                peer: "10.0.0.1".parse().expect("an address"),
                source: "10.0.0.1".parse().expect("an address"),
                client: "10.0.0.1".parse().expect("an address"),
                local: "127.0.0.1:80".parse().expect("an address"),
                server_name: "",
                certificate: &|| None,
                request: Some((view, &Metadata::default())),
                attributes: None,
            };
            let prefix = Condition::Path(StringCondition::Prefix("/".into()));
            let header = Condition::Header(Box::new(HeaderCondition {
                field: HeaderField::Path,
                test: HeaderTest::Present,
                invert: false,
                missing_as_empty: false,
            }));
            [prefix.holds(&facts), header.holds(&facts)]
        };
        assert_eq!(path(&Method::GET), [true, true]);
        assert_eq!(path(&Method::CONNECT), [false, false]);
    }

    #[test]
    fn values_are_tested_by_their_kind() {
        let metadata = Metadata::from([(
            "jwt".into(),
            serde_json::json!({"claims": {"sub": "ann", "groups": ["a", "b"], "age": 7, "none": null}}),
        )]);
        let holds = |path: &[&str], test: ValueTest| {
            let condition = MetadataCondition {
                filter: "jwt".into(),
                path: path.iter().map(|key| (*key).into()).collect(),
                test,
                invert: false,
            };
            condition.holds(&metadata)
        };
        let text = |text: &str| ValueTest::Text(StringCondition::Exact(text.into()));
        assert!(holds(&["claims", "sub"], text("ann")) && !holds(&["claims", "sub"], text("bob")));
        assert!(holds(&["claims", "groups"], ValueTest::Element(Box::new(text("b")))));
        assert!(!holds(&["claims", "groups"], text("b")) && !holds(&["claims", "other"], text("")));
        assert!(holds(&["claims", "age"], ValueTest::Range(7.0, 8.0)));
        assert!(holds(&["claims", "none"], ValueTest::Null) && holds(&["claims", "none"], ValueTest::Present));
        assert!(!holds(&["claims", "x"], ValueTest::Present));
        assert!(holds(
            &["claims", "sub"],
            ValueTest::OneOf([text("x"), text("ann")].into())
        ));
        let of = |key: &str| MetadataCondition {
            filter: "jwt".into(),
            path: [key.into()].into(),
            test: ValueTest::Present,
            invert: false,
        };
        assert_eq!(
            (of("claims").judges(&metadata), of("none").judges(&metadata)),
            (Some(true), None)
        );
    }
}
