//! Kinds that only extension services know: defined by their users, read once they are, with the rights that an
//! installation has.

use anyhow::Result;
use e2e::{
    lab::{Kind, Tenant, Terms, on_parent},
    stack::DataPlane,
};
use serde_json::{Value, json};

const CACHES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: caches.sample.example.com }
spec:
  group: sample.example.com
  names: { kind: Cache, plural: caches, singular: cache }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, properties: { spec: { type: object, x-kubernetes-preserve-unknown-fields: true } } } }
";

/// Nobody is there to be called, and nobody needs to be: what is asked for is whether objects are found.
const MANAGER: &str = "{ failOpen: true, service: { host: nobody.invalid }, \
                       resources: [{ group: sample.example.com, version: v1, kind: Cache }], \
                       hooks: { xdsTranslator: { post: [Route] } } }";

#[test]
fn objects_of_kinds_that_services_know_are_found() -> Result<()> {
    let terms = Terms {
        extension_manager: Some(MANAGER),
        ..Terms::default()
    };
    let tenant = Tenant::install_with("extended", &DataPlane::EdgeProxy, terms)?;
    tenant.explain(are_found(&tenant))
}

fn are_found(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    let filter = json!({
        "type": "ExtensionRef",
        "extensionRef": { "group": "sample.example.com", "kind": "Cache", "name": "long" },
    });
    let spec = json!({
        "parentRefs": [{ "name": "front" }],
        "hostnames": ["cached.example.com"],
        "rules": [{ "filters": [filter], "backendRefs": [{ "name": "echo", "port": 80 }] }],
    });
    let route = tenant.make(&Kind::gateway_api("HTTPRoute"), "cached", &spec)?;
    let resolves = |wanted: &'static str| {
        move |route: &Value| on_parent(route, "gateway.edge/extended", "ResolvedRefs")["status"] == wanted
    };
    // The kind isn't defined yet.
    lab.wait_until(&route, "to miss its object", resolves("False"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 500)?;
    lab.apply(CACHES)?;
    let cache = Kind::new("sample.example.com/v1", "Cache");
    let defined = Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition").for_all("caches.sample.example.com");
    lab.wait_until_true(&defined, "Established")?;
    let long = tenant.make(&cache, "long", &json!({ "seconds": 60 }))?;
    lab.wait_until(&route, "to find its object", resolves("True"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 200)?;
    lab.delete(&long)?;
    lab.wait_until(&route, "to miss its object again", resolves("False"))?;
    tenant.wait_for_status(address, "cached.example.com", "/", 500)?;
    Ok(())
}
