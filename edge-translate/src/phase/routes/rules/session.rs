//! Sessions of a rule (GEP-1619): a client is told the endpoint that answered it, and comes back to it.
//!
//! Where several backends have a share, they are one cluster, so that the endpoint may be one of any of them
//! (`routes/bound/joined`).

use super::{Compilation, Effect, RuleParts, admissible, destination};
use crate::{
    api::{CookieLifetime, CookieSession, DurationText, SessionPersistence, SessionPersistenceType as Type},
    phase::header::is_framing,
};
use edge_ir::{Session, SessionCookie, Timeout};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Compiles the sessions of a rule; none when it has none, or they can't be honoured, and the rule fails.
pub(super) fn compile(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>) -> Option<Session> {
    let wanted = rule.session?;
    let session = match &wanted.r#type {
        Type::Cookie => Session::Cookie(cookie(c, rule, wanted)?),
        Type::Header => Session::Header(header(c, wanted)?),
        Type::Other(other) => {
            c.fail("UnsupportedValue", format!("Unknown session persistence type {other}."));
            return None;
        }
    };
    let keeps_time = matches!(&session, Session::Cookie(cookie) if cookie.max_age.is_some());
    if wanted.absolute_timeout.is_some() && !keeps_time {
        let message = "sessionPersistence: only a Permanent cookie ends by absoluteTimeout";
        c.note(Effect::FallsShort, "UnsupportedValue", message);
    }
    if wanted.idle_timeout.is_some() {
        let message = "sessionPersistence: idleTimeout ends no session";
        c.note(Effect::FallsShort, "UnsupportedValue", message);
    }
    Some(session)
}

fn cookie(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>, wanted: &SessionPersistence) -> Option<SessionCookie> {
    // The name of the member before v1.7, which files may still have.
    let settings = wanted.cookie.as_ref().or(wanted.cookie_config.as_ref());
    let written = settings
        .and_then(|s| s.name.as_deref())
        .or(wanted.session_name.as_deref());
    let name = match written {
        Some(name) if !admissible::is_token(name) => {
            c.fail("UnsupportedValue", format!("\"{name}\" is no name for a cookie."));
            return None;
        }
        Some(name) => name.to_owned(),
        None => own_name(c, rule),
    };
    let path = settings.map_or("/", |s| &*s.path);
    // What a browser would read as the end of the attribute (RFC 6265 §4.1.1, path-value).
    if !path.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b';') {
        c.fail(
            "UnsupportedValue",
            format!("\"{}\" is no path for a cookie.", path.escape_debug()),
        );
        return None;
    }
    Some(SessionCookie {
        name: name.into(),
        path: path.into(),
        max_age: max_age(c, settings, wanted.absolute_timeout.as_ref())?,
    })
}

/// How long browsers keep the cookie: an inner none is for as long as they run.
fn max_age(
    c: &mut Compilation<'_, '_>,
    settings: Option<&CookieSession>,
    timeout: Option<&DurationText>,
) -> Option<Option<Timeout>> {
    match (settings.map(|s| &s.lifetime_type), timeout) {
        (None | Some(CookieLifetime::Session), _) => Some(None),
        (Some(CookieLifetime::Permanent), Some(timeout)) => {
            destination::millis(c, "sessionPersistence.absoluteTimeout", timeout).map(Some)
        }
        (Some(CookieLifetime::Permanent), None) => {
            c.fail(
                "UnsupportedValue",
                "A Permanent session cookie needs an absoluteTimeout.",
            );
            None
        }
        (Some(CookieLifetime::Other(other)), _) => {
            c.fail(
                "UnsupportedValue",
                format!("Unknown lifetime {other} of a session cookie."),
            );
            None
        }
    }
}

/// A name that no other rule has: sessions of one must not lead astray those of another.
fn own_name(c: &Compilation<'_, '_>, rule: &RuleParts<'_>) -> String {
    let mut hash = Sha256::new();
    for part in [c.kind.kind().as_str(), c.namespace, c.name] {
        hash.update(part);
        hash.update([0]);
    }
    match rule.name {
        Some(name) => hash.update(name),
        None => hash.update([0, u8::try_from(c.rule.index).unwrap_or(u8::MAX)]),
    }
    let start = String::from("edge-session-");
    hash.finalize().iter().take(4).fold(start, |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

fn header(c: &mut Compilation<'_, '_>, wanted: &SessionPersistence) -> Option<std::sync::Arc<str>> {
    let written = wanted
        .header
        .as_ref()
        .map(|h| &*h.name)
        .or(wanted.session_name.as_deref());
    match written {
        Some(name) if admissible::field_name(name).is_ok() && !is_framing(name) => {
            Some(name.to_ascii_lowercase().into())
        }
        Some(name) => {
            c.fail(
                "UnsupportedValue",
                format!("\"{name}\" is no name for a session header."),
            );
            None
        }
        None => {
            c.fail("UnsupportedValue", "Sessions kept in a header need header.name.");
            None
        }
    }
}
