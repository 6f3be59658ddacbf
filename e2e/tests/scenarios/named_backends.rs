//! Backends that requests name, in TLS: by which name they are asked for, and which they have to prove.

use crate::{backends, resources};
use anyhow::{Context as _, Result};
use e2e::{
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
    tls::Authority,
};

/// What a certificate of the backend is for; requests name another host.
const CERTIFIED: &str = "fixed.example.com";

/// A Backend for whatever host a request names. `more` are further lines of its spec.
fn named(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: {{ name: {name}, namespace: default }}\n\
         spec:\n  type: DynamicResolver\n{more}"
    )
}

/// A route for the path with the name of a Backend.
fn route(backend: &str) -> String {
    let paths = format!("    - matches: [{{ path: {{ value: /{backend} }} }}]\n      backendRefs:");
    let whole = resources::route("HTTPRoute", backend, "{ name: quickstart }", "", backend);
    whole.replace("    - backendRefs:", &paths)
}

pub(crate) fn backends_that_requests_name_are_known_by_the_name_that_is_asked_for(plane: &DataPlane) -> Result<()> {
    let (stack, authority) = (Stack::start(plane)?, Authority::new()?);
    let host = format!("localhost:{}", backends::http_over_tls(&authority.server(CERTIFIED)?)?);
    let indented: String = authority.pem().lines().map(|line| format!("    {line}\n")).collect();
    let roots = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: roots, namespace: default }}\ndata:\n  ca.crt: |\n\
         {indented}"
    );
    let trusted = "caCertificateRefs: [{ group: '', kind: ConfigMap, name: roots }]";
    let policy = format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
         metadata: {{ name: by-policy, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: gateway.edge, kind: Backend, name: by-policy }}]\n  validation:\n    {trusted}\n    \
         hostname: {CERTIFIED}\n"
    );
    let tls = |said: &str| format!("  tls: {{ {said} }}\n");
    let cases = [
        ("by-name", tls(&format!("{trusted}, sni: {CERTIFIED}")), 200),
        ("by-other-name", tls(&format!("{trusted}, sni: other.example.com")), 503),
        // The host of the request, which isn't in the certificate.
        ("by-request", tls(trusted), 503),
        ("unverified", tls("insecureSkipVerify: true"), 200),
        ("by-policy", String::new(), 200),
    ];
    let routed = cases.iter().map(|(name, more, _)| named(name, more) + &route(name));
    let text = roots + &policy + &routed.collect::<String>();
    stack.put("named.yaml", &text)?;
    for (name, _, status) in cases {
        let path = format!("/{name}");
        let seen = wait_for(name, PATIENCE, || {
            Ok((stack.get(&host, &path)?.status == status).then_some(()))
        });
        seen.map(drop).with_context(|| stack.logs())?;
    }
    Ok(())
}
