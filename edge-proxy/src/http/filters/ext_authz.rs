//! A service that decides about requests (Envoy's `ext_authz`).
//!
//! The service is told of a request, by one like it ([`request`]) or by a call ([`call`]), and lets it through,
//! with changes, or answers it. What it doesn't decide about is refused, unless the chain wants otherwise.

mod call;
mod request;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::calls::ask::{ServiceProtocol, ServiceReply, ServiceRequest, ask};
use crate::config::filter::ext_authz::{Authorizer, AuthorizerForm, AuthorizerOfRoute};
use crate::config::header::PutAction;
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::edits;
use crate::http::filters::{Flow, buffer, pseudo, query, within};
use crate::http::local_reply::Audience;
use crate::http::{Arrived, local_reply};
use crate::message::head::Head;
use crate::message::incoming::Incoming;

const UNDECIDED: HeaderName = HeaderName::from_static("x-envoy-auth-failure-mode-allowed");

/// A header of the response, and how it goes beside those of its name.
type OfResponse = (HeaderName, HeaderValue, PutAction);

/// What a service says of a request.
enum Decision {
    /// It is let through.
    Allowed(Changes),
    /// It is answered.
    Denied(Denial),
    /// Nothing that makes sense.
    Nothing,
    /// Changes that can't be made. To leave them out would leave in what the client says of itself.
    Impossible,
}

/// What becomes of a request that is let through.
#[derive(Default)]
struct Changes {
    /// What HTTP/2 has in pseudo headers, by their names.
    own: Vec<(String, HeaderValue)>,
    /// Parameters of the query, and their values; those without go.
    parameters: Vec<(String, Option<String>)>,
    /// Headers that replace those of the request.
    set: Vec<(HeaderName, HeaderValue)>,
    /// What is added to headers that the request has.
    added: Vec<(HeaderName, HeaderValue)>,
    /// Headers that go.
    removed: Vec<HeaderName>,
    /// Headers of the response.
    told: Vec<OfResponse>,
}

/// The answer of a service to a client.
struct Denial {
    status: StatusCode,
    fields: HeaderMap,
    body: Bytes,
}

/// A service at work on one request.
pub(crate) struct Authorizing<'a> {
    filter: &'a Authorizer,
    told: Option<&'a BTreeMap<String, String>>,
    /// What is said of the route, as [`crate::config::route::Route::metadata`].
    pub(super) of_route: &'a [u8],
    /// Headers of the response.
    fields: Vec<OfResponse>,
}

impl<'a> Authorizing<'a> {
    /// `None` where the route doesn't want it.
    pub(super) fn new(filter: &'a Authorizer, said: Option<&'a AuthorizerOfRoute>) -> Option<Self> {
        let told = match said {
            None => None,
            Some(AuthorizerOfRoute::Off) => return None,
            Some(AuthorizerOfRoute::Context(told)) => Some(told),
        };
        Some(Self {
            filter,
            told,
            of_route: &[],
            fields: Vec::new(),
        })
    }

    /// Asks the service about a request.
    pub(super) async fn request(&mut self, arrived: &mut Arrived<'_>) -> Flow {
        let mut content = Bytes::new();
        if let Some(limit) = self.filter.body {
            match buffer::request(limit, arrived).await {
                Flow::Continue => {}
                answer => return answer,
            }
            if let Incoming::Whole(whole) = &arrived.body {
                content = whole.content().clone();
            }
        }
        let question = self.question(arrived, content);
        let upstreams = Rc::clone(&arrived.exchange.connection.upstreams);
        let snapshot = upstreams.worker.snapshot();
        let told = match question {
            Some(question) => {
                match within(
                    arrived,
                    ask(&upstreams, &snapshot, question, self.filter.retry.as_deref()),
                )
                .await
                {
                    Ok(told) => told,
                    Err(answer) => return answer,
                }
            }
            None => Err(Fault::BadRequest),
        };
        let decision = told.map_or(Decision::Nothing, |told| self.decision(&told));
        match decision {
            Decision::Allowed(changes) => match self.apply(changes, &mut arrived.head) {
                false => impossible(arrived),
                true if self.filter.reroutes => Flow::Reroute,
                true => Flow::Continue,
            },
            Decision::Impossible => impossible(arrived),
            Decision::Denied(denial) => {
                arrived.exchange.note(|record| {
                    record.flag("UAEX");
                    record.details = "ext_authz_denied".into();
                });
                Flow::answer(deny(denial, arrived.audience))
            }
            Decision::Nothing => self.undecided(arrived),
        }
    }

