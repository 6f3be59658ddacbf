//! What a change costs: the units that run are those that the change leads to, by name and number.

use super::{
    cases,
    history::{Configuration, Edit, Engine, LATE, NOW, World, history},
    platform::good_certificate,
    words::read,
};
use edge_translate::api::{Kind, Object, ObjectKey, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Units that the last translation ran, as `name×number`.
fn runs(engine: &Engine) -> Vec<String> {
    let runs = engine.translation.runs.iter();
    runs.map(|(name, times)| format!("{name}×{times}")).collect()
}

/// The same object with a status that somebody wrote.
fn with_status(object: &Object) -> Object {
    let mut value = object.to_value().unwrap();
    value["status"] = json!({"conditions": [{"type": "Accepted", "status": "True"}], "parents": [], "ancestors": []});
    read(value)
}

proptest! {
    #![proptest_config(cases(50))]

    /// The echo of a status runs nothing: in a cluster every word that we write comes back as a change.
    #[test]
    fn the_echo_of_a_status_runs_nothing(edits in history(0..50)) {
        let world = World::after(&edits);
        let mut engine = world.translate();
        for object in world.objects.values() {
            engine.take(&Edit::Put(with_status(object)));
        }
        engine.translate();
        prop_assert_eq!(runs(&engine), Vec::<String>::new());
        // And it is not for ever forgotten that there was something else to say.
        for object in world.objects.values() {
            engine.take(&Edit::Remove(object.key()));
        }
        engine.translate();
        prop_assert!(engine.fleets().is_empty());
    }
}

#[test]
fn nothing_runs_without_a_change() {
    let mut engine = Engine::new(Configuration::Cluster);
    engine.translate();
    assert_eq!(runs(&engine), Vec::<String>::new());
}

/// Two Gateways of their own, routes to two Services, one of them in another namespace; and beside them as many routes,
/// Services and Secrets of no concern as are asked for.
fn world(strangers: usize) -> Engine {
    let mut engine = Engine::new(Configuration::Cluster);
    let mut put = |value: Value| engine.take(&Edit::Put(read(value)));
    put(
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "edge"},
        "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}}),
    );
    put(gateway("g", "c"));
    put(gateway("other", "c-other"));
    put(secret("c", "tls"));
    put(secret("c-other", "tls"));
    put(namespace("b", "x"));
    put(route("a", "r", "g", "/r", "s", "a"));
    put(route("a", "granted", "g", "/granted", "t", "b"));
    put(route("b", "guest", "g", "/guest", "t", "b"));
    for (namespace, name) in [("a", "s"), ("b", "t")] {
        put(service(namespace, name));
        put(slice(namespace, name, &["10.0.0.1"]));
    }
    put(grant("HTTPRoute"));
    for i in 0..strangers {
        put(route(
            "a",
            &format!("stranger-{i}"),
            "other",
            "/",
            &format!("stranger-{i}"),
            "a",
        ));
        put(service("a", &format!("stranger-{i}")));
        put(secret(&format!("stranger-{i}"), "tls"));
    }
    engine.translate();
    assert!(engine.translation.statuses.len() > strangers);
    engine
}

fn gateway(name: &str, certificate: &str) -> Value {
    let namespaces = json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["y"]}]}});
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name, "namespace": "a"},
        "spec": {"gatewayClassName": "edge", "listeners": [
            {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": namespaces}},
            {"name": "https", "protocol": "HTTPS", "port": 443, "hostname": "tls.example.com",
             "tls": {"certificateRefs": [{"name": certificate}]}, "allowedRoutes": {"namespaces": {"from": "None"}}}]}})
}

/// A Secret with a good certificate, and something that only makes it another object.
fn secret(name: &str, note: &str) -> Value {
    let mut data = good_certificate();
    data["note"] = json!(note);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "a"}, "stringData": data})
}

