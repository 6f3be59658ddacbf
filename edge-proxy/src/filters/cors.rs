//! Cross-origin requests (Fetch standard, "CORS protocol"), as Envoy's CORS filter treats them.
//!
//! What: a preflight is answered here, by the policy of the route that it meets; other requests of an allowed origin go
//! on, and their responses, wherever they come from, tell the browser that its script may read them.
//! Deliberately absent: keeping requests away. An origin is what a browser says about a script; it protects the user of
//! the browser and not the backend.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use crate::config::cors::{CorsPolicy, Granted, OtherPreflights};
use crate::config::listener::HttpFilter;
use crate::downstream::connection::Connection;
use crate::http::body::ResponseBody;
use crate::http::head::Head;
use crate::http::local_reply::{self, Audience};

/// What a policy makes of a request.
pub(crate) enum Verdict<'a> {
    /// Nothing: it isn't of another origin, or of one that isn't allowed.
    Pass,
    /// The response gets these fields.
    Allowed(Permission<'a>),
    /// This is the response.
    Preflight(Response<ResponseBody>),
}

/// Leave to read a response.
pub(crate) struct Permission<'a> {
    policy: &'a CorsPolicy,
    origin: HeaderValue,
}

/// Judges a request of a route with this policy.
pub(crate) fn judge<'a>(policy: &'a CorsPolicy, connection: &Connection, head: &Head) -> Verdict<'a> {
    let filters = &connection.manager().filters;
    let Some(origin) = head.headers.get(ORIGIN).filter(|origin| !origin.is_empty()) else {
        return Verdict::Pass;
    };
    if !filters.iter().any(|filter| matches!(filter, HttpFilter::Cors)) {
        return Verdict::Pass;
    }
    let method = head.headers.get(ACCESS_CONTROL_REQUEST_METHOD);
    let preflight = method.filter(|method| head.method == Method::OPTIONS && !method.is_empty());
    let is_allowed = origin
        .to_str()
        .is_ok_and(|text| policy.origins.iter().any(|condition| condition.matches(text)));
    let permission = is_allowed.then(|| Permission {
        policy,
        origin: origin.clone(),
    });
    let cells = connection.cells();
    match &permission {
        Some(_) => cells.cors_origin_valid.inc(),
        None => cells.cors_origin_invalid.inc(),
    }
    match (preflight, permission) {
        (Some(method), Some(permission)) => {
            let mut response = answer(policy, method, head);
            permission.write(response.headers_mut());
            Verdict::Preflight(response)
        }
        (Some(method), None) if policy.others == OtherPreflights::Answer => {
            Verdict::Preflight(answer(policy, method, head))
        }
        (None, Some(permission)) => Verdict::Allowed(permission),
        (_, None) => Verdict::Pass,
    }
}

fn answer(policy: &CorsPolicy, method: &HeaderValue, head: &Head) -> Response<ResponseBody> {
    let mut response = local_reply::text(StatusCode::OK, Bytes::new(), None, Audience::Http);
    let fields = response.headers_mut();
    if policy.credentials {
        fields.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    grant(fields, ACCESS_CONTROL_ALLOW_METHODS, &policy.methods, Some(method));
    let wanted = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    grant(fields, ACCESS_CONTROL_ALLOW_HEADERS, &policy.headers, wanted);
    if let Some(age) = &policy.max_age {
        fields.insert(ACCESS_CONTROL_MAX_AGE, age.clone());
    }
    response
}

fn grant(fields: &mut HeaderMap, name: HeaderName, granted: &Granted, requested: Option<&HeaderValue>) {
    let value = match granted {
        Granted::Unsaid => return,
        // Not `*`, which stands for itself when credentials are sent (Fetch standard, "CORS protocol and credentials").
        Granted::Requested => requested.cloned().unwrap_or_else(|| HeaderValue::from_static("")),
        Granted::Listed(listed) => listed.clone(),
    };
    fields.insert(name, value);
}

impl Permission<'_> {
    /// Writes it into a response, over whatever the backend said about its origin.
    pub(crate) fn write(self, fields: &mut HeaderMap) {
        fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        if self.policy.credentials {
            fields.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(exposed) = &self.policy.exposed_headers {
            fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
        }
    }
}
