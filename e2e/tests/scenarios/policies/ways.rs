//! The way from a policy that guards to one that closes.

use super::{Guarded, credentials::secret, get};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, KeptOpen, Response},
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Guards that let nobody in who brings nothing, and what their refusals say.
const GUARDS: [(&str, &str); 4] = [
    (
        "  basicAuth: { users: { name: users } }\n",
        "User authentication failed",
    ),
    (
        "  apiKeyAuth: { credentialRefs: [{ name: keys }], extractFrom: [{ headers: [x-key] }] }\n",
        "Client authentication failed",
    ),
    (
        "  authorization: { defaultAction: Deny, rules: [{ action: Allow, principal: { clientCIDRs: [192.0.2.1/32] } }] }\n",
        "RBAC: access denied",
    ),
    (
        "  jwt: { providers: [{ name: idp, localJWKS: { inline: '{\"keys\": [{ \"kty\": \"oct\", \"alg\": \"HS256\", \
         \"kid\": \"k\", \"k\": \"c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA\" }]}' } }] }\n",
        "Jwt is missing",
    ),
];

/// Nobody knows the users, so the route is closed without a word.
const CLOSED: &str = "  basicAuth: { users: { name: nobody } }\n";

pub(crate) fn a_guard_that_breaks_opens_nothing(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let secrets = secret("users", ".htpasswd", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=") + &secret("keys", "ann", "key");
    www.stack.put("secrets.yaml", &secrets)?;
    for (fields, said) in GUARDS {
        www.guard(fields)?;
        refuses_with(&www, said)?;
        let is_over = AtomicBool::new(false);
        let let_in = thread::scope(|scope| {
            let asking = scope.spawn(|| first_let_in(www.stack.gateway(), &is_over));
            let closed = www.guard(CLOSED).and_then(|()| refuses_with(&www, ""));
            is_over.store(true, Ordering::Relaxed);
            let let_in = asking.join().ok().context("the client panicked")??;
            closed.map(|()| let_in)
        })?;
        ensure!(
            let_in.is_none(),
            "let in after {fields}: {let_in:?}\n{}",
            www.stack.logs()
        );
    }
    www.open()
}

pub(crate) fn connections_of_before_are_not_let_past_a_new_guard(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let secrets = secret("users", ".htpasswd", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=") + &secret("keys", "ann", "key");
    www.stack.put("secrets.yaml", &secrets)?;
    www.guard(CLOSED)?;
    refuses_with(&www, "")?;
    for (fields, said) in GUARDS {
        // Another chain of filters is to be before the same route, and this client stays on that of before.
        let mut client = KeptOpen::connect(www.stack.gateway())?;
        let before = client.send(&get(&[]))?.context("closed at once")?;
        ensure!(before.status >= 400, "{before:?}");
        www.guard(fields)?;
        let found = wait_for(&format!("an end, or {said:?}"), PATIENCE, || {
            let Some(answer) = client.send(&get(&[]))? else {
                return Ok(Some(None));
            };
            if answer.status < 400 {
                return Ok(Some(Some(answer)));
            }
            let body = String::from_utf8_lossy(&answer.body);
            ensure!(body.contains(said), "the last answer was {} {body}", answer.status);
            Ok(Some(None))
        });
        let (let_in, _) = found.with_context(|| www.stack.logs())?;
        ensure!(let_in.is_none(), "let past {fields}: {let_in:?}\n{}", www.stack.logs());
        refuses_with(&www, said)?;
    }
    www.open()
}

/// Waits until requests are refused with some words.
fn refuses_with(www: &Guarded, said: &str) -> Result<()> {
    let is_it = |answer: &Response| {
        let body = String::from_utf8_lossy(&answer.body);
        body.contains(said) && body.is_empty() == said.is_empty()
    };
    let what = format!("a refusal with {said:?}");
    www.stack.ask_until(&what, &get(&[]), is_it).map(drop)
}

/// Asks until it is over; gives the first answer to somebody who was let in.
fn first_let_in(address: SocketAddr, is_over: &AtomicBool) -> Result<Option<Response>> {
    while !is_over.load(Ordering::Relaxed) {
        let answer = http::send(address, &get(&[]))?;
        if answer.status < 400 {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}