    fn question(&self, arrived: &Arrived<'_>, content: Bytes) -> Option<ServiceRequest> {
        let (protocol, head, body) = match &self.filter.form {
            AuthorizerForm::Call => {
                let (head, body) = call::question(self.filter, self.told, self.of_route, arrived, &content);
                (ServiceProtocol::Grpc, head, body)
            }
            AuthorizerForm::Request { path, added, .. } => {
                let head = request::head(self.filter, path, added, &arrived.head)?;
                (ServiceProtocol::Http, head, content)
            }
        };
        Some(ServiceRequest {
            cluster: self.filter.cluster,
            head,
            body,
            timeout: self.filter.timeout,
            protocol,
        })
    }

    fn decision(&self, told: &ServiceReply) -> Decision {
        match &self.filter.form {
            AuthorizerForm::Call => call::decision(told),
            AuthorizerForm::Request {
                to_backend,
                to_backend_too,
                to_client,
                to_client_on_success,
                ..
            } => request::decision(told, [to_backend, to_backend_too, to_client, to_client_on_success]),
        }
    }

    /// Makes the changes, in Envoy's order; `false` where one can't be made.
    fn apply(&mut self, changes: Changes, head: &mut Head) -> bool {
        if !changes.own.iter().all(|(name, value)| pseudo::set(head, name, value)) {
            return false;
        }
        let fields = &mut head.headers;
        for (name, value) in changes.set {
            fields.insert(name, value);
        }
        for (name, value) in changes.added {
            // As in Envoy: a header that isn't there gets nothing added, and one that is stays one line.
            if let Some(there) = fields.get_mut(name) {
                let joined = [there.as_bytes(), value.as_bytes()].join(&b","[..]);
                *there = HeaderValue::from_bytes(&joined).unwrap_or(value);
            }
        }
        for name in changes.removed {
            fields.remove(name);
        }
        self.fields = changes.told;
        let mut parameters = changes.parameters.iter();
        parameters.all(|(name, value)| query::put(name, value.as_deref(), head))
    }

    fn undecided(&self, arrived: &mut Arrived<'_>) -> Flow {
        match self.filter.undecided {
            None => {
                if self.filter.tells_undecided {
                    let fields = &mut arrived.head.headers;
                    fields.insert(UNDECIDED, HeaderValue::from_static("true"));
                }
                Flow::Continue
            }
            Some(status) => {
                arrived.exchange.note(|record| record.flag("UAEX"));
                Flow::refuse(arrived, status, "", "ext_authz_error")
            }
        }
    }

    /// Writes what the service has said to the client.
    pub(super) fn response(&mut self, fields: &mut HeaderMap) {
        for (name, value, action) in self.fields.drain(..) {
            edits::put(fields, &name, value, action);
        }
    }
}

fn impossible(arrived: &Arrived<'_>) -> Flow {
    arrived.exchange.note(|record| record.flag("UAEX"));
    Flow::refuse(arrived, StatusCode::INTERNAL_SERVER_ERROR, "", "ext_authz_invalid")
}

/// The service's answer, in the terms of the client.
fn deny(denial: Denial, audience: Audience) -> Response<ResponseBody> {
    let media_type = denial.fields.get(http::header::CONTENT_TYPE).cloned();
    let mut response = local_reply::text(denial.status, denial.body, media_type, audience);
    let fields = response.headers_mut();
    let mut last = None;
    for (name, value) in denial.fields {
        // Of several values of one name the first alone comes with it.
        let is_first = name.is_some();
        last = name.or(last);
        let Some(name) = &last else { continue };
        if *name == http::header::CONTENT_TYPE {
            continue;
        }
        if is_first {
            fields.insert(name, value);
        } else {
            fields.append(name, value);
        }
    }
    response
}

/// Whether a field is about the message that it stands in alone.
fn is_of_message(name: &HeaderName) -> bool {
    [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
    .contains(&name.as_str())
}
