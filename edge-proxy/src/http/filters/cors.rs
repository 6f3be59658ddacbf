//! Cross-origin requests (Fetch standard, "CORS protocol"), as Envoy's CORS filter treats them.
//!
//! A preflight is answered here, by the policy of the route that it meets; other requests of an allowed origin go
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

use crate::config::filter::cors::{CorsPolicy, Granted, OtherPreflights};
use crate::http::Arrived;
use crate::http::body::ResponseBody;
use crate::http::filters::Flow;
use crate::http::local_reply::{self, Audience};
use crate::lines::joined;
use crate::message::head::Head;

/// Whether a request says anything of an origin.
pub(super) fn concerns(head: &Head) -> bool {
    head.headers.get(ORIGIN).is_some_and(|origin| !origin.is_empty())
}

/// The rules of a route on one request.
pub(crate) struct Cors<'a> {
    policy: &'a CorsPolicy,
    /// The origin whose scripts may read the response.
    permitted: Option<HeaderValue>,
}

impl<'a> Cors<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(policy: &'a CorsPolicy) -> Self {
        Self {
            policy,
            permitted: None,
        }
    }

    /// Answers a preflight.
    pub(super) fn request(&mut self, arrived: &Arrived<'_>) -> Flow {
        let (policy, head) = (self.policy, &arrived.head);
        let Some(origin) = joined(&head.headers, &ORIGIN).filter(|origin| !origin.is_empty()) else {
            return Flow::Continue;
        };
        let method = head.headers.get(ACCESS_CONTROL_REQUEST_METHOD);
        let preflight = method.filter(|method| head.method == Method::OPTIONS && !method.is_empty());
        let is_allowed = policy.origins.iter().any(|condition| condition.matches(&origin));
        let cells = arrived.exchange.connection.cells();
        if is_allowed {
            cells.cors_origin_valid.inc();
            self.permitted = HeaderValue::from_str(&origin).ok();
        } else {
            cells.cors_origin_invalid.inc();
        }
        match preflight {
            Some(method) if is_allowed || policy.others == OtherPreflights::Answer => {
                arrived.exchange.note(|record| record.details = "cors_response".into());
                Flow::answer_itself(answer(policy, method, head))
            }
            _ => Flow::Continue,
        }
    }

    /// Writes who may read a response, over whatever the backend said about its origin.
    pub(super) fn response(&mut self, fields: &mut HeaderMap) {
        let Some(origin) = self.permitted.take() else {
            return;
        };
        fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.policy.credentials {
            fields.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(exposed) = &self.policy.exposed_headers {
            fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
        }
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
