//! A Wasm module is asked for with all that fetching it takes, told by its digest, and forgotten when nobody asks any
//! more. Until it is there, what must run closes what its policy covers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

use edge_translate::{
    Change, Fact, FoundModule, Module, ModuleLook, ModuleSource, Question, Settings, Translation, Translator,
    WantedModule,
    api::{Kind, ObjectKey},
    load,
    status::StatusBody,
};
use serde_json::{Value, json};
use std::sync::Arc;

const URL: &str = "https://modules.example/m.wasm";

fn put(translator: &mut Translator, value: Value) {
    translator.apply(Change::Put(load::from_value(&value).unwrap().0));
}

/// Two routes.
fn translator() -> Translator {
    let mut translator = Translator::new(Settings::default());
    for value in [
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "edge"},
            "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "a"},
            "spec": {"gatewayClassName": "edge", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}}),
    ] {
        put(&mut translator, value);
    }
    for name in ["extended", "other"] {
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

fn policy(entry: Value) -> Value {
    json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeExtensionPolicy", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "extended"}],
            "wasm": [entry]}})
}

fn of_url(fields: Value) -> Value {
    let mut entry = json!({"code": {"type": "HTTP", "http": {"url": URL}}});
    entry
        .as_object_mut()
        .unwrap()
        .append(&mut fields.as_object().unwrap().clone());
    entry
}

fn asked() -> Arc<WantedModule> {
    Arc::new(WantedModule {
        source: ModuleSource::Url(URL.into()),
        sha256: None,
        look: ModuleLook::Once,
        authorities: None,
        credentials: None,
    })
}

fn tell(translator: &mut Translator, wanted: &Arc<WantedModule>, found: FoundModule) -> Translation {
    translator.apply(Change::Fact(Fact::Module(Arc::clone(wanted), found)));
    translator.translate()
}

fn here(digit: &str) -> FoundModule {
    FoundModule::Here(Module {
        sha256: digit.repeat(64).into(),
        image: None,
    })
}

fn failed() -> FoundModule {
    FoundModule::Failed("status code: 404".into())
}

/// What is said about the policy: type, reason and message of each condition.
fn said(translator: &Translator) -> Vec<String> {
    let status = translator.statuses()[&ObjectKey::new(Kind::EdgeExtensionPolicy, "a", "p")].clone();
    let StatusBody::Ancestors { ancestors, .. } = &status.body else {
        panic!("{status:?}");
    };
    let conditions = ancestors[0].conditions.iter();
    conditions
        .map(|c| format!("{} {}: {}", c.kind, c.reason, c.message))
        .collect()
}

/// The hosts of the fleet, as text, the policy's first.
fn hosts(translation: &Translation) -> Vec<String> {
    let fleet = translation.fleets.values().next().unwrap().clone();
    let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
    hosts.map(|host| format!("{host:?}")).collect()
}

fn listeners(translation: &Translation) -> String {
    format!("{:?}", translation.fleets.values().next().unwrap().listeners)
}

#[test]
fn a_policy_waits_for_its_module_fails_with_it_and_runs_what_there_is() {
    let mut translator = translator();
    let before = hosts(&translator.translate());
    put(&mut translator, policy(of_url(json!({}))));
    let translation = translator.translate();
    assert_eq!(translation.wanted.added, [Question::Module(asked())]);
    let now = said(&translator);
    assert!(now[0].starts_with("Accepted Accepted"), "{now:?}");
    let waits =
        format!("Programmed Pending: Wasm: module {URL} is being fetched. Until then requests are answered 500.");
    assert_eq!(now[1], waits);
    let closed = hosts(&translation);
    assert!(
        closed[0].contains("status: 500") && closed[1] == before[1],
        "{closed:?}"
    );

    let translation = tell(&mut translator, &asked(), failed());
    let now = said(&translator);
    assert_eq!(
        now,
        [format!(
            "Accepted Invalid: Wasm: module {URL} can't be had: status code: 404."
        )]
    );
    assert_eq!(hosts(&translation), closed);

    let translation = tell(&mut translator, &asked(), here("a"));
    assert_eq!(said(&translator).len(), 1);
    assert!(listeners(&translation).contains(&format!("18002/{}.wasm", "a".repeat(64))));
    assert!(!hosts(&translation)[0].contains("status: 500"));
    assert!(translation.wanted.added.is_empty(), "it is asked once");

    // Told again, the same: nothing is done. Told another: proxies fetch that one.
    assert_eq!(tell(&mut translator, &asked(), here("a")).runs.len(), 0);
    assert!(listeners(&tell(&mut translator, &asked(), here("b"))).contains(&"b".repeat(64)));
}

