//! What a provider says of itself is asked for once, told once, and forgotten when nobody asks any more.

use crate::rig::{GATEWAY, Rig, all_closed, filters, hosts, redirect};
use edge_ir::FilterSettings;
use edge_translate::{Fact, Fetched, Question, api::Kind};
use serde_json::json;

const URL: &str = "https://idp.example/.well-known/openid-configuration";

/// What a login needs but for the policy.
const SECRETS: &str = "
apiVersion: v1
kind: Secret
metadata: {name: client}
stringData: {client-secret: s}
---
apiVersion: v1
kind: Secret
metadata: {name: edge-oidc-hmac, namespace: edge-gateway-system}
stringData: {hmac-secret: s}
";

const POLICY: &str = "
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: {name: p}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: guarded}]
  oidc: {provider: {issuer: 'https://idp.example'}, clientID: app, clientSecret: {name: client}}
";

fn world() -> Rig {
    let (guarded, other) = (redirect("guarded"), redirect("other"));
    Rig::new(&[GATEWAY, SECRETS, &guarded, &other].join("---"))
}

fn asked() -> Question {
    Question::Document(URL.into())
}

fn told(fetched: Fetched) -> Fact {
    Fact::Document(URL.into(), fetched)
}

fn configuration(token: &str) -> Fact {
    let text = json!({"issuer": "https://idp.example", "authorization_endpoint": "https://idp.example/auth",
        "token_endpoint": format!("https://idp.example/{token}")});
    told(Fetched::Text(text.to_string().into()))
}

fn reasons(rig: &Rig) -> Vec<String> {
    rig.reasons(Kind::SecurityPolicy, "p")
}

/// Where the filter of the login gets tokens, if the fleet has that filter.
fn token_endpoint(rig: &Rig) -> Option<&str> {
    filters(rig.fleet()).find_map(|settings| match settings {
        FilterSettings::Login(login) => Some(&*login.provider.token),
        _ => None,
    })
}

#[test]
fn a_policy_waits_for_what_it_needs_and_says_so() {
    let mut rig = world();
    let wanted = &rig.put(POLICY).wanted;
    assert_eq!((&*wanted.added, &*wanted.removed), (&[asked()][..], &[][..]));
    assert_eq!(reasons(&rig), ["Accepted Accepted", "Programmed Pending"]);

    rig.tell(told(Fetched::Failed("status code: 404".into())));
    assert_eq!(reasons(&rig), ["Accepted Invalid"]);
    assert_eq!(token_endpoint(&rig), None);

    rig.tell(configuration("token"));
    assert_eq!(reasons(&rig), ["Accepted Accepted"]);
    assert_eq!(token_endpoint(&rig), Some("https://idp.example/token"));
    assert!(rig.last.wanted.added.is_empty(), "it is asked once");

    // Told again, the same: nothing is done. Told another: the filter is another.
    let runs = &rig.tell(configuration("token")).runs;
    assert_eq!(runs.len(), 0, "{runs:?}");
    rig.tell(configuration("other"));
    assert_eq!(token_endpoint(&rig), Some("https://idp.example/other"));
}

#[test]
fn what_is_pending_closes_what_it_covers_and_nothing_else() {
    let mut rig = world();
    let before = hosts(rig.fleet());
    rig.put(POLICY);
    let after = hosts(rig.fleet());
    assert_eq!(before[1], after[1], "the neighbour");
    assert!(!all_closed(&before[0].routes));
    assert!(all_closed(&after[0].routes), "{:?}", after[0]);
}

#[test]
fn what_nobody_asks_is_forgotten() {
    let mut rig = world();
    // Told before anybody asks: nobody would know how old it is.
    rig.tell(configuration("token"));
    rig.put(POLICY);
    assert_eq!(reasons(&rig)[1], "Programmed Pending");
    rig.tell(configuration("token"));

    let wanted = &rig.remove(Kind::SecurityPolicy, "p").wanted;
    assert_eq!((&*wanted.added, &*wanted.removed), (&[][..], &[asked()][..]));
    assert_eq!(rig.put(POLICY).wanted.added, [asked()]);
    assert_eq!(reasons(&rig)[1], "Programmed Pending", "it is fetched anew");
}
