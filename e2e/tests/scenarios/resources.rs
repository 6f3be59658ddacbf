//! Resources as text, as short as they can be.

/// A Gateway of the quickstart's class. Listeners are lines of YAML flow mappings.
pub(crate) fn gateway(name: &str, listeners: &[String]) -> String {
    let listeners: String = listeners.iter().map(|listener| format!("    - {listener}\n")).collect();
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
         metadata: {{ name: {name}, namespace: default }}\nspec:\n  gatewayClassName: edge\n  listeners:\n{listeners}"
    )
}

/// A listener without settings of its own.
pub(crate) fn listener(name: &str, protocol: &str, port: u16) -> String {
    format!("{{ name: {name}, protocol: {protocol}, port: {port} }}")
}

/// A route of any kind to one Backend. `head` is what stands in its spec beside parent and rules.
pub(crate) fn route(kind: &str, name: &str, parent: &str, head: &str, backend: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
         metadata: {{ name: {name}, namespace: default }}\nspec:\n  parentRefs: [{parent}]\n{head}  rules:\n    \
         - backendRefs: [{{ group: gateway.edge, kind: Backend, name: {backend} }}]\n"
    )
}

/// A Backend at a port of this machine.
pub(crate) fn backend(name: &str, port: u16) -> String {
    backend_with(name, port, "")
}

/// The same, with further fields of its spec, each a line.
pub(crate) fn backend_with(name: &str, port: u16, fields: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: {{ name: {name}, namespace: default }}\n\
         spec:\n{fields}  endpoints: [{{ ip: {{ address: 127.0.0.1, port: {port} }} }}]\n"
    )
}

/// A SecurityPolicy for one target. `fields` are lines of its spec.
pub(crate) fn security_policy(name: &str, target: &str, fields: &str) -> String {
    policy("SecurityPolicy", name, target, fields)
}

/// A BackendTrafficPolicy, likewise.
pub(crate) fn traffic_policy(name: &str, target: &str, fields: &str) -> String {
    policy("BackendTrafficPolicy", name, target, fields)
}

fn policy(kind: &str, name: &str, target: &str, fields: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: {kind}\n\
         metadata: {{ name: {name}, namespace: default }}\nspec:\n  targetRefs: [{target}]\n{fields}"
    )
}
