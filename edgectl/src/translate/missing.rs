//! `--add-missing-resources`: stands in for what a route refers to, so that a route can be tried alone.
//!
//! Made up are the objects around routes and Gateways (Services with one endpoint, the class and its settings), not
//! what carries secrets or policy: a certificate or a permission that is missing stays missing.

use edge_translate::{
    Settings,
    api::{Kind, Object},
    load::{self, LoadedObject},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Address of made-up endpoints: reserved for documentation (RFC 5737), so nothing real is ever shown as reachable.
const ADDRESS: &str = "192.0.2.1";
/// What messages give as the file of made-up objects.
const FILE: &str = "(added)";
/// The label by which a slice says whose it is.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Name of the made-up EdgeProxy.
const EDGE_PROXY: &str = "default";

/// Adds what is missing.
pub(super) fn add(objects: &mut Vec<LoadedObject>, settings: &Settings) {
    let added = services(objects)
        .into_iter()
        .chain(endpoints(objects))
        .chain(classes(objects, settings))
        .chain(edge_proxy(objects, settings));
    let added: Vec<Value> = added.collect();
    // What we made up ourselves can't be malformed; if it ever were, it would be missing and reported as such.
    let read = added.into_iter().filter_map(|value| load::from_value(&value).ok());
    for (object, _) in read {
        let key = object.key();
        objects.retain(|known| known.object.key() != key);
        objects.push(LoadedObject {
            object,
            raw: None,
            file: FILE.into(),
            line: 1,
        });
    }
}

/// A Service and a slice for every reference to a Service that isn't there.
fn services(objects: &[LoadedObject]) -> Vec<Value> {
    let known: BTreeSet<(&str, &str)> = objects
        .iter()
        .filter(|o| o.object.kind() == Kind::Service)
        .map(|o| (&*o.object.metadata().namespace, &*o.object.metadata().name))
        .collect();
    let wanted = wanted(objects).into_iter();
    wanted
        .filter(|((namespace, name), _)| !known.contains(&(namespace, name)))
        .flat_map(|((namespace, name), ports)| service(&namespace, &name, &ports))
        .collect()
}

/// A slice for every Service that is there, is referred to, and has none: files have Services, and only a cluster makes
/// slices for them.
fn endpoints(objects: &[LoadedObject]) -> Vec<Value> {
    let of_kind = |kind: Kind| objects.iter().filter(move |o| o.object.kind() == kind);
    let served: BTreeSet<(&str, &str)> = of_kind(Kind::EndpointSlice)
        .filter_map(|o| {
            let metadata = o.object.metadata();
            Some((&*metadata.namespace, metadata.labels.get(SERVICE_NAME)?))
        })
        .collect();
    let wanted = wanted(objects);
    let without = of_kind(Kind::Service).filter(|o| {
        let metadata = o.object.metadata();
        let (namespace, name) = (&*metadata.namespace, &*metadata.name);
        wanted.contains_key(&(namespace.to_owned(), name.to_owned())) && !served.contains(&(namespace, name))
    });
    without
        .filter_map(|o| {
            let metadata = o.object.metadata();
            let value = o.object.to_value().ok()?;
            let ports = value["spec"]["ports"].as_array()?.iter().map(|port| {
                let number = port["targetPort"].as_u64().or_else(|| port["port"].as_u64());
                let mut told = json!({ "port": number });
                for field in ["name", "protocol"] {
                    if let Some(text) = port[field].as_str() {
                        told[field] = text.into();
                    }
                }
                told
            });
            // A name of another host has no endpoints.
            (value["spec"]["type"] != "ExternalName")
                .then(|| slice(&metadata.namespace, &metadata.name, &ports.collect::<Vec<_>>()))
        })
        .collect()
}

/// Services that something refers to, with the ports by which it does.
fn wanted(objects: &[LoadedObject]) -> BTreeMap<(String, String), BTreeSet<u64>> {
    let mut wanted: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for loaded in objects.iter().filter(|o| o.object.kind() != Kind::Service) {
        let Ok(value) = loaded.object.to_value() else { continue };
        for_each_backend(&value["spec"], &mut |reference| {
            let namespace = reference["namespace"]
                .as_str()
                .unwrap_or(&loaded.object.metadata().namespace);
            let (Some(name), Some(port)) = (reference["name"].as_str(), reference["port"].as_u64()) else {
                return;
            };
            wanted
                .entry((namespace.to_owned(), name.to_owned()))
                .or_default()
                .insert(port);
        });
    }
    wanted
}

/// Every reference to a Service below a value, wherever a kind keeps it.
fn for_each_backend(value: &Value, found: &mut impl FnMut(&Value)) {
    let is_service = |r: &Value| {
        r["kind"].as_str().unwrap_or("Service") == "Service" && r["group"].as_str().unwrap_or("").is_empty()
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("backendRefs", Value::Array(list)) => list.iter().filter(|r| is_service(r)).for_each(&mut *found),
                    ("backendRef", reference) if is_service(reference) => found(reference),
                    _ => {}
                }
                for_each_backend(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| for_each_backend(value, found)),
        _ => {}
    }
}

