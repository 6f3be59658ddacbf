//! Sessions: where a client keeps the endpoint that answered it.

use super::common::{duration, extension};
use edge_ir::Session;
use envoy_types::pb::envoy::{
    extensions::{
        filters::http::stateful_session::v3::{
            StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
        },
        http::stateful_session::{cookie::v3::CookieBasedSessionState, header::v3::HeaderBasedSessionState},
    },
    r#type::http::v3::Cookie,
};

/// The sessions of a route. A client whose endpoint has gone is sent to another, which it is told.
pub(super) fn lower(session: &Session) -> StatefulSessionPerRoute {
    let state = match session {
        Session::Cookie(cookie) => {
            let cookie = Cookie {
                name: cookie.name.to_string(),
                ttl: cookie.max_age.map(duration),
                path: cookie.path.to_string(),
                ..Default::default()
            };
            let state = CookieBasedSessionState { cookie: Some(cookie) };
            extension("envoy.http.stateful_session.cookie", state)
        }
        Session::Header(name) => {
            let state = HeaderBasedSessionState { name: name.to_string() };
            extension("envoy.http.stateful_session.header", state)
        }
    };
    let session = StatefulSession {
        session_state: Some(state),
        ..Default::default()
    };
    StatefulSessionPerRoute {
        r#override: Some(Override::StatefulSession(session)),
    }
}