/// The same with a chain that is another text, as a renewed one is.
fn renewed(name: &str) -> Value {
    let mut secret = secret(name, "tls");
    let chain = secret["stringData"]["tls.crt"].as_str().unwrap().to_owned();
    secret["stringData"]["tls.crt"] = json!(format!("{chain}\n"));
    secret
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

fn route(namespace: &str, name: &str, gateway: &str, path: &str, service: &str, of: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": [{"name": gateway, "namespace": "a"}], "hostnames": [format!("{name}.example.com")],
                 "rules": [{"matches": [{"path": {"value": path}}],
                            "backendRefs": [{"name": service, "namespace": of, "port": 80}]}]}})
}

fn service(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"port": 80}]}})
}

fn slice(namespace: &str, service: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<_> = addresses.iter().map(|ip| json!({"addresses": [ip]})).collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": service, "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "endpoints": endpoints, "ports": [{"port": 8080}]})
}

fn security_policy(namespace: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "SecurityPolicy",
        "metadata": {"name": "guard", "namespace": namespace},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": kind, "name": name}],
                 "authorization": {"defaultAction": "Unheard"}}})
}

fn grant(to_routes: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "grant", "namespace": "b"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": to_routes, "namespace": "a"}],
                 "to": [{"group": "", "kind": "Service"}]}})
}

/// Each kind of change runs exactly these, however many objects are there that it doesn't concern.
#[test]
fn a_change_runs_what_it_touches_and_nothing_else() {
    let route_key = ObjectKey::new(Kind::HttpRoute, "a", "r");
    let changes: Vec<(&str, Edit, &[&str])> = vec![
        (
            "a rule of a route is edited: its host",
            Edit::Put(read(route("a", "r", "g", "/edited", "s", "a"))),
            &["Attach×1", "Bound×1", "Host×1", "Status×1"],
        ),
        (
            "a pod comes: the endpoints; whether it is a name, and whether there are any, is asked again",
            Edit::Put(read(slice("a", "s", &["10.0.0.1", "10.0.0.2"]))),
            &["Ready×1", "Cluster×1", "Endpoints×1"],
        ),
        (
            "the last pod goes: also the one route that says so",
            Edit::Put(read(slice("a", "s", &[]))),
            &["Ready×1", "Bound×1", "Cluster×1", "Endpoints×1", "Status×1"],
        ),
        (
            "a proxy comes: where the proxies are",
            Edit::Put(read(slice("edge-gateway-system", "edge-a-g-3f7cf53e", &["10.9.0.1"]))),
            &["Proxies×1"],
        ),
        (
            "a grant goes: the route that needs it, its backend, and nobody's listeners",
            Edit::Put(read(grant("GRPCRoute"))),
            &["Bound×1", "Host×1", "Status×1"],
        ),
        (
            "a label of a namespace: the routes in it",
            Edit::Put(read(namespace("b", "y"))),
            &["Attach×1", "Bound×1", "Host×1", "Status×2"],
        ),
        (
            "a Secret of no concern",
            Edit::Put(read(secret("unheard-of", "tls"))),
            &[],
        ),
        (
            "a key of a Secret that nobody reads",
            Edit::Put(read(secret("c", "other"))),
            &["Certificate×1", "CertificateView×1"],
        ),
        (
            "a certificate is renewed",
            Edit::Put(read(renewed("c"))),
            &["Certificate×1", "CertificateView×1", "Socket×1"],
        ),
        (
            "a policy that can't be honoured covers one route: what it decides is asked, the route is bound anew",
            Edit::Put(read(security_policy("b", "HTTPRoute", "guest"))),
            &["SecurityPolicy×1", "Attach×1", "Bound×1", "Host×1", "Status×2"],
        ),
        (
            "one covers a Gateway: its listeners are asked whether it is theirs, and the routes under it are bound anew",
            Edit::Put(read(security_policy("a", "Gateway", "g"))),
            &[
                "SecurityPolicy×1",
                "Listeners×1",
                "ListenerViews×1",
                "Attach×3",
                "Bound×3",
                "Host×3",
                "Cluster×2",
                "Endpoints×2",
                "Status×4",
            ],
        ),
        ("a second passes", Edit::Tell(Timestamp(NOW.0 + 1)), &[]),
        (
            "the certificates expire: their listeners say so, and are served as before",
            Edit::Tell(LATE),
            &[
                "CertificateView×2",
                "Listeners×2",
                "FleetShape×2",
                "ListenerViews×2",
                "Infra×2",
                "Status×2",
            ],
        ),
        (
            "a route goes",
            Edit::Remove(route_key),
            &["Attach×1", "Bound×1", "Host×1", "Cluster×1", "Endpoints×1", "Status×2"],
        ),
    ];
    for strangers in [0, 20] {
        for (what, edit, expected) in &changes {
            let mut engine = world(strangers);
            engine.take(edit);
            engine.translate();
            assert_eq!(runs(&engine), *expected, "{what}, among {strangers} strangers");
            engine.translate();
            assert_eq!(runs(&engine), Vec::<String>::new(), "{what}, once more");
        }
    }
}

