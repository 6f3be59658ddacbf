//! What an EdgeProxy asks its fleets to tell of themselves.

use anyhow::{Result, ensure};
use e2e::{
    http::Request,
    stack::{DataPlane, Stack},
};
use std::{fs, path::Path};

pub(crate) fn access_logs_go_where_an_edge_proxy_says(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [first, second] = ["first.log", "second.log"].map(|name| stack.site.path(name));
    stack.put("proxy.yaml", &log_into(&first, ""))?;
    let class = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    let named = "parametersRef: { group: gateway.edge, kind: EdgeProxy, name: proxy, namespace: default }";
    stack.put(
        "gateway.yaml",
        &class.replacen("spec:\n", &format!("spec:\n  {named}\n"), 1),
    )?;
    is_logged(&stack, &first, "one")?;

    // Another file, and beside it a log for a service that isn't there: that log alone is left out, and told.
    let nowhere = "      - sinks: [{ type: ALS, als: { type: HTTP, backendRefs: [{ name: nowhere, port: 80 }] } }]\n";
    stack.put("proxy.yaml", &log_into(&second, nowhere))?;
    is_logged(&stack, &second, "two")?;
    gateway_says(&stack, "nowhere")?;
    is_logged(&stack, &second, "three")?;
    let kept = fs::read_to_string(&first)?;
    assert!(!kept.contains("three"), "the first file goes on: {kept}");
    Ok(())
}

/// An EdgeProxy that logs into a file, with more settings of its access logs.
fn log_into(path: &Path, more: &str) -> String {
    let path = path.display();
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: proxy, namespace: default }}\n\
         spec:\n  telemetry:\n    accessLog:\n      settings:\n      \
         - format: {{ type: Text, text: \"%REQ(:METHOD)% %REQ(X-NAME)% %RESPONSE_CODE%\\n\" }}\n        \
         sinks: [{{ type: File, file: {{ path: {path} }} }}]\n{more}"
    )
}

/// Waits until requests with this name are written into a file.
fn is_logged(stack: &Stack, path: &Path, name: &str) -> Result<()> {
    let line = format!("GET {name} 200");
    stack.look_until(&format!("{line:?} in {}", path.display()), || {
        let headers = [("x-name", name)];
        let request = Request {
            headers: &headers,
            ..Request::get("www.example.com", "/")
        };
        let answer = stack.send(&request)?;
        ensure!(answer.status == 200, "the last answer was {answer:?}");
        let text = fs::read_to_string(path)?;
        ensure!(text.lines().any(|one| one == line), "it holds {text:?}");
        Ok(Some(()))
    })
}

/// Waits until the Gateway says that its parameters aren't all in force, and which.
fn gateway_says(stack: &Stack, which: &str) -> Result<()> {
    stack.look_until(&format!("a status that says {which:?}"), || {
        let document = stack.status()?;
        let resources = document["resources"].as_array().into_iter().flatten();
        let conditions = resources
            .filter(|r| r["kind"] == "Gateway")
            .flat_map(|r| r["status"]["conditions"].as_array().into_iter().flatten());
        let mut said = conditions.filter(|c| c["reason"] == "InvalidParameters");
        let is_it = said.any(|c| c["message"].as_str().is_some_and(|message| message.contains(which)));
        ensure!(is_it, "it says {document}");
        Ok(Some(()))
    })
}