#[test]
fn what_may_be_missing_is_left_out_until_it_is_there() {
    let mut translator = translator();
    let before = hosts(&translator.translate());
    put(&mut translator, policy(of_url(json!({"failOpen": true}))));
    let translation = translator.translate();
    let now = said(&translator);
    assert!(now[1].ends_with("Until then requests go on without it."), "{now:?}");
    assert_eq!(hosts(&translation), before);
    assert_eq!(hosts(&tell(&mut translator, &asked(), failed())), before);
    assert!(said(&translator)[0].starts_with("Accepted Invalid"));
    assert_ne!(hosts(&tell(&mut translator, &asked(), here("a"))), before);
}

#[test]
fn what_nobody_asks_is_forgotten() {
    let mut translator = translator();
    // Told before anybody asks: nobody would know how old it is.
    tell(&mut translator, &asked(), here("a"));
    put(&mut translator, policy(of_url(json!({}))));
    translator.translate();
    assert!(said(&translator)[1].starts_with("Programmed Pending"));
    tell(&mut translator, &asked(), here("a"));
    translator.apply(Change::Remove(ObjectKey::new(Kind::EdgeExtensionPolicy, "a", "p")));
    let wanted = translator.translate().wanted;
    assert_eq!(
        (wanted.added, wanted.removed),
        (vec![], vec![Question::Module(asked())])
    );
    put(&mut translator, policy(of_url(json!({}))));
    assert_eq!(translator.translate().wanted.added, [Question::Module(asked())]);
}

#[test]
fn an_image_is_asked_for_with_its_secret_and_whoever_changes_that_asks_anew() {
    let secret = |password: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "a"},
            "stringData": {".dockerconfigjson": password}})
    };
    let mut translator = translator();
    put(&mut translator, secret("hush"));
    let image = json!({"url": "oci://registry.example/team/filter", "pullSecretRef": {"name": "pull"}});
    put(
        &mut translator,
        policy(json!({"code": {"type": "Image", "image": image}})),
    );
    let added = translator.translate().wanted.added;
    let [Question::Module(wanted)] = &*added else {
        panic!("{added:?}");
    };
    // Whoever says latest means what that is now.
    assert_eq!(
        (wanted.look, wanted.source.to_string()),
        (ModuleLook::Again, "oci://registry.example/team/filter:latest".into())
    );
    assert_eq!(wanted.credentials.as_ref().unwrap().expose(), b"hush");
    assert!(!format!("{wanted:?}").contains("hush"), "{wanted:?}");
    put(&mut translator, secret("two"));
    let later = translator.translate().wanted;
    assert_eq!((later.added.len(), later.removed), (1, added));
}

#[test]
fn an_image_must_be_the_one_that_the_policy_means() {
    let mut translator = translator();
    let image = json!({"url": "oci://registry.example/team/filter", "sha256": "c".repeat(64)});
    put(
        &mut translator,
        policy(json!({"code": {"type": "Image", "image": image}})),
    );
    let added = translator.translate().wanted.added;
    let [Question::Module(wanted)] = &*added else {
        panic!("{added:?}");
    };
    // By its manifest, whatever the module is. One whose manifest nobody saw is not the one.
    for (manifest, is_it) in [(Some("c"), true), (Some("d"), false), (None, false)] {
        let module = Module {
            sha256: "a".repeat(64).into(),
            image: manifest.map(|digit| digit.repeat(64).into()),
        };
        tell(&mut translator, wanted, FoundModule::Here(module));
        let now = said(&translator);
        assert_eq!(now[0].starts_with("Accepted Accepted"), is_it, "{now:?}");
        assert!(is_it || now[0].contains("which does not match"), "{now:?}");
    }
}