/// A Gateway in the shape of [`gateway`], with something else about its HTTPS listener, and listeners before the
/// others.
fn edited(https: &Value, before: &[Value]) -> Edit {
    let mut gateway = gateway("g", "c");
    let listeners = gateway["spec"]["listeners"].as_array_mut().unwrap();
    let (name, value) = https.as_object().unwrap().iter().next().unwrap();
    listeners[1][name] = value.clone();
    listeners.splice(0..0, before.iter().cloned());
    Edit::Put(read(gateway))
}

/// An edit of a listener makes its own socket again and no other, wherever it stands in the Gateway.
#[test]
fn an_edit_of_a_listener_runs_one_socket() {
    let same = json!({"hostname": "tls.example.com"});
    let another = |port: u16| json!({"name": format!("l-{port}"), "protocol": "HTTP", "port": port});
    let edits: Vec<(&str, Edit, u32)> = vec![
        ("a hostname", edited(&json!({"hostname": "b.example.com"}), &[]), 1),
        (
            "who may attach",
            edited(&json!({"allowedRoutes": {"namespaces": {"from": "Same"}}}), &[]),
            0,
        ),
        ("one more socket, before the others", edited(&same, &[another(8080)]), 1),
        ("two more", edited(&same, &[another(8080), another(8081)]), 2),
        (
            "one moves: a socket goes, one comes",
            edited(&json!({"port": 8443}), &[]),
            2,
        ),
        (
            "one stops serving",
            edited(&json!({"tls": {"certificateRefs": [{"name": "none"}]}}), &[]),
            1,
        ),
        (
            "the Gateway goes",
            Edit::Remove(ObjectKey::new(Kind::Gateway, "a", "g")),
            2,
        ),
    ];
    for (what, edit, sockets) in edits {
        let mut engine = world(0);
        engine.take(&edit);
        engine.translate();
        let ran = engine.translation.runs.iter().find(|(name, _)| *name == "Socket");
        assert_eq!(ran.map_or(0, |(_, times)| *times), sockets, "{what}");
    }
}

/// A route in a namespace with a label that policies ask for.
fn labelled(name: &str, team: &str) -> Value {
    let mut route = route("b", name, "g", &format!("/{name}"), "t", "b");
    route["metadata"]["labels"] = json!({"team": team});
    route
}

/// A policy that chooses routes by their label, in its own namespace or in all that bear a label themselves.
fn chooser(kind: &str, namespace: &str, name: &str, note: &str) -> Value {
    let namespaces =
        (namespace != "b").then(|| json!({"from": "Selector", "selector": {"matchLabels": {"team": "x"}}}));
    let mut policy = json!({"apiVersion": "gateway.edge/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": {"note": note}},
        "spec": {"targetSelectors": [{"kind": "HTTPRoute", "matchLabels": {"team": "shop"}, "namespaces": namespaces}]}});
    if kind == "SecurityPolicy" {
        // Invalid: what it covers is closed.
        policy["spec"]["authorization"] = json!({"defaultAction": "Unheard"});
    }
    policy
}

