//! Other responses in place of some, as Envoy's filter gives them.
//!
//! An answer of the proxy's own takes the place of a response at once. Where another request is to be made, the
//! chain makes it: of the head that this filter saw, with another address and without content, through the filters of
//! the route that it finds ([`Elsewhere`]); what it gets isn't replaced again.

use http::header::CONTENT_LENGTH;
use http::uri::Uri;
use http::{HeaderValue, Method, Response, StatusCode};

use crate::access_log;
use crate::config::Snapshot;
use crate::config::filter::custom_response::{CustomResponses, Instead, ResponseView};
use crate::config::route::{PathCondition, Redirect};
use crate::http::body::ResponseBody;
use crate::http::edits::{self, Scene};
use crate::http::exchange::Exchange;
use crate::http::ingress::Notes;
use crate::http::local_reply::Audience;
use crate::http::route::Destination;
use crate::http::{Arrived, local_reply, rewrite};
use crate::message::head::Head;

/// The filter at work on one request.
#[derive(Debug)]
pub(super) struct Replacing<'a> {
    responses: &'a CustomResponses,
    /// The request, as it was here.
    kept: Option<Box<Kept>>,
}

/// What is kept of a request.
#[derive(Debug)]
struct Kept {
    head: Head,
    notes: Notes,
    audience: Audience,
}

/// A request to be made in place of the one that was.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pub(super) head: Head,
    pub(super) notes: Notes,
    pub(super) audience: Audience,
    /// The status of what it gets, where that is success.
    status: Option<StatusCode>,
}

/// What becomes of a response.
pub(super) enum Replaced {
    /// This is it.
    By(Response<ResponseBody>),
    /// It stays, unless a route takes this request.
    Elsewhere(Response<ResponseBody>, Box<Elsewhere>),
}

impl<'a> Replacing<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(responses: &'a CustomResponses) -> Self {
        Self { responses, kept: None }
    }

    /// Whether it must be written down what becomes of requests.
    pub(super) fn tells_course(&self) -> bool {
        self.responses.tell_course()
    }

    /// Keeps the request.
    pub(super) fn request(&mut self, arrived: &Arrived<'_>) {
        self.kept = Some(Box::new(Kept {
            head: Head::clone(&arrived.head),
            notes: arrived.notes.clone(),
            audience: arrived.audience,
        }));
    }

    /// Replaces the response, if that is wanted.
    pub(super) fn response(
        &mut self,
        exchange: &Exchange,
        destination: Destination<'_>,
        snapshot: &Snapshot,
        response: Response<ResponseBody>,
    ) -> Replaced {
        let view = ResponseView {
            status: response.status(),
            fields: response.headers(),
            is_local: !exchange.is_answered_by_backend(),
        };
        let is_tunnel = exchange.tunnel.borrow().is_some();
        let found = self.responses.find(&view).filter(|_| !is_tunnel);
        match (found, self.kept.take()) {
            (None, _) => Replaced::By(response),
            (Some(Instead::Answer { status, body, headers }), kept) => {
                let nothing = Head::empty();
                let head = kept.as_ref().map_or(&nothing, |kept| &kept.head);
                let audience = kept.as_ref().map_or(Audience::Http, |kept| kept.audience);
                let body = body.as_ref().map(|body| {
                    let manager = exchange.connection.manager();
                    let client = access_log::Client::of(&exchange.connection, &manager);
                    let instead_of = Some((view.status, view.fields));
                    access_log::body(body, client, head, exchange.course(), instead_of)
                });
                let status = status.unwrap_or(view.status);
                let mut answer = local_reply::text(status, body.unwrap_or_default().into(), None, audience);
                destination.edit_own(&mut answer, snapshot, exchange, head);
                let scene = Scene::of(&exchange.connection);
                edits::edit_response(answer.headers_mut(), headers, scene, head);
                Replaced::By(answer)
            }
            // As in Envoy: a filter before this one has answered, and there is nothing to ask elsewhere with.
            (Some(Instead::Elsewhere { .. }), None) => Replaced::By(response),
            (Some(Instead::Elsewhere { status, location }), Some(kept)) => match moved(&kept.head, location) {
                Some(head) => {
                    let elsewhere = Elsewhere {
                        head,
                        notes: kept.notes,
                        audience: kept.audience,
                        status: *status,
                    };
                    Replaced::Elsewhere(response, Box::new(elsewhere))
                }
                None => Replaced::By(response),
            },
        }
    }
}

impl Elsewhere {
    /// What was found there, as the client gets it.
    pub(super) fn found(&self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        if let Some(status) = self.status.filter(|_| response.status().is_success()) {
            *response.status_mut() = status;
        }
        response
    }
}

/// The head of a request for something else.
fn moved(head: &Head, location: &Redirect) -> Option<Head> {
    let everything = PathCondition::Prefix("/".into());
    let uri: Uri = rewrite::location(location, &everything, head).parse().ok()?;
    let mut head = head.clone();
    head.scheme = match uri.scheme_str() {
        Some("https") => "https",
        _ => "http",
    };
    head.authority = HeaderValue::from_str(uri.authority()?.as_str()).ok()?;
    head.set_target(uri.path_and_query()?.as_str()).ok()?;
    head.method = Method::GET;
    head.headers.remove(CONTENT_LENGTH);
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::route::{RedirectPath, RedirectScheme};

    #[test]
    fn a_request_goes_elsewhere_as_a_get_without_content() {
        let mut head = Head::empty();
        head.method = Method::POST;
        head.authority = HeaderValue::from_static("www.example.com");
        head.set_target("/a?b=c").expect("a target");
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        let location = Redirect {
            status: StatusCode::MOVED_PERMANENTLY,
            scheme: Some(RedirectScheme::Http),
            host: Some("login.example.com".into()),
            port: Some(8080),
            path: Some(RedirectPath::Full("/login".into())),
            strip_query: false,
        };
        let moved = moved(&head, &location).expect("a head");
        assert_eq!((moved.method, moved.scheme), (Method::GET, "http"));
        assert_eq!(moved.authority, "login.example.com:8080");
        assert_eq!(moved.target, "/login?b=c");
        assert!(moved.headers.is_empty());
    }
}
