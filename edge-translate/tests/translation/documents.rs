//! What a provider says of itself is asked for once, told once, and forgotten when nobody asks any more.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

use edge_translate::{
    Change, Fact, Fetched, Question, Settings, Translation, Translator,
    api::{Kind, ObjectKey},
    load,
    status::StatusBody,
};
use serde_json::{Value, json};

const URL: &str = "https://idp.example/.well-known/openid-configuration";

fn put(translator: &mut Translator, value: Value) {
    translator.apply(Change::Put(load::from_value(&value).unwrap().0));
}

/// A route, and what a login needs but for the policy.
fn translator() -> Translator {
    let mut translator = Translator::new(Settings::default());
    for value in [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "edge"},
            "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "a"},
            "spec": {"gatewayClassName": "edge", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "client", "namespace": "a"},
            "stringData": {"client-secret": "s"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "edge-oidc-hmac", "namespace": "edge-gateway-system"},
            "stringData": {"hmac-secret": "s"}}),
    ] {
        put(&mut translator, value);
    }
    for name in ["guarded", "other"] {
        put(
            &mut translator,
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": name, "namespace": "a"},
                "spec": {"parentRefs": [{"name": "g"}], "hostnames": [format!("{name}.example")], "rules": [
                    {"filters": [{"type": "RequestRedirect", "requestRedirect": {"statusCode": 301}}]}]}}),
        );
    }
    translator
}

fn policy() -> Value {
    json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "SecurityPolicy", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "guarded"}],
            "oidc": {"provider": {"issuer": "https://idp.example"}, "clientID": "app", "clientSecret": {"name": "client"}}}})
}

fn asked() -> Question {
    Question::Document(URL.into())
}

fn tell(translator: &mut Translator, fetched: Fetched) -> Translation {
    translator.apply(Change::Fact(Fact::Document(URL.into(), fetched)));
    translator.translate()
}

fn configuration(token: &str) -> Fetched {
    let told = json!({"issuer": "https://idp.example", "authorization_endpoint": "https://idp.example/auth",
        "token_endpoint": format!("https://idp.example/{token}")});
    Fetched::Text(told.to_string().into())
}

/// The reasons of what is said about the policy.
fn reasons(translator: &Translator) -> Vec<String> {
    let status = translator.statuses()[&ObjectKey::new(Kind::SecurityPolicy, "a", "p")].clone();
    let StatusBody::Ancestors { ancestors, .. } = &status.body else {
        panic!("{status:?}");
    };
    let conditions = &ancestors[0].conditions;
    conditions.iter().map(|c| format!("{} {}", c.kind, c.reason)).collect()
}

/// Whether the fleet has the filter of the login.
fn asks_for_logins(translation: &Translation) -> bool {
    let fleet = translation.fleets.values().next().unwrap();
    format!("{:?}", fleet.listeners).contains("Oauth2")
}

#[test]
fn a_policy_waits_for_what_it_needs_and_says_so() {
    let mut translator = translator();
    put(&mut translator, policy());
    let translation = translator.translate();
    assert_eq!(
        (translation.wanted.added, translation.wanted.removed),
        (vec![asked()], vec![])
    );
    assert_eq!(reasons(&translator), ["Accepted Accepted", "Programmed Pending"]);

    let translation = tell(&mut translator, Fetched::Failed("status code: 404".into()));
    assert_eq!(reasons(&translator), ["Accepted Invalid"]);
    assert!(!asks_for_logins(&translation));

    let translation = tell(&mut translator, configuration("token"));
    assert_eq!(reasons(&translator), ["Accepted Accepted"]);
    assert!(asks_for_logins(&translation));
    assert!(translation.wanted.added.is_empty(), "it is asked once");

    // Told again, the same: nothing is done. Told another: the filter is another.
    let same = tell(&mut translator, configuration("token"));
    assert_eq!(same.runs.len(), 0, "{:?}", same.runs);
    let other = tell(&mut translator, configuration("other"));
    assert!(format!("{:?}", other.fleets).contains("https://idp.example/other"));
}

#[test]
fn what_is_pending_closes_what_it_covers_and_nothing_else() {
    let mut translator = translator();
    let before = translator.translate();
    put(&mut translator, policy());
    let after = translator.translate();
    let hosts = |translation: &Translation| {
        let fleet = translation.fleets.values().next().unwrap().clone();
        let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
        hosts.map(|host| format!("{host:?}")).collect::<Vec<_>>()
    };
    let (before, after) = (hosts(&before), hosts(&after));
    assert_eq!(before[1], after[1], "the neighbour");
    assert_ne!(before[0], after[0]);
    assert!(after[0].contains("500"), "{}", after[0]);
}

#[test]
fn what_nobody_asks_is_forgotten() {
    let mut translator = translator();
    // Told before anybody asks: nobody would know how old it is.
    tell(&mut translator, configuration("token"));
    put(&mut translator, policy());
    translator.translate();
    assert_eq!(reasons(&translator)[1], "Programmed Pending");
    tell(&mut translator, configuration("token"));

    translator.apply(Change::Remove(ObjectKey::new(Kind::SecurityPolicy, "a", "p")));
    let translation = translator.translate();
    assert_eq!(
        (translation.wanted.added, translation.wanted.removed),
        (vec![], vec![asked()])
    );
    put(&mut translator, policy());
    let translation = translator.translate();
    assert_eq!(translation.wanted.added, [asked()]);
    assert_eq!(reasons(&translator)[1], "Programmed Pending", "it is fetched anew");
}