/// Policies by label over so many routes: one that closes them, one of another namespace, one that has no effect.
fn chosen(routes: usize) -> Engine {
    let mut engine = world(0);
    let mut put = |value: Value| engine.take(&Edit::Put(read(value)));
    put(chooser("SecurityPolicy", "b", "near", ""));
    put(chooser("SecurityPolicy", "a", "far", ""));
    put(chooser("BackendTrafficPolicy", "b", "idle", ""));
    let mut lets_in = grant("HTTPRoute");
    lets_in["metadata"]["name"] = json!("policies");
    lets_in["spec"] = json!({
        "from": [{"group": "gateway.edge", "kind": "SecurityPolicy", "namespace": "a"}],
        "to": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
    });
    put(lets_in);
    for i in 0..routes {
        put(labelled(&format!("shop-{i}"), "shop"));
    }
    engine.translate();
    engine
}

/// A change to one route among those that policies choose costs that route, and neither the others nor the policies.
#[test]
fn policies_with_selectors_cost_what_they_come_to_choose() {
    let changes: Vec<(&str, Edit, &[&str])> = vec![
        (
            "a route comes that three policies choose, each of which says what becomes of it",
            Edit::Put(read(labelled("new", "shop"))),
            &["Attach×1", "Bound×1", "Host×1", "Status×5"],
        ),
        (
            "a route comes that none chooses",
            Edit::Put(read(labelled("new", "news"))),
            &["Attach×1", "Bound×1", "Host×1", "Status×2"],
        ),
        (
            "a route bears another label: it is open",
            Edit::Put(read(labelled("shop-0", "news"))),
            &["Attach×1", "Bound×1", "Host×1", "Status×4"],
        ),
        (
            "a chosen route goes",
            Edit::Remove(ObjectKey::new(Kind::HttpRoute, "b", "shop-0")),
            &["Attach×1", "Bound×1", "Host×1", "Status×5"],
        ),
        (
            "a Gateway comes, which none chooses",
            Edit::Put(read(
                json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "metadata": {"name": "new", "namespace": "b"}, "spec": {"gatewayClassName": "unheard-of"}}),
            )),
            &["Gateway×1", "ListenerViews×1", "Status×1"],
        ),
        (
            "a policy is edited and says the same",
            Edit::Put(read(chooser("BackendTrafficPolicy", "b", "idle", "edited"))),
            &["TrafficPolicy×1", "Status×1"],
        ),
    ];
    for routes in [3, 30] {
        for (what, edit, expected) in &changes {
            let mut engine = chosen(routes);
            engine.take(edit);
            engine.translate();
            assert_eq!(runs(&engine), *expected, "{what}, among {routes} routes");
        }
    }
    // What a policy comes to choose is all that an edit of it, or of a namespace, has to ask.
    let attached = |edit: Value| {
        let mut engine = chosen(4);
        engine.take(&Edit::Put(read(labelled("other", "news"))));
        engine.translate();
        engine.take(&Edit::Put(read(edit)));
        engine.translate();
        let ran = engine.translation.runs.iter().find(|(name, _)| *name == "Attach");
        ran.map_or(0, |(_, times)| *times)
    };
    let mut turned = chooser("SecurityPolicy", "b", "near", "");
    turned["spec"]["targetSelectors"][0]["matchLabels"]["team"] = json!("news");
    assert_eq!(attached(turned), 5);
    assert_eq!(attached(chooser("SecurityPolicy", "b", "near", "the same choice")), 0);
    assert_eq!(
        attached(chooser("BackendTrafficPolicy", "b", "idle", "the same choice")),
        0
    );
}
