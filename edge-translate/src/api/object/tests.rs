use serde_json::json;

use super::*;
use crate::api::{FromNamespaces, HttpPathMatch, PathMatchType, Protocol, SecretData, SessionPersistenceType, TlsMode};
use crate::load::from_value;

fn read(value: Value) -> Object {
    let (object, mut warnings) = from_value(&value).unwrap();
    warnings.retain(|w| !w.message.contains("is not supported by this version"));
    assert_eq!(warnings, []);
    object
}

fn route(rules: Value) -> Arc<HttpRoute> {
    match read(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "ns"},
        "spec": {"parentRefs": [{"name": "gw"}], "rules": rules},
    })) {
        Object::HttpRoute(route) => route,
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_read_as_kind_namespace_name() {
    assert_eq!(ObjectKey::new(Kind::HttpRoute, "ns", "r").to_string(), "HTTPRoute/ns/r");
    assert_eq!(
        ObjectKey::new(Kind::GatewayClass, "", "c").to_string(),
        "GatewayClass/c"
    );
}

#[test]
fn every_kind_is_found_by_group_and_name() {
    for kind in Kind::ALL {
        assert_eq!(Kind::of(kind.group(), kind.as_str()), Some(*kind));
    }
    assert_eq!(Kind::of("example.com", "Gateway"), None);
}

#[test]
fn references_default_as_the_crd_says() {
    let route = route(json!([{"backendRefs": [{"name": "svc", "port": 80}]}]));
    let parent = &route.spec.parent_refs[0];
    assert_eq!(
        (&*parent.group, &*parent.kind),
        ("gateway.networking.k8s.io", "Gateway")
    );
    let backend = &route.spec.rules[0].backend_refs[0];
    assert_eq!((&*backend.group, &*backend.kind, backend.weight), ("", "Service", 1));
}

#[test]
fn absent_path_and_rules_match_everything() {
    let everything = HttpPathMatch {
        r#type: PathMatchType::PathPrefix,
        value: "/".into(),
    };
    let some = route(json!([{"matches": [{"method": "GET"}, {"path": {"value": "/a"}}]}]));
    assert_eq!(some.spec.rules[0].matches[0].path, everything);
    assert_eq!(some.spec.rules[0].matches[1].path.r#type, PathMatchType::PathPrefix);
    let none = route(Value::Null);
    assert_eq!(none.spec.rules.len(), 1);
    assert_eq!(none.spec.rules[0].matches[0].path, everything);
}

#[test]
fn filters_and_retry_default_as_the_crd_says() {
    let route = route(json!([{
        "filters": [
            {"type": "RequestRedirect", "requestRedirect": {}},
            {"type": "CORS", "cors": {}},
            {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "m"}, "fraction": {"numerator": 5}}},
        ],
        "retry": {"codes": [503]},
        "sessionPersistence": {"cookie": {}},
    }]));
    let rule = &route.spec.rules[0];
    assert_eq!(rule.filters[0].request_redirect.as_ref().unwrap().status_code, 302);
    assert_eq!(rule.filters[1].cors.as_ref().unwrap().max_age, 5);
    assert_eq!(
        rule.filters[2]
            .request_mirror
            .as_ref()
            .unwrap()
            .fraction
            .as_ref()
            .unwrap()
            .denominator,
        100
    );
    assert_eq!(rule.retry.as_ref().unwrap().attempts, 1);
    let session = rule.session_persistence.as_ref().unwrap();
    assert_eq!(session.r#type, SessionPersistenceType::Cookie);
    assert_eq!(&*session.cookie.as_ref().unwrap().path, "/");
}

#[test]
fn listeners_default_as_the_crd_says() {
    let object = read(json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "Gateway", "metadata": {"name": "g"},
        "spec": {"gatewayClassName": "c", "allowedListeners": {}, "addresses": [{"value": "10.0.0.1"}], "listeners": [
            {"name": "a", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "cert"}]}},
            {"name": "b", "port": 1, "protocol": "example.com/own"},
        ]},
    }));
    let Object::Gateway(gateway) = &object else {
        panic!("{object:?}")
    };
    assert_eq!(&*gateway.metadata.namespace, "default");
    let listener = &gateway.spec.listeners[0];
    assert_eq!(listener.allowed_routes.namespaces.from, FromNamespaces::Same);
    let tls = listener.tls.as_ref().unwrap();
    assert_eq!(
        (&tls.mode, &*tls.certificate_refs[0].kind),
        (&TlsMode::Terminate, "Secret")
    );
    assert_eq!(
        gateway.spec.listeners[1].protocol,
        Protocol::Other("example.com/own".into())
    );
    assert_eq!(
        gateway.spec.allowed_listeners.as_ref().unwrap().namespaces.from,
        FromNamespaces::None
    );
    assert_eq!(gateway.spec.addresses[0].r#type.as_str(), "IPAddress");
}

#[test]
fn secrets_are_decoded_and_never_printed() {
    let object = read(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"a": "aGVs\nbG8="}, "stringData": {"b": "plain"},
    }));
    let Object::Secret(secret) = &object else {
        panic!("{object:?}")
    };
    assert_eq!(secret.data.get("a"), Some(&SecretData::new(*b"hello")));
    assert_eq!(secret.data.get("b"), Some(&SecretData::new(*b"plain")));
    let shown = format!("{object:?}");
    assert!(
        !shown.contains("hello") && !shown.contains("plain") && !shown.contains("104"),
        "{shown}"
    );
}

#[test]
fn objects_survive_being_written_and_read() {
    let written = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aGVsbG8="}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"a": "b"},
            "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "targetPort": "http"}]}}),
        json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeProxy", "metadata": {"name": "p"},
            "spec": {"provider": {"type": "Cluster", "cluster": {"envoyDeployment": {"patch": {"value": {"spec": null}}}}},
            "mergeBackends": {}, "backendTLS": {"alpnProtocols": []}}}),
        json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "Backend", "metadata": {"name": "b"},
            "spec": {"endpoints": [{"fqdn": {"hostname": "a.example", "port": 443}}],
            "appProtocols": ["gateway.edge/h2c"], "tls": {"insecureSkipVerify": true}}}),
        json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "SecurityPolicy", "metadata": {"name": "p"},
            "spec": {"jwt": {"optional": null}}}),
    ];
    for value in written {
        let object = read(value);
        let again = read(object.to_value().unwrap());
        assert_eq!(object, again);
    }
}

#[test]
fn null_means_something_in_free_json_only() {
    let object = read(json!({
        "apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeProxy", "metadata": {"name": "p", "labels": null},
        "spec": {"routingType": null,
            "provider": {"type": "Cluster", "cluster": {"envoyDeployment": {"patch": {"value": {"spec": null}}}}}},
    }));
    let Object::EdgeProxy(proxy) = &object else {
        panic!("{object:?}")
    };
    assert_eq!(proxy.spec.routing_type, None);
    let provider = proxy.spec.provider.as_ref().and_then(|p| p.cluster.as_ref()).unwrap();
    let patch = provider
        .envoy_deployment
        .as_ref()
        .and_then(|d| d.patch.as_ref())
        .unwrap();
    assert_eq!(patch.value, json!({"spec": null}));
}
