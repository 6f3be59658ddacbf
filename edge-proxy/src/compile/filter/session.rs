//! StatefulSession → [`SessionPolicy`].

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::stateful_session_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute,
};
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use envoy_types::pb::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use envoy_types::pb::envoy::r#type::http::v3::{Cookie, CookieAttribute};
use envoy_types::pb::google::protobuf::Any;
use http::{HeaderValue, StatusCode};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, deadline, fields, is, type_name, unpack};
use crate::compile::template::header_name;
use crate::config::filter::session::{LostHost, SessionCarrier, SessionCookie, SessionPolicy};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain, which says nothing itself: routes have their policies.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    filter(at, &unpack(at, config)?).map(|()| FilterKind::Session)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    sessions(at, &unpack(at, config)?).map(FilterSettings::Session)
}

fn filter(at: &At<'_>, message: &StatefulSession) -> Result<(), Rejection> {
    fields!(at, message => StatefulSession {
        ;
        // Without sessions there is nothing to be strict about, or to count.
        ignore strict, stat_prefix, status_on_strict_destination_not_found;
        refuse session_state
    });
    Ok(())
}

/// `None` is no sessions.
fn sessions(at: &At<'_>, message: &StatefulSessionPerRoute) -> Result<Option<SessionPolicy>, Rejection> {
    match &message.r#override {
        Some(Override::Disabled(true)) => Ok(None),
        Some(Override::Disabled(false)) => Err(at.field("disabled").error("must be true")),
        Some(Override::StatefulSession(session)) => policy(&at.field("stateful_session"), session),
        None => Err(at.error("disabled or stateful_session is required")),
    }
}

fn policy(at: &At<'_>, message: &StatefulSession) -> Result<Option<SessionPolicy>, Rejection> {
    fields!(at, message => StatefulSession {
        session_state, strict, status_on_strict_destination_not_found; ignore stat_prefix; refuse
    });
    let Some(state) = session_state else {
        return Ok(None);
    };
    let at_status = at.field("status_on_strict_destination_not_found");
    let status = match status_on_strict_destination_not_found {
        0 => StatusCode::SERVICE_UNAVAILABLE,
        code => u16::try_from(*code)
            .ok()
            .filter(|code| (200..600).contains(code))
            .and_then(|code| StatusCode::from_u16(code).ok())
            .ok_or_else(|| at_status.error(format!("{code} is not the status of a final response")))?,
    };
    Ok(Some(SessionPolicy {
        carrier: carrier(&at.field("session_state"), state)?,
        lost: if *strict {
            LostHost::Refuse(status)
        } else {
            LostHost::Replace
        },
    }))
}

fn carrier(at: &At<'_>, message: &TypedExtensionConfig) -> Result<SessionCarrier, Rejection> {
    // The name only identifies; the type says what it is.
    fields!(at, message => TypedExtensionConfig { typed_config; ignore name; refuse });
    let at = at.field("typed_config");
    let Some(config) = typed_config else {
        return Err(at.error("is required"));
    };
    if is::<CookieBasedSessionState>(config) {
        let message: CookieBasedSessionState = unpack(&at, config)?;
        let at = at.field("cookie");
        let Some(cookie) = &message.cookie else {
            return Err(at.error("is required"));
        };
        return self::cookie(&at, cookie).map(SessionCarrier::Cookie);
    }
    if is::<HeaderBasedSessionState>(config) {
        let message: HeaderBasedSessionState = unpack(&at, config)?;
        return header_name(&at.field("name"), &message.name).map(SessionCarrier::Header);
    }
    Err(at.error(format!("type {:?} is not supported by this proxy", type_name(config))))
}

