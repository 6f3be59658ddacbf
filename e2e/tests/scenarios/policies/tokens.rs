//! Tokens of an issuer whose keys the proxy fetches.

use super::{
    Guarded, get,
    peers::HttpPeer,
    signer::{EARLIER, LATER, Signer},
};
use crate::resources::backend;
use anyhow::Result;
use e2e::stack::DataPlane;
use serde_json::json;

const ISSUER: &str = "https://idp.example";

pub(crate) fn tokens_of_an_issuer_are_needed(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let (signer, other) = (Signer::new()?, Signer::new()?);
    let keys = signer.keys();
    let server = HttpPeer::start(move |_| (200, vec![("content-type", "application/json".to_owned())], keys.clone()))?;
    let port = server.port;
    let guard = |more: &str, provider: &str| {
        www.guard(&format!(
            "  jwt:\n{more}    providers:\n    - name: idp\n      issuer: {ISSUER}\n      audiences: [www]\n      \
             claimToHeaders: [{{ header: x-name, claim: who.name }}]\n      {provider}\n"
        ))
    };
    let by_address = format!("remoteJWKS: {{ uri: 'http://localhost:{port}/keys' }}");
    guard("", &by_address)?;
    let claims = json!({"iss": ISSUER, "aud": "www", "exp": LATER, "who": {"name": "ann"}});
    let bearer = |signer: &Signer, changed: serde_json::Value| {
        let mut claims = claims.clone();
        let changed = changed.as_object().cloned().unwrap_or_default();
        claims
            .as_object_mut()
            .into_iter()
            .for_each(|claims| claims.extend(changed.clone()));
        signer.bearer(&claims)
    };
    let valid = bearer(&signer, json!({}))?;
    let valid = [("authorization", &*valid)];
    www.answers(&get(&[]), 401)?;
    assert_eq!(www.seen(&get(&valid), "X-Name")?.as_deref(), Some("ann"));
    let strangers = [
        bearer(&signer, json!({"exp": EARLIER}))?,
        bearer(&signer, json!({"nbf": LATER}))?,
        bearer(&signer, json!({"iss": "https://other.example"}))?,
        bearer(&other, json!({}))?,
        "Bearer a.b.c".to_owned(),
    ];
    for token in &strangers {
        www.answers(&get(&[("authorization", token)]), 401)?;
    }
    // A token for somebody else.
    let elsewhere = bearer(&signer, json!({"aud": "elsewhere"}))?;
    www.answers(&get(&[("authorization", &*elsewhere)]), 403)?;

    guard("    optional: true\n", &by_address)?;
    www.answers(&get(&[]), 200)?;
    www.answers(&get(&[("authorization", &*strangers[0])]), 401)?;
    www.answers(&get(&valid), 200)?;

    // The same keys through a Backend, which goes away: nobody knows whom to ask.
    www.stack.put("keys.yaml", &backend("keys", port))?;
    let by_backend = format!(
        "remoteJWKS: {{ uri: 'http://idp.example/keys', backendRefs: [{{ group: gateway.edge, kind: Backend, name: keys, \
         port: {port} }}] }}"
    );
    guard("", &by_backend)?;
    www.answers(&get(&[]), 401)?;
    www.answers(&get(&valid), 200)?;
    www.stack.remove("keys.yaml")?;
    www.closes(&get(&[]), 500)?;
    www.is_refused_for("JWT")?;
    www.open()
}

pub(crate) fn claims_of_tokens_decide(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let signer = Signer::new()?;
    let guard = |keys: &str, allowed: &str| {
        www.guard(&format!(
            "  jwt:\n    providers: [{{ name: idp, issuer: '{ISSUER}', localJWKS: {{ type: Inline, inline: '{keys}' }} }}]\n  \
             authorization:\n    defaultAction: Deny\n    rules:\n    - action: Allow\n      principal:\n        jwt:\n          \
             provider: idp\n{allowed}"
        ))
    };
    let red = "          claims: [{ name: team, valueType: StringArray, values: [red] }]\n";
    guard(&signer.keys(), red)?;
    let of = |team: &str, scope: &str| {
        signer.bearer(&json!({"iss": ISSUER, "exp": LATER, "team": [team, "all"], "scope": scope}))
    };
    let (red, blue) = (of("red", "read")?, of("blue", "read write")?);
    let (red, blue) = ([("authorization", &*red)], [("authorization", &*blue)]);
    www.answers(&get(&[]), 401)?;
    www.answers(&get(&red), 200)?;
    www.answers(&get(&blue), 403)?;
    guard(&signer.keys(), "          scopes: [read, write]\n")?;
    www.answers(&get(&blue), 200)?;
    www.answers(&get(&red), 403)?;
    guard(&Signer::new()?.keys(), "          scopes: [read, write]\n")?;
    www.answers(&get(&blue), 401)?;
    guard("no keys", "          scopes: [read, write]\n")?;
    www.closes(&get(&blue), 500)?;
    www.is_refused_for("JWT")?;
    www.open()
}
