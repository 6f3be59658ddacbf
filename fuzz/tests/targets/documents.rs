//! Documents from people, clusters and providers that are read by readers of their own.

use bolero::check;
use edge_proxy::{config::filter::jwt::KeySet, readers};
use edge_translate::{
    Change, Fact, Feature, Fetched, Settings, Translation, Translator,
    api::Object,
    config,
    load::{Limits, Source, from_value, load},
};
use edge_xds::json::{Names, from_json, to_json};
use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
use fuzz::WORLD;
use serde_json::{Value, json};
use std::sync::Arc;

/// A Gateway, a route, and a policy that asks a provider what it says of itself.
const LOGIN: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: edge, listeners: [{name: http, protocol: HTTP, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec: {parentRefs: [{name: g}], rules: [{backendRefs: [{name: s, port: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: edge-oidc-hmac, namespace: edge-gateway-system}
stringData: {hmac-secret: 0123456789abcdef0123456789abcdef}
---
apiVersion: v1
kind: Secret
metadata: {name: client}
stringData: {client-secret: s3cret}
---
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: {name: p}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]
  oidc: {provider: {issuer: \"https://idp.example\"}, clientID: app, clientSecret: {name: client}}
";
const PROVIDER: &str = "https://idp.example/.well-known/openid-configuration";

/// Any text as one of these documents; the first byte says of which kind.
#[test]
fn texts() {
    let (login, world) = (objects(LOGIN), objects(WORLD));
    check!().with_iterations(1000).for_each(|bytes: &[u8]| {
        let Some((kind, bytes)) = bytes.split_first() else {
            return;
        };
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match kind % 7 {
            0 => configuration(text),
            1 => script(&login, text),
            2 => certificate(&world, text),
            3 => provider(&login, text),
            4 => drop(KeySet::read(bytes)),
            5 => assert_ne!(readers::token_lifetime(bytes, 0), Some(0), "{text}"),
            _ => message(text),
        }
    });
}

fn objects(text: &str) -> Vec<Object> {
    let loaded = load(&Source { name: "-", text }, &Limits::default());
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
    loaded.objects.into_iter().map(|loaded| loaded.object).collect()
}

/// What a world becomes with one more object; whatever that holds, no unit falls.
fn with(world: &[Object], object: Option<&Value>, facts: Vec<Fact>) -> Translation {
    let settings = Settings {
        lua_api: Feature::Enabled,
        ..Settings::default()
    };
    let mut translator = Translator::new(settings);
    let more = object.map(|object| {
        from_value(object)
            .unwrap_or_else(|warning| panic!("{}", warning.message))
            .0
    });
    for object in world.iter().cloned().chain(more) {
        translator.apply(Change::Put(object));
    }
    let mut translation = translator.translate();
    if !facts.is_empty() {
        for fact in facts {
            translator.apply(Change::Fact(fact));
        }
        translation = translator.translate();
    }
    assert_eq!(translation.faults, []);
    translation
}

/// The controller's own file: it is read, or there is a word on why not.
fn configuration(text: &str) {
    let read = config::parse(&Source {
        name: "edge.yaml",
        text,
    });
    if let Err(findings) = read {
        assert!(!findings.is_empty(), "refused without a word:\n{text}");
    }
}

/// A script of Lua, which is judged without running it.
fn script(world: &[Object], text: &str) {
    let policy = json!({
        "apiVersion": "gateway.edge/v1alpha1",
        "kind": "EdgeExtensionPolicy",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "lua": [{"type": "Inline", "inline": text}],
        },
    });
    with(world, Some(&policy), Vec::new());
}

/// A certificate of a listener: what is served has one, or there is nothing served.
fn certificate(world: &[Object], text: &str) {
    let key = world.iter().find_map(|object| match object {
        Object::Secret(secret) => Some(secret.data["tls.key"].clone()),
        _ => None,
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cert", "namespace": "default"},
        "stringData": {"tls.crt": text, "tls.key": String::from_utf8_lossy(key.unwrap().expose())},
    });
    for fleet in with(world, Some(&secret), Vec::new()).fleets.values() {
        let chains = fleet.listeners.iter().flat_map(|l| l.chains.iter());
        let named: Vec<_> = chains
            .filter_map(|c| c.tls.as_ref())
            .flat_map(|t| &t.certificates)
            .collect();
        assert!(
            named
                .iter()
                .all(|name| fleet.secrets.iter().any(|s| Some(&s.name) == name.of_fleet()))
        );
    }
}

/// What an identity provider says of itself.
fn provider(world: &[Object], text: &str) {
    let fact = Fact::Document(PROVIDER.into(), Fetched::Text(Arc::from(text)));
    with(world, None, vec![fact]);
}

/// JSON that is a message stays that message when it is written and read again.
fn message(text: &str) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    if let Ok(message) = from_json::<Bootstrap>(value) {
        let written = to_json(&message, Names::Proto).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(from_json::<Bootstrap>(written).ok(), Some(message), "{text}");
    }
}
