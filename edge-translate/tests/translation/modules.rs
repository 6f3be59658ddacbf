//! A Wasm module is asked for with all that fetching it takes, told by its digest, and forgotten when nobody asks any
//! more. Until it is there, what must run closes what its policy covers.

use crate::rig::{GATEWAY, Rig, all_closed, filters, hosts, redirect};
use edge_ir::FilterSettings;
use edge_translate::{Fact, FoundModule, Module, ModuleLook, ModuleSource, Question, WantedModule, api::Kind};
use serde_json::{Value, json};
use std::sync::Arc;

const URL: &str = "https://modules.example/m.wasm";

/// Two routes, the one with the policy first.
fn world() -> Rig {
    let (extended, other) = (redirect("extended"), redirect("other"));
    Rig::new(&[GATEWAY, &extended, &other].join("---"))
}

fn policy(entry: &Value) -> String {
    let policy = json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeExtensionPolicy", "metadata": {"name": "p"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "extended"}],
            "wasm": [entry]}});
    policy.to_string()
}

/// With a module at the URL that must run.
fn of_url() -> String {
    policy(&json!({"code": {"type": "HTTP", "http": {"url": URL}}}))
}

fn of_image(image: &Value) -> String {
    policy(&json!({"code": {"type": "Image", "image": image}}))
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

fn told(found: FoundModule) -> Fact {
    Fact::Module(asked(), found)
}

fn here(digit: &str) -> Fact {
    told(FoundModule::Here(Module {
        sha256: digit.repeat(64).into(),
        image: None,
    }))
}

fn failed() -> Fact {
    told(FoundModule::Failed("status code: 404".into()))
}

/// What is said about the policy: type, reason and message of each condition.
fn said(rig: &Rig) -> Vec<String> {
    let conditions = rig.conditions(Kind::EdgeExtensionPolicy, "p");
    conditions
        .iter()
        .map(|c| format!("{} {}: {}", c.kind, c.reason, c.message))
        .collect()
}

/// Where proxies get the module, if they run one.
fn module(rig: &Rig) -> Option<&str> {
    filters(rig.fleet()).find_map(|settings| match settings {
        FilterSettings::Wasm(filter) => Some(&*filter.module.url),
        _ => None,
    })
}

/// The module that an image is asked for.
fn wanted(rig: &Rig) -> Arc<WantedModule> {
    let [Question::Module(wanted)] = &*rig.last.wanted.added else {
        panic!("{:?}", rig.last.wanted);
    };
    Arc::clone(wanted)
}

#[test]
fn a_policy_waits_for_its_module_fails_with_it_and_runs_what_there_is() {
    let mut rig = world();
    let before = hosts(rig.fleet());
    rig.put(&of_url());
    assert_eq!(rig.last.wanted.added, [Question::Module(asked())]);
    let now = said(&rig);
    assert!(now[0].starts_with("Accepted Accepted"), "{now:?}");
    let waits =
        format!("Programmed Pending: Wasm: module {URL} is being fetched. Until then requests are answered 500.");
    assert_eq!(now[1], waits);
    let closed = hosts(rig.fleet());
    assert!(all_closed(&closed[0].routes), "{closed:?}");
    assert_eq!(closed[1], before[1]);

    rig.tell(failed());
    assert_eq!(
        said(&rig),
        [format!(
            "Accepted Invalid: Wasm: module {URL} can't be had: status code: 404."
        )]
    );
    assert_eq!(hosts(rig.fleet()), closed);

    rig.tell(here("a"));
    assert_eq!(said(&rig).len(), 1);
    let url = module(&rig).unwrap();
    assert!(url.ends_with(&format!(":18002/{}.wasm", "a".repeat(64))), "{url}");
    assert!(!all_closed(&hosts(rig.fleet())[0].routes));
    assert!(rig.last.wanted.added.is_empty(), "it is asked once");

    // Told again, the same: nothing is done. Told another: proxies fetch that one.
    assert_eq!(rig.tell(here("a")).runs.len(), 0);
    rig.tell(here("b"));
    let url = module(&rig).unwrap();
    assert!(url.contains(&"b".repeat(64)), "{url}");
}

#[test]
fn what_may_be_missing_is_left_out_until_it_is_there() {
    let mut rig = world();
    let before = hosts(rig.fleet());
    rig.put(&policy(
        &json!({"code": {"type": "HTTP", "http": {"url": URL}}, "failOpen": true}),
    ));
    let now = said(&rig);
    assert!(now[1].ends_with("Until then requests go on without it."), "{now:?}");
    assert_eq!(hosts(rig.fleet()), before);
    rig.tell(failed());
    assert_eq!(hosts(rig.fleet()), before);
    assert!(said(&rig)[0].starts_with("Accepted Invalid"));
    rig.tell(here("a"));
    assert_ne!(hosts(rig.fleet()), before);
}

#[test]
fn what_nobody_asks_is_forgotten() {
    let mut rig = world();
    // Told before anybody asks: nobody would know how old it is.
    rig.tell(here("a"));
    rig.put(&of_url());
    assert!(said(&rig)[1].starts_with("Programmed Pending"));
    rig.tell(here("a"));
    let wanted = &rig.remove(Kind::EdgeExtensionPolicy, "p").wanted;
    let asked = [Question::Module(asked())];
    assert_eq!((&*wanted.added, &*wanted.removed), (&[][..], &asked[..]));
    assert_eq!(rig.put(&of_url()).wanted.added, asked);
}

#[test]
fn an_image_is_asked_for_with_its_secret_and_whoever_changes_that_asks_anew() {
    let secret = |password: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
            "stringData": {".dockerconfigjson": password}});
        secret.to_string()
    };
    let mut rig = world();
    rig.put(&secret("hush"));
    rig.put(&of_image(
        &json!({"url": "oci://registry.example/team/filter", "pullSecretRef": {"name": "pull"}}),
    ));
    let wanted = wanted(&rig);
    // Whoever says latest means what that is now.
    assert_eq!(
        (wanted.look, wanted.source.to_string()),
        (ModuleLook::Again, "oci://registry.example/team/filter:latest".into())
    );
    assert_eq!(wanted.credentials.as_ref().unwrap().expose(), b"hush");
    assert!(!format!("{wanted:?}").contains("hush"), "{wanted:?}");
    let later = &rig.put(&secret("two")).wanted;
    assert_eq!(
        (later.added.len(), &*later.removed),
        (1, &[Question::Module(wanted)][..])
    );
}

#[test]
fn an_image_must_be_the_one_that_the_policy_means() {
    let mut rig = world();
    rig.put(&of_image(
        &json!({"url": "oci://registry.example/team/filter", "sha256": "c".repeat(64)}),
    ));
    let wanted = wanted(&rig);
    // By its manifest, whatever the module is. One whose manifest nobody saw is not the one.
    for (manifest, is_it) in [(Some("c"), true), (Some("d"), false), (None, false)] {
        let module = Module {
            sha256: "a".repeat(64).into(),
            image: manifest.map(|digit| digit.repeat(64).into()),
        };
        rig.tell(Fact::Module(Arc::clone(&wanted), FoundModule::Here(module)));
        let now = said(&rig);
        assert_eq!(now[0].starts_with("Accepted Accepted"), is_it, "{now:?}");
        assert!(is_it || now[0].contains("which does not match"), "{now:?}");
    }
}
