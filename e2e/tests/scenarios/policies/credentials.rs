//! Users with passwords, and clients with keys.

use super::{Guarded, get};
use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{http::Request, stack::DataPlane};

/// `ann:secret` and, changed, `ann:changed`, as `htpasswd -s` writes them.
const USERS: &str = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
const CHANGED: &str = "ann:{SHA}N8bFe+30MF70EknBeUdgtcuPrRc=";

/// A Secret with one key.
pub(super) fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: default }}\n\
         stringData: {{ {key}: '{value}' }}\n"
    )
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

pub(crate) fn users_need_a_password(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    www.stack.put("users.yaml", &secret("users", ".htpasswd", USERS))?;
    www.guard("  basicAuth: { users: { name: users }, forwardUsernameHeader: x-user }\n")?;
    let (right, wrong) = (basic("ann", "secret"), basic("ann", "guess"));
    let (right, wrong) = ([("authorization", &*right)], [("authorization", &*wrong)]);
    let refused = www.answers(&get(&[]), 401)?;
    assert!(
        refused
            .header("www-authenticate")
            .is_some_and(|how| how.starts_with("Basic ")),
        "{refused:?}"
    );
    www.answers(&get(&wrong), 401)?;
    assert_eq!(www.seen(&get(&right), "X-User")?.as_deref(), Some("ann"));

    let changed = basic("ann", "changed");
    www.stack.put("users.yaml", &secret("users", ".htpasswd", CHANGED))?;
    www.answers(&get(&right), 401)?;
    www.answers(&get(&[("authorization", &*changed)]), 200)?;
    www.stack.remove("users.yaml")?;
    www.closes(&get(&[]), 500)?;
    www.answers(&get(&[("authorization", &*changed)]), 500)?;
    www.is_refused_for("BasicAuth")?;
    www.open()
}

pub(crate) fn clients_need_a_key(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    www.stack.put("keys.yaml", &secret("keys", "ann", "key-of-ann"))?;
    www.guard(
        "  apiKeyAuth:\n    credentialRefs: [{ name: keys }]\n    extractFrom: [{ headers: [x-key] }, { params: [key] }]\n    \
         forwardClientIDHeader: x-client\n    sanitize: true\n",
    )?;
    www.answers(&get(&[]), 401)?;
    www.answers(&get(&[("x-key", "guess")]), 401)?;
    let by_header = get(&[("x-key", "key-of-ann")]);
    assert_eq!(www.seen(&by_header, "X-Client")?.as_deref(), Some("ann"));
    assert_eq!(www.seen(&by_header, "X-Key")?, None);
    let by_parameter = Request {
        path: "/?key=key-of-ann",
        ..get(&[])
    };
    www.answers(&by_parameter, 200)?;

    www.stack.put("keys.yaml", &secret("keys", "ann", "another"))?;
    www.answers(&by_header, 401)?;
    www.answers(&get(&[("x-key", "another")]), 200)?;
    www.stack.remove("keys.yaml")?;
    www.closes(&get(&[]), 500)?;
    www.answers(&get(&[("x-key", "another")]), 500)?;
    www.is_refused_for("APIKeyAuth")?;
    www.open()
}
