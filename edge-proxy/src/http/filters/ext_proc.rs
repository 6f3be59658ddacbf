//! A service that sees requests and responses and may change them (Envoy's `ext_proc`).
//!
//! One stream of messages for each exchange ([`talk`]). Heads wait here for their answers; content is shown whole
//! from here or on its way ([`body`]); what the service changes it changes within rules ([`mutation`]). It may answer
//! in place of a backend, and where it fails the exchange fails, unless the chain wants otherwise.
//! Where a service processes content of requests that ask for another protocol, they are refused: what follows them is
//! no content of theirs that could be shown.

mod attributes;
pub(crate) mod body;
mod message;
mod mutation;
mod request;
mod response;
mod talk;

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use envoy_types::pb::envoy::service::ext_proc::v3::common_response::ResponseStatus;
use envoy_types::pb::envoy::service::ext_proc::v3::{CommonResponse, HeaderMutation};
use envoy_types::pb::google::protobuf::Struct;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;

use crate::config::access::Metadata;
use crate::config::access_log::Flags;
use crate::config::filter::ext_proc::{Attribute, BodyMode, MutationRules, Processor};
use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::http::filters::Flow;
use crate::http::local_reply::Audience;
use crate::http::{Arrived, local_reply};
use crate::message::body::Broken;
use crate::message::head::Head;
use attributes::Known;
use mutation::{Invalid, Kept, Target, Terms};
use talk::{Answer, Heard, Part, Refusal, Talk, Way};

/// A service at work on one exchange.
#[derive(Debug)]
pub(crate) struct Processing<'a> {
    processor: Arc<Processor>,
    /// The name of the route.
    pub(super) route: &'a str,
    talk: Option<Rc<Talk>>,
    audience: Audience,
    /// The request as it was, where attributes of the response speak of it.
    head: Option<Box<Head>>,
}

/// Why an exchange doesn't go on.
enum Stop {
    /// The service says so, or has failed: the talk knows the answer.
    Refused,
    /// It is answered.
    Answer(Flow),
}

impl<'a> Processing<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(processor: Arc<Processor>) -> Self {
        Self {
            processor,
            route: "",
            talk: None,
            audience: Audience::Http,
            head: None,
        }
    }

    fn talk(&mut self, exchange: &Exchange) -> Rc<Talk> {
        let upstreams = &exchange.connection.upstreams;
        let talk = self.talk.get_or_insert_with(|| Talk::new(&self.processor, upstreams));
        Rc::clone(talk)
    }

    /// What is told of an exchange, once for each way.
    fn attributes(&self, talk: &Talk, way: Way, known: &Known<'_>) -> Struct {
        let told: &[Attribute] = match way {
            Way::Request => &self.processor.of_request,
            Way::Response => &self.processor.of_response,
        };
        match told.is_empty() || !talk.begins(way) {
            true => Struct::default(),
            false => attributes::told(told, known),
        }
    }

    /// Shows a request.
    pub(super) async fn request(&mut self, arrived: &mut Arrived<'_>) -> Flow {
        self.audience = arrived.audience;
        let talk = self.talk(&arrived.exchange);
        self.keep(&talk, arrived);
        let modes = [talk.mode(Way::Request).body, talk.mode(Way::Response).body];
        if arrived.notes.upgrade.is_some() && modes != [BodyMode::Hidden; 2] && !talk.is_watched() {
            return Flow::refuse(arrived, StatusCode::FORBIDDEN, "", "upgrade_failed");
        }
        match self.process_request(&talk, arrived).await {
            Ok(flow) => flow,
            Err(Stop::Answer(flow)) => flow,
            Err(Stop::Refused) => match talk.refusal() {
                Some(refusal) => Flow::answer(reply(*refusal, &arrived.exchange, self.audience)),
                None => Flow::refuse(arrived, StatusCode::INTERNAL_SERVER_ERROR, "", "ext_proc_error"),
            },
        }
    }

    /// Keeps what the service is told of the request later.
    fn keep(&mut self, talk: &Talk, arrived: &Arrived<'_>) {
        let of_request = |attribute: &Attribute| !matches!(attribute, Attribute::ResponseCode | Attribute::RouteName);
        if self.processor.of_response.iter().any(of_request) {
            self.head = Some(arrived.head.clone());
        }
        let mut kept = talk.metadata.borrow_mut();
        for name in self.processor.readable.iter() {
            if let Some(value) = arrived.metadata.get(name) {
                kept.insert(Arc::clone(name), value.clone());
            }
        }
    }

    /// What is said about a head; `None`: nothing, and it goes on as it is.
    fn head_of(&self, heard: Heard, talk: &Talk, metadata: &mut Metadata) -> Result<Option<CommonResponse>, Stop> {
        match heard {
            Heard::Answer(answer) => {
                self.learn(&answer, metadata);
                match answer.part {
                    Part::Head(said) | Part::Body(said) => Ok(Some(said)),
                    Part::Trailers(_) => Ok(None),
                }
            }
            Heard::Over => {
                talk.finish(Way::Request);
                Ok(None)
            }
            Heard::Refused => Err(Stop::Refused),
        }
    }

    /// Keeps metadata for later filters.
    fn learn(&self, answer: &Answer, metadata: &mut Metadata) {
        let Some(said) = &answer.metadata else { return };
        for name in self.processor.writable.iter() {
            let Some(value) = said.fields.get(&**name) else {
                continue;
            };
            let value = message::json(value.clone());
            match (metadata.get_mut(name), value) {
                (Some(serde_json::Value::Object(there)), serde_json::Value::Object(new)) => there.extend(new),
                (_, value @ serde_json::Value::Object(_)) => {
                    metadata.insert(Arc::clone(name), value);
                }
                _ => {}
            }
        }
    }

    /// What the service may change of a head.
    fn terms(&self, talk: &Talk, way: Way, said: &CommonResponse, limit: usize) -> Terms<'_> {
        Terms {
            rules: &self.processor.rules,
            kept: match talk.mode(way).changes_length() {
                true => Kept::Length,
                false => Kept::Nothing,
            },
            is_replaced: replaces(said),
            limit,
        }
    }

    /// Shows the response.
    pub(super) async fn response(
        &mut self,
        exchange: &Rc<Exchange>,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let talk = self.talk(exchange);
        if talk.is_watched() {
            poll_fn(|cx| {
                talk.look(cx);
                Poll::Ready(())
            })
            .await;
        }
        // While the content of the request was on its way.
        if let Some(refusal) = talk.refusal() {
            return reply(*refusal, exchange, self.audience);
        }
        if talk.is_over() || exchange.tunnel.borrow().is_some() {
            return response;
        }
        match self.process_response(&talk, exchange, &mut response).await {
            Ok(()) => response,
            Err(Stop::Answer(Flow::Answer(answer))) => *answer,
            Err(_) => match talk.refusal() {
                Some(refusal) => reply(*refusal, exchange, self.audience),
                None => local_reply::text(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new(), None, self.audience),
            },
        }
    }
}