/// The attributes are in Envoy's order.
fn cookie(at: &At<'_>, message: &Cookie) -> Result<SessionCookie, Rejection> {
    fields!(at, message => Cookie { name, ttl, path, attributes; ignore; refuse });
    if name.is_empty() {
        return Err(at.field("name").error("is required"));
    }
    // Shorter than a second is no lifetime, as in Envoy, which counts whole ones.
    let lifetime = deadline(&at.field("ttl"), ttl.as_ref(), None)?.filter(|ttl| ttl.as_secs() > 0);
    let mut text = String::new();
    if let Some(lifetime) = lifetime {
        text.push_str(&format!("; Max-Age={}", lifetime.as_secs()));
    }
    if !path.is_empty() {
        text.push_str(&format!("; Path={path}"));
    }
    for CookieAttribute { name, value } in attributes {
        text.push_str("; ");
        text.push_str(name);
        if !value.is_empty() {
            text.push('=');
            text.push_str(value);
        }
    }
    text.push_str("; HttpOnly");
    if HeaderValue::from_str(&format!("{name}{text}")).is_err() {
        return Err(at.error("has what a header value can't hold"));
    }
    Ok(SessionCookie {
        name: name.as_str().into(),
        path: path.as_str().into(),
        lifetime,
        attributes: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::google::protobuf::Duration;
    use envoy_types::util::pack_any;

    fn per_route(state: Option<TypedExtensionConfig>, strict: bool, status: u32) -> StatefulSessionPerRoute {
        let session = StatefulSession {
            session_state: state,
            strict,
            status_on_strict_destination_not_found: status,
            ..StatefulSession::default()
        };
        StatefulSessionPerRoute {
            r#override: Some(Override::StatefulSession(session)),
        }
    }

    fn state<M: prost::Message + prost::Name>(message: M) -> Option<TypedExtensionConfig> {
        Some(TypedExtensionConfig {
            name: "any".to_owned(),
            typed_config: Some(pack_any(message)),
        })
    }

    fn compiled(message: &StatefulSessionPerRoute) -> Result<Option<SessionPolicy>, Rejection> {
        sessions(&At::root(), message)
    }

    #[test]
    fn a_cookie_is_set_as_envoy_sets_it() {
        let attribute = |name: &str, value: &str| CookieAttribute {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let cookie = Cookie {
            name: "sess".to_owned(),
            ttl: Some(Duration {
                seconds: 3600,
                nanos: 5,
            }),
            path: "/".to_owned(),
            attributes: vec![attribute("Secure", ""), attribute("SameSite", "Lax")],
        };
        let message = per_route(state(CookieBasedSessionState { cookie: Some(cookie) }), true, 410);
        let policy = compiled(&message).expect("supported").expect("sessions");
        let SessionCarrier::Cookie(cookie) = policy.carrier else {
            panic!("a cookie")
        };
        assert_eq!(
            (&*cookie.name, &*cookie.attributes),
            ("sess", "; Max-Age=3600; Path=/; Secure; SameSite=Lax; HttpOnly")
        );
        assert_eq!(policy.lost, LostHost::Refuse(StatusCode::GONE));
    }

    #[test]
    fn a_header_is_named_and_others_are_refused() {
        let header = |name: &str| state(HeaderBasedSessionState { name: name.to_owned() });
        let policy = compiled(&per_route(header("X-Sess"), false, 0)).expect("supported");
        let policy = policy.expect("sessions");
        assert!(matches!(policy.carrier, SessionCarrier::Header(name) if name == "x-sess"));
        assert_eq!(policy.lost, LostHost::Replace);
        for (message, field) in [
            (
                per_route(header("a b"), false, 0),
                "stateful_session.session_state.typed_config.name",
            ),
            (
                per_route(header("a"), true, 700),
                "stateful_session.status_on_strict_destination_not_found",
            ),
            (
                per_route(state(Cookie::default()), false, 0),
                "stateful_session.session_state.typed_config",
            ),
            (
                per_route(state(CookieBasedSessionState::default()), false, 0),
                "stateful_session.session_state.typed_config.cookie",
            ),
        ] {
            assert_eq!(compiled(&message).expect_err("must be rejected").field, field);
        }
    }

    #[test]
    fn no_state_and_disabled_are_no_sessions() {
        assert!(compiled(&per_route(None, true, 0)).expect("supported").is_none());
        let disabled = StatefulSessionPerRoute {
            r#override: Some(Override::Disabled(true)),
        };
        assert!(compiled(&disabled).expect("supported").is_none());
        let own = StatefulSession {
            session_state: state(HeaderBasedSessionState { name: "a".to_owned() }),
            ..StatefulSession::default()
        };
        assert_eq!(
            filter(&At::root(), &own).expect_err("must be rejected").field,
            "session_state"
        );
    }
}