fn service(namespace: &str, name: &str, ports: &BTreeSet<u64>) -> [Value; 2] {
    let service_ports: Vec<_> = ports
        .iter()
        .map(|p| json!({ "name": format!("p{p}"), "port": p }))
        .collect();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "clusterIP": ADDRESS, "ports": service_ports },
    });
    [service, slice(namespace, name, &service_ports)]
}

fn slice(namespace: &str, name: &str, ports: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace,
            "name": format!("{name}-added"),
            "labels": { SERVICE_NAME: name },
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{ "addresses": [ADDRESS], "conditions": { "ready": true } }],
    })
}

/// A class for every Gateway whose class isn't there.
fn classes(objects: &[LoadedObject], settings: &Settings) -> Vec<Value> {
    let known: BTreeSet<&str> = objects
        .iter()
        .filter(|o| o.object.kind() == Kind::GatewayClass)
        .map(|o| &*o.object.metadata().name)
        .collect();
    let wanted: BTreeSet<&str> = objects
        .iter()
        .filter_map(|o| match &o.object {
            Object::Gateway(gateway) => Some(&*gateway.spec.gateway_class_name),
            _ => None,
        })
        .filter(|name| !known.contains(name))
        .collect();
    wanted.into_iter().map(|name| class(name, settings)).collect()
}

fn class(name: &str, settings: &Settings) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": { "name": name },
        "spec": {
            "controllerName": settings.controller_name,
            "parametersRef": {
                "group": "gateway.edge",
                "kind": "EdgeProxy",
                "namespace": settings.controller_namespace,
                "name": EDGE_PROXY,
            },
        },
    })
}

/// An EdgeProxy with nothing but defaults, where the input has none.
fn edge_proxy(objects: &[LoadedObject], settings: &Settings) -> Option<Value> {
    let present = objects.iter().any(|o| o.object.kind() == Kind::EdgeProxy);
    (!present).then(|| {
        json!({
            "apiVersion": "gateway.edge/v1alpha1",
            "kind": "EdgeProxy",
            "metadata": { "namespace": settings.controller_namespace, "name": EDGE_PROXY },
            "spec": { "provider": { "type": "Cluster" } },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(objects: &[LoadedObject]) -> Vec<String> {
        objects.iter().map(|o| o.object.key().to_string()).collect()
    }

    fn loaded(text: &str) -> Vec<LoadedObject> {
        load::load(&load::Source { name: "f", text }, &load::Limits::default()).objects
    }

    const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: r, namespace: team }
spec:
  rules:
    - filters:
        - type: RequestMirror
          requestMirror: { backendRef: { name: copy, port: 81 } }
      backendRefs:
        - { name: app, port: 80 }
        - { name: bucket, group: example.com, kind: Bucket }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: g, namespace: team }
spec: { gatewayClassName: edge, listeners: [] }
";

    #[test]
    fn what_routes_and_gateways_refer_to_is_added() {
        let mut objects = loaded(ROUTE);
        add(&mut objects, &Settings::default());
        assert_eq!(
            kinds(&objects)[2..],
            [
                "Service/team/app",
                "EndpointSlice/team/app-added",
                "Service/team/copy",
                "EndpointSlice/team/copy-added",
                "GatewayClass/edge",
                "EdgeProxy/edge-gateway-system/default",
            ]
        );
    }

    #[test]
    fn a_service_without_slices_gets_one() {
        let service = "
apiVersion: v1
kind: Service
metadata: { name: app, namespace: team }
spec:
  selector: { app: app }
  ports:
    - { name: web, port: 80, targetPort: 8080, protocol: TCP }
    - { name: dns, port: 53, protocol: UDP }
---
";
        let mut objects = loaded(&format!("{service}{ROUTE}"));
        add(&mut objects, &Settings::default());
        let slices = objects.iter().filter(|o| o.object.kind() == Kind::EndpointSlice);
        let mut slices = slices.map(|o| o.object.to_value().unwrap());
        let slice = slices.find(|slice| slice["metadata"]["name"] == "app-added").unwrap();
        let ports = json!([{ "name": "web", "port": 8080, "protocol": "TCP" }, { "name": "dns", "port": 53, "protocol": "UDP" }]);
        assert_eq!(slice["ports"], ports);
        let services = kinds(&objects).into_iter().filter(|kind| kind.starts_with("Service/"));
        assert_eq!(services.collect::<Vec<_>>(), ["Service/team/app", "Service/team/copy"]);
    }

    #[test]
    fn what_is_there_stays() {
        let mut objects = loaded(ROUTE);
        add(&mut objects, &Settings::default());
        let before = kinds(&objects);
        add(&mut objects, &Settings::default());
        assert_eq!(kinds(&objects), before);
    }
}
