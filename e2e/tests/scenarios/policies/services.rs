//! Services that decide about requests.

use super::{
    Guarded, get,
    peers::{Answer, GrpcPeer, HttpPeer, Received},
};
use crate::resources::backend;
use anyhow::Result;
use e2e::stack::DataPlane;

pub(crate) fn a_service_decides_over_grpc(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let authorizer = GrpcPeer::authorizer()?;
    www.stack.put("auth.yaml", &backend("auth", authorizer.port))?;
    let asked = |more: &str| {
        let service = "grpc: { backendRefs: [{ group: gateway.edge, kind: Backend, name: auth }] }";
        www.guard(&format!("  extAuth:\n    {service}\n{more}"))
    };
    asked("    contextExtensions: [{ name: team, type: Value, value: red }]\n")?;
    decides(&www, Some("red"))?;
    let ann = [("x-user", "ann")];
    assert_eq!(www.seen(&get(&ann), "X-Route")?.as_deref(), Some("[]"));
    asked("    includeRouteMetadata: true\n")?;
    www.stack.look_until("the service is told of the route", || {
        let told = www.seen(&get(&ann), "X-Route")?;
        Ok((told.as_deref() == Some("[\"edge-gateway\"]")).then_some(()))
    })?;
    drop(authorizer);
    fails(&www, &asked)
}

pub(crate) fn a_service_decides_over_http(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let authorizer = HttpPeer::start(decide)?;
    www.stack.put("auth.yaml", &backend("auth", authorizer.port))?;
    let asked = |more: &str| {
        let service = "{ group: gateway.edge, kind: Backend, name: auth }";
        www.guard(&format!(
            "  extAuth:\n    http: {{ backendRefs: [{service}], path: /check, headersToBackend: [x-team] }}\n    \
             headersToExtAuth: [x-user]\n{more}"
        ))
    };
    asked("")?;
    decides(&www, Some("of GET /check/ HTTP/1.1"))?;
    drop(authorizer);
    fails(&www, &asked)
}

/// Lets in who says `x-user: ann`, and tells the backend how it was asked.
fn decide(request: &Received) -> Answer {
    match request.header("x-user") {
        Some("ann") => (
            200,
            vec![("x-team", format!("of {}", request.line.trim()))],
            String::new(),
        ),
        _ => (
            402,
            vec![("x-why", "unknown".to_owned())],
            "nobody knows you".to_owned(),
        ),
    }
}

/// What the authorizers of these tests decide, whatever they are asked over.
fn decides(www: &Guarded, team: Option<&str>) -> Result<()> {
    let refused = www.answers(&get(&[]), 402)?;
    assert_eq!(refused.header("x-why"), Some("unknown"), "{refused:?}");
    assert_eq!(refused.body, b"nobody knows you");
    www.answers(&get(&[("x-user", "bob")]), 402)?;
    // What a client says of itself is not what the authorizer says.
    let ann = [("x-user", "ann")];
    assert_eq!(www.seen(&get(&ann), "X-Team")?.as_deref(), team);
    Ok(())
}

/// The service has gone: what it was to decide is refused, unless the policy wants otherwise.
fn fails(www: &Guarded, asked: &impl Fn(&str) -> Result<()>) -> Result<()> {
    let ann = [("x-user", "ann")];
    www.closes(&get(&[]), 403)?;
    www.answers(&get(&ann), 403)?;
    asked("    statusOnError: 503\n")?;
    www.closes(&get(&ann), 503)?;
    asked("    failOpen: true\n")?;
    www.answers(&get(&[]), 200)?;
    // Without the Backend nobody can be asked at all, which failOpen doesn't mean.
    www.stack.remove("auth.yaml")?;
    www.answers(&get(&ann), 500)?;
    www.is_refused_for("ExtAuth")?;
    www.open()
}