/// What was read of content at once.
struct Gathered {
    data: Bytes,
    trailers: Option<HeaderMap>,
    is_complete: bool,
}

/// Reads content until it ends, or has become longer than may be kept.
async fn gather<B: Body<Data = Bytes, Error = Broken> + Unpin>(body: &mut B, most: usize) -> Result<Gathered, Broken> {
    let mut data = BytesMut::new();
    while data.len() <= most {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()?;
        let Some(frame) = frame else {
            return Ok(Gathered {
                data: data.freeze(),
                trailers: None,
                is_complete: true,
            });
        };
        match frame.into_data() {
            Ok(more) => data.extend_from_slice(&more),
            Err(frame) => {
                return Ok(Gathered {
                    data: data.freeze(),
                    trailers: frame.into_trailers().ok(),
                    is_complete: true,
                });
            }
        }
    }
    Ok(Gathered {
        data: data.freeze(),
        trailers: None,
        is_complete: false,
    })
}

/// What a local answer may be made of: anything.
const ANYTHING: MutationRules = MutationRules {
    routing: true,
    own_prefix: None,
    system: true,
    any: true,
    allowed: None,
    disallowed: None,
    strict: false,
};

/// The answer in place of what was to come.
fn reply(refusal: Refusal, exchange: &Exchange, audience: Audience) -> Response<ResponseBody> {
    exchange.note(|record| {
        // That content broke off is nothing that anybody else has done.
        record.flags = Flags::default();
        record.details = refusal.details.into();
    });
    let mut response = local_reply::text(refusal.status, refusal.body, None, audience);
    if let Some(code) = refusal.grpc.filter(|_| audience == Audience::Grpc) {
        local_reply::say_code(response.headers_mut(), code);
    }
    let terms = Terms {
        rules: &ANYTHING,
        kept: Kept::Length,
        is_replaced: false,
        limit: exchange.connection.manager().max_request_headers,
    };
    if let Err(Invalid(details)) = change(&mut response, &refusal.headers, terms) {
        tracing::debug!(details, "headers of a processor's answer were not set");
    }
    response
}

/// Changes the head of a response.
fn change(response: &mut Response<ResponseBody>, mutation: &HeaderMutation, terms: Terms<'_>) -> Result<(), Invalid> {
    let mut status = response.status();
    let done = mutation::apply(
        mutation,
        &mut Target::Response(&mut status, response.headers_mut()),
        terms,
    );
    *response.status_mut() = status;
    done
}

/// An answer of the service that can't be followed ends the exchange.
fn refuse(talk: &Talk, invalid: Invalid) -> Stop {
    talk.reject(&invalid);
    Stop::Refused
}

/// Does what is said about trailers.
fn follow_trailers(talk: &Talk, heard: Heard, fields: &mut HeaderMap, limit: usize) -> Result<(), Stop> {
    match heard {
        Heard::Answer(answer) => {
            if let Part::Trailers(mutation) = &answer.part {
                let terms = Terms {
                    rules: &talk.processor.rules,
                    kept: Kept::Nothing,
                    is_replaced: false,
                    limit,
                };
                let done = mutation::apply(mutation, &mut Target::Trailers(fields), terms);
                done.map_err(|invalid| refuse(talk, invalid))?;
            }
            Ok(())
        }
        Heard::Over => Ok(()),
        Heard::Refused => Err(Stop::Refused),
    }
}

/// Whether a message goes on as the service says it and isn't shown any more.
fn replaces(said: &CommonResponse) -> bool {
    said.status == i32::from(ResponseStatus::ContinueAndReplace)
}

/// What is said of the length of content must be so.
fn check_length(fields: &HeaderMap, length: usize) -> Result<(), Invalid> {
    let said = fields.get(CONTENT_LENGTH).and_then(|said| said.to_str().ok());
    match said.and_then(|said| said.parse::<usize>().ok()) {
        Some(said) if said != length => Err(Invalid(
            "mismatch between content length and the length of the mutated body".to_owned(),
        )),
        _ => Ok(()),
    }
}
