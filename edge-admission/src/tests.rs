//! Judgements on objects that show one thing each.

use super::{Catalogue, Channel, Path, Verdict};
use serde_json::{Value, json};

fn judge(object: &Value) -> Option<Verdict> {
    Catalogue::of(Channel::Standard).judge(object)
}

fn said(object: &Value) -> Vec<String> {
    let verdict = judge(object).expect("a kind that is judged");
    verdict.refusals.iter().map(ToString::to_string).collect()
}

fn gateway(listeners: Value) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"},
           "spec": {"gatewayClassName": "c", "listeners": listeners}})
}

#[test]
fn every_definition_can_be_read_and_all_its_rules_run() {
    for (channel, least) in [(Channel::Standard, 20), (Channel::Experimental, 30)] {
        let mut count = 0;
        for definition in Catalogue::of(channel).all() {
            let compiled = kube_cel::compile_schema(&definition.schema);
            assert_eq!(broken_rules(&compiled), Vec::<String>::new(), "{}", definition.kind);
            count += 1;
        }
        assert!(count > least, "{count}");
    }
}

fn broken_rules(schema: &kube_cel::CompiledSchema) -> Vec<String> {
    let own = schema
        .compilation_errors()
        .into_iter()
        .map(|error| format!("{error:?}"));
    let below = schema
        .properties
        .values()
        .chain(schema.items.as_deref())
        .chain(schema.additional_properties.as_deref());
    own.chain(below.flat_map(broken_rules)).collect()
}

#[test]
fn what_is_valid_is_completed() {
    let verdict = judge(&gateway(json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))).unwrap();
    assert_eq!(verdict.refusals, []);
    let listener = &verdict.completed["spec"]["listeners"][0];
    assert_eq!(listener["allowedRoutes"], json!({"namespaces": {"from": "Same"}}));
}

#[test]
fn each_refusal_has_its_place_and_the_words_of_an_api_server() {
    let listener = |more: Value| {
        let mut listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
        for (name, value) in more.as_object().into_iter().flatten() {
            listener[name] = value.clone();
        }
        said(&gateway(json!([listener])))
    };
    for (found, expected) in [
        (
            listener(json!({"port": 0})),
            "spec.listeners[0].port: Invalid value: 0: spec.listeners[0].port in body should be greater than or equal to 1",
        ),
        (
            listener(json!({"port": "80"})),
            "spec.listeners[0].port: Invalid value: \"string\": spec.listeners[0].port in body must be of type integer: \
             \"string\"",
        ),
        (listener(json!({"prot": 80})), "spec.listeners[0].prot: unknown field"),
        (
            listener(json!({"hostname": "UPPER"})),
            "spec.listeners[0].hostname: Invalid value: \"UPPER\": spec.listeners[0].hostname in body should match \
             '^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'",
        ),
        (
            listener(json!({"allowedRoutes": {"namespaces": {"from": "Anywhere"}}})),
            "spec.listeners[0].allowedRoutes.namespaces.from: Unsupported value: \"Anywhere\": supported values: \
             \"All\", \"Selector\", \"Same\"",
        ),
        (
            listener(json!({"protocol": "TCP", "hostname": "a.example"})),
            "spec.listeners: Invalid value: hostname must not be specified for protocols ['TCP', 'UDP']",
        ),
        (
            said(&gateway(json!([]))),
            "spec.listeners: Invalid value: 0: spec.listeners in body should have at least 1 items",
        ),
    ] {
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_told_by_what_it_wants() {
    let listener = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"mode": "Terminate"}}]);
    let rule = "certificateRefs or options must be specified when mode is Terminate";
    let expected = format!("spec.listeners[0].tls: Invalid value: \"object\": evaluating rule: {rule}");
    assert_eq!(said(&gateway(listener)), [expected]);
    // What can't be evaluated on one side doesn't matter if the other side decides.
    let listener = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"options": {"a.b/c": "d"}}}]);
    assert_eq!(said(&gateway(listener)), Vec::<String>::new());
}

#[test]
fn an_entry_that_stands_twice_is_named() {
    let one = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    let found = said(&gateway(json!([one, one, one])));
    assert_eq!(found[0], "spec.listeners[1]: Duplicate value: {\"name\":\"http\"}");
    let rules = [
        "Listener name must be unique within the Gateway",
        "Combination of port, protocol and hostname must be unique for each listener",
    ];
    assert_eq!(
        found[1..],
        rules.map(|rule| format!("spec.listeners: Invalid value: {rule}"))
    );
}

