//! EdgeExtensionPolicies in force: services and scripts do what they say, an edit changes it, what can't run closes
//! what the policy covers unless it may fail open, and all of it can be taken back.

mod module;
mod processing;
mod processor;

pub(crate) use processing::{
    services_process_content, services_process_heads, services_send_content_of_their_own,
    services_watch_and_change_nothing,
};

use crate::{
    policies::HttpPeer,
    resources::backend,
    statuses::{wait_until_answered, wait_until_said},
};
use anyhow::Result;
use e2e::stack::{DataPlane, Site, Stack};
use std::fs;

/// The host of the quickstart's route.
const HOST: &str = "www.example.com";

pub(crate) fn scripts_tell_clients_what_they_like(plane: &DataPlane) -> Result<()> {
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    let enabled = "enableBackend: true\n  enableLua: true";
    fs::write(site.config(), config.replace("enableBackend: true", enabled))?;
    let stack = Stack::start_at(site, plane)?;

    stack.put("policy.yaml", &script(r#"handle:headers():add("x-told", "one")"#))?;
    is_answered(&stack, 200, Some("one"))?;
    stack.put("policy.yaml", &script(r#"handle:headers():add("x-told", "two")"#))?;
    is_answered(&stack, 200, Some("two"))?;
    stack.put("policy.yaml", &script(r#"handle:headers():add("x-told","#))?;
    is_answered(&stack, 500, None)?;
    is_refused_for(&stack, "Lua")?;
    stack.remove("policy.yaml")?;
    is_answered(&stack, 200, None)
}

pub(crate) fn a_service_processes_responses(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let processor = processor::start()?;
    stack.put("processor.yaml", &backend("processor", processor.port))?;
    stack.put("policy.yaml", &service(""))?;
    is_answered(&stack, 200, Some("processed"))?;

    drop(processor);
    is_answered(&stack, 500, None)?;
    stack.put("policy.yaml", &service("    statusOnError: 503\n"))?;
    is_answered(&stack, 503, None)?;
    stack.put("policy.yaml", &service("    failOpen: true\n"))?;
    is_answered(&stack, 200, None)?;
    // Without the Backend there is nobody to be asked.
    stack.put("policy.yaml", &service(""))?;
    stack.remove("processor.yaml")?;
    is_refused_for(&stack, "ExtProc")?;
    is_answered(&stack, 500, None)?;
    stack.remove("policy.yaml")?;
    is_answered(&stack, 200, None)
}

pub(crate) fn modules_tell_clients_what_they_like(plane: &DataPlane) -> Result<()> {
    let modules = HttpPeer::start(|request| match request.line.split(' ').nth(1) {
        Some("/one.wasm") => (200, Vec::new(), module::telling("one")),
        Some("/two.wasm") => (200, Vec::new(), module::telling("two")),
        _ => (404, Vec::new(), Vec::new()),
    })?;
    let from = |name: &str, more: &str| wasm(&format!("http://127.0.0.1:{}/{name}", modules.port), more);
    let stack = Stack::start(plane)?;
    stack.put("policy.yaml", &from("one.wasm", ""))?;
    is_answered(&stack, 200, Some("one"))?;
    stack.put("policy.yaml", &from("two.wasm", ""))?;
    is_answered(&stack, 200, Some("two"))?;

    stack.put("policy.yaml", &from("gone.wasm", ""))?;
    is_answered(&stack, 500, None)?;
    is_refused_for(&stack, "status code: 404")?;
    stack.put("policy.yaml", &from("gone.wasm", "    failOpen: true\n"))?;
    is_answered(&stack, 200, None)?;
    stack.put("policy.yaml", &from("one.wasm", ""))?;
    is_answered(&stack, 200, Some("one"))?;
    stack.put("policy.yaml", &pinned(modules.port, &"0".repeat(64)))?;
    is_answered(&stack, 500, None)?;
    is_refused_for(&stack, "which does not match")?;
    stack.remove("policy.yaml")?;
    is_answered(&stack, 200, None)
}

/// A policy for the quickstart's route.
fn policy(fields: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgeExtensionPolicy\n\
         metadata: {{ name: more, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: www }}]\n{fields}"
    )
}

/// A line of Lua for responses.
fn script(line: &str) -> String {
    policy(&format!(
        "  lua:\n  - type: Inline\n    inline: |\n      function envoy_on_response(handle)\n        {line}\n      end\n"
    ))
}

/// A module from a URL, with more fields, each a line.
fn wasm(url: &str, more: &str) -> String {
    policy(&format!(
        "  wasm:\n  - code: {{ type: HTTP, http: {{ url: \"{url}\" }} }}\n{more}"
    ))
}

/// A module that must have a digest.
fn pinned(port: u16, sha256: &str) -> String {
    let http = format!("{{ url: \"http://127.0.0.1:{port}/one.wasm\", sha256: \"{sha256}\" }}");
    policy(&format!("  wasm:\n  - code: {{ type: HTTP, http: {http} }}\n"))
}

/// A service for responses, with more fields, each a line.
fn service(more: &str) -> String {
    policy(&format!(
        "  extProc:\n  - backendRefs: [{{ group: gateway.edge, kind: Backend, name: processor }}]\n    \
         processingMode: {{ response: {{}} }}\n{more}"
    ))
}

/// Waits until requests are answered so, and clients are told this.
fn is_answered(stack: &Stack, status: u16, told: Option<&str>) -> Result<()> {
    wait_until_answered(stack, HOST, status, ("x-told", told))
}

/// Waits until the status of the policy says that it is refused, and why.
fn is_refused_for(stack: &Stack, why: &str) -> Result<()> {
    wait_until_said(stack, ["EdgeExtensionPolicy", "more", "Accepted", "False"], why)
}
