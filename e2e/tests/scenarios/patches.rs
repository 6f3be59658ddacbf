//! EdgePatchPolicies in force: what they change is served, what can't be applied is told and harms nothing, and all of
//! it can be taken back.

use crate::statuses::{wait_until_answered, wait_until_said};
use anyhow::Result;
use e2e::stack::{DataPlane, Site, Stack};
use std::fs;

/// The host of the quickstart's route.
const HOST: &str = "www.example.com";

pub(crate) fn patches_change_what_proxies_are_sent(plane: &DataPlane) -> Result<()> {
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    let enabled = "enableBackend: true\n  enableEdgePatchPolicy: true";
    fs::write(site.config(), config.replace("enableBackend: true", enabled))?;
    let stack = Stack::start_at(site, plane)?;

    stack.put("patch.yaml", &policy("one", ""))?;
    is_told(&stack, Some("one"))?;
    says(&stack, "True", "successfully applied")?;
    // The other patch of the policy stays in force.
    let slip = "    - { type: type.googleapis.com/envoy.config.listener.v3.Listener, name: default/quickstart/http, \
                operation: { op: remove, path: /no_such_field } }\n";
    stack.put("patch.yaml", &policy("two", slip))?;
    is_told(&stack, Some("two"))?;
    says(&stack, "False", "spec.jsonPatches[1]")?;
    stack.remove("patch.yaml")?;
    is_told(&stack, None)
}

/// A policy that tells clients something in a header, and does more.
fn policy(told: &str, more: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgePatchPolicy\n\
         metadata: {{ name: patch, namespace: default }}\nspec:\n  type: JSONPatch\n  \
         targetRef: {{ group: gateway.networking.k8s.io, kind: Gateway, name: quickstart }}\n  jsonPatches:\n    \
         - {{ type: type.googleapis.com/envoy.config.route.v3.RouteConfiguration, name: default/quickstart/http, \
         operation: {{ op: add, path: /response_headers_to_add, \
         value: [{{ header: {{ key: x-patched, value: '{told}' }} }}] }} }}\n{more}"
    )
}

/// Waits until clients are told this.
fn is_told(stack: &Stack, told: Option<&str>) -> Result<()> {
    wait_until_answered(stack, HOST, 200, ("x-patched", told))
}

/// Waits until the status of the policy says whether its patches are programmed, and why.
fn says(stack: &Stack, status: &str, why: &str) -> Result<()> {
    wait_until_said(stack, ["EdgePatchPolicy", "patch", "Programmed", status], why)
}