#[test]
fn an_address_must_be_one() {
    let mut object = gateway(json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    object["spec"]["addresses"] = json!([{"type": "IPAddress", "value": "1.2.3.4:80"}]);
    let found = said(&object);
    assert!(
        found[0].contains("must validate one and only one schema (oneOf). Found none valid"),
        "{found:?}"
    );
    object["spec"]["addresses"] =
        json!([{"type": "IPAddress", "value": "1.2.3.4"}, {"type": "IPAddress", "value": "::1"}]);
    assert_eq!(said(&object), Vec::<String>::new());
}

#[test]
fn names_and_labels_are_looked_at() {
    let mut object = gateway(json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    object["metadata"] = json!({"name": "No_Name", "labels": {"a b": "c"}});
    let found = said(&object);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("metadata.name: Invalid value: \"No_Name\""),
        "{found:?}"
    );
    object["metadata"] = json!({"name": "g", "annotations": {"a": 1, "b": null}, "lables": {}, "creationTimestamp": "yesterday",
        "generation": 0.5, "finalizers": "f", "deletionTimestamp": null});
    let found = said(&object);
    for part in [
        "metadata.annotations.a: Invalid value: \"integer\"",
        "metadata.lables: unknown field",
        "metadata.creationTimestamp: Invalid value: \"yesterday\": metadata.creationTimestamp in body must be of type date-time",
        "metadata.generation: Invalid value: \"number\"",
        "metadata.finalizers: Invalid value: \"string\"",
    ] {
        assert!(found.iter().any(|one| one.starts_with(part)), "{part}: {found:?}");
    }
    assert_eq!(found.len(), 5, "{found:?}");
    object["metadata"] = json!({"name": "g", "annotations": {"Example.com/A": "x".repeat(256 << 10), "a b": ""},
        "finalizers": ["bad one", "example.com/good"],
        "ownerReferences": [{"apiVersion": "apps/", "kind": "x", "uid": "1", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2", "controller": true}]});
    let found = said(&object);
    for part in [
        "metadata.annotations: Too long: may not be more than 262144 bytes",
        "metadata.annotations: Invalid value: \"a b\"",
        "metadata.finalizers: Invalid value: \"bad one\"",
        "metadata.ownerReferences[0].apiVersion: Invalid value: \"apps/\": version must not be empty",
        "metadata.ownerReferences[0].name: Invalid value: \"\": name must not be empty",
        "metadata.ownerReferences: Invalid value: \"\": only one reference can have controller",
    ] {
        assert!(found.iter().any(|one| one.starts_with(part)), "{part}: {found:?}");
    }
    assert_eq!(found.len(), 6, "{found:?}");
    object["metadata"] = json!({});
    assert_eq!(
        said(&object),
        ["metadata.name: Required value: name or generateName is required"]
    );
}

#[test]
fn a_channel_has_its_kinds_and_fields() {
    let mut object = gateway(json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    object["spec"]["defaultScope"] = json!("All");
    assert_eq!(said(&object), ["spec.defaultScope: unknown field"]);
    assert_eq!(
        Catalogue::of(Channel::Experimental).judge(&object).unwrap().refusals,
        []
    );
    object["apiVersion"] = json!("gateway.networking.k8s.io/v7");
    assert_eq!(
        said(&object),
        ["no matches for kind \"Gateway\" in version \"gateway.networking.k8s.io/v7\""]
    );
}

#[test]
fn kinds_of_others_are_not_judged() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    assert_eq!(judge(&service), None);
    assert_eq!(judge(&json!("no object")), None);
    assert_eq!(Path::default().to_string(), "");
}

#[test]
fn what_no_server_knows_is_refused_whatever_it_is() {
    for (object, why) in [
        (json!({"a": "b"}), "apiVersion: Required value"),
        (
            json!({"apiVersion": "v1", "metadata": {"name": "x"}}),
            "kind: Required value",
        ),
        (
            json!({"apiVersion": "gateway.edge", "kind": "SecurityPolicy", "metadata": {"name": "x"}}),
            "no matches for kind \"SecurityPolicy\" in version \"gateway.edge\"",
        ),
        (
            json!({"apiVersion": "v1", "kind": "SecurityPolicy", "metadata": {"name": "x"}}),
            "no matches for kind \"SecurityPolicy\" in version \"v1\"",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Teapot"}),
            "metadata.name: Required value: name or generateName is required",
        ),
    ] {
        let verdict = Catalogue::of(Channel::Standard).judge(&object).unwrap();
        let refusals: Vec<_> = verdict.refusals.iter().map(ToString::to_string).collect();
        assert_eq!(refusals, [why], "{object}");
    }
    for object in [
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}}),
        json!({"apiVersion": "example.com/v1", "kind": "Teapot", "metadata": {"name": "x"}}),
    ] {
        assert_eq!(Catalogue::of(Channel::Standard).judge(&object), None, "{object}");
    }
}
