//! A request on its way past the service.

use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse;
use envoy_types::pb::envoy::service::ext_proc::v3::common_response::ResponseStatus;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;

use super::attributes::Known;
use super::body::ProcessedBody;
use super::mutation::Target;
use super::talk::{Talk, Way};
use super::{Gathered, Processing, Stop, check_length, follow_trailers, gather, message, mutation, refuse, replaces};
use crate::config::filter::ext_proc::{BodyMode, Reroute};
use crate::http::Arrived;
use crate::http::filters::{Flow, within};
use crate::message::body::Broken;
use crate::message::incoming::Incoming;
use crate::message::whole::Whole;

impl Processing<'_> {
    pub(super) async fn process_request(&self, talk: &Rc<Talk>, arrived: &mut Arrived<'_>) -> Result<Flow, Stop> {
        let is_empty = arrived.body.is_end_stream();
        let limit = arrived.exchange.connection.manager().max_request_headers;
        let mut reroutes = false;
        let mut flowing = None;
        if talk.mode(Way::Request).head {
            self.show_request(talk, arrived, is_empty);
            if !talk.is_watched() {
                if !is_empty && talk.mode(Way::Request).body == BodyMode::Duplex {
                    flowing = Some(take_body(arrived, talk, limit));
                }
                let heard = match &mut flowing {
                    Some(body) => within(arrived, poll_fn(|cx| body.poll_head(cx))).await,
                    None => within(arrived, poll_fn(|cx| talk.poll(Way::Request, cx).map(Ok))).await,
                };
                let heard = heard.map_err(Stop::Answer)?.map_err(|broken| broke(&broken, arrived))?;
                if let Some(said) = self.head_of(heard, talk, &mut arrived.metadata)? {
                    reroutes |= self.follow_request(talk, &said, arrived)?;
                    if replaces(&said) {
                        flowing = None;
                    }
                }
            }
        }
        let mode = talk.mode(Way::Request);
        if mode.changes_length() && !talk.is_over() && !talk.is_watched() {
            arrived.head.headers.remove(CONTENT_LENGTH);
        }
        if let Some(body) = flowing {
            arrived.body = Incoming::Filtered(Box::new(body));
        } else if arrived.body.is_end_stream() {
            talk.finish(Way::Request);
        } else if !talk.is_over() {
            reroutes |= self.request_body(talk, arrived, limit).await?;
        }
        Ok(if reroutes { Flow::Reroute } else { Flow::Continue })
    }

    fn show_request(&self, talk: &Talk, arrived: &Arrived<'_>, is_empty: bool) {
        let known = Known {
            connection: &arrived.exchange.connection,
            head: Some(&arrived.head),
            route: self.route,
            status: None,
        };
        let told = self.attributes(talk, Way::Request, &known);
        let message = message::request(talk, &arrived.head, is_empty);
        talk.show(Way::Request, message::with_attributes(message, told));
    }

    /// Does what is said about the head of a request, or about its whole content. `true`: routes are looked at again.
    fn follow_request(&self, talk: &Talk, said: &CommonResponse, arrived: &mut Arrived<'_>) -> Result<bool, Stop> {
        let limit = arrived.exchange.connection.manager().max_request_headers;
        if let Some(mutation) = &said.header_mutation {
            let terms = self.terms(talk, Way::Request, said, limit);
            let done = mutation::apply(mutation, &mut Target::Request(&mut arrived.head), terms);
            done.map_err(|invalid| refuse(talk, invalid))?;
        }
        if replaces(said) {
            if said.body_mutation.is_some() {
                arrived.head.headers.remove(CONTENT_LENGTH);
                arrived.body = whole(message::content(said).unwrap_or_default(), None);
            }
            talk.hide(Way::Request);
            talk.finish(Way::Request);
        }
        Ok(match self.processor.reroute {
            Reroute::Never => false,
            Reroute::Always => said.header_mutation.is_some(),
            Reroute::OnDemand => said.clear_route_cache && said.header_mutation.is_some(),
        })
    }

    /// Shows content of a request, at once or on its way. `true`: routes are looked at again.
    async fn request_body(&self, talk: &Rc<Talk>, arrived: &mut Arrived<'_>, limit: usize) -> Result<bool, Stop> {
        let mode = talk.mode(Way::Request);
        let gathers = matches!(mode.body, BodyMode::Whole | BodyMode::Beginning) && !talk.is_watched();
        if !gathers {
            if mode.body != BodyMode::Hidden || mode.trailers {
                let body = take_body(arrived, talk, limit);
                arrived.body = Incoming::Filtered(Box::new(body));
            }
            return Ok(false);
        }
        let mut body = std::mem::replace(&mut arrived.body, Incoming::Empty);
        let most = arrived.exchange.connection.buffer_limit();
        let gathered = within(arrived, gather(&mut body, most)).await.map_err(Stop::Answer)?;
        let Gathered {
            data,
            mut trailers,
            is_complete,
        } = gathered.map_err(|broken| broke(&broken, arrived))?;
        if !is_complete && mode.body == BodyMode::Whole {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            let flow = Flow::refuse(arrived, status, "Payload Too Large", "request_payload_too_large");
            return Err(Stop::Answer(flow));
        }
        let is_end = is_complete && trailers.is_none();
        talk.show(Way::Request, message::body(talk, Way::Request, &data, is_end));
        let heard = within(arrived, poll_fn(|cx| talk.poll(Way::Request, cx))).await;
        let said = self.head_of(heard.map_err(Stop::Answer)?, talk, &mut arrived.metadata)?;
        let mut reroutes = false;
        let mut data = data;
        if let Some(said) = said {
            let new = message::content(&said);
            let plain = CommonResponse {
                status: ResponseStatus::Continue.into(),
                body_mutation: None,
                ..said
            };
            reroutes = self.follow_request(talk, &plain, arrived)?;
            if let Some(new) = new {
                check_length(&arrived.head.headers, new.len()).map_err(|invalid| refuse(talk, invalid))?;
                data = new;
            }
        }
        if !is_complete {
            let rest = ProcessedBody::new(body, talk, Way::Request, limit).behind(data);
            arrived.body = Incoming::Filtered(Box::new(rest));
            return Ok(reroutes);
        }
        if let Some(fields) = trailers.as_mut().filter(|_| mode.trailers && !talk.is_over()) {
            talk.show(Way::Request, message::trailers(talk, Way::Request, fields));
            let heard = within(arrived, poll_fn(|cx| talk.poll(Way::Request, cx))).await;
            follow_trailers(talk, heard.map_err(Stop::Answer)?, fields, limit)?;
        }
        arrived.body = whole(data, trailers);
        Ok(reroutes)
    }
}

/// The client has broken off.
fn broke(broken: &Broken, arrived: &Arrived<'_>) -> Stop {
    tracing::debug!(%broken, "a request broke off");
    arrived.exchange.note(|record| record.flag("DC"));
    let flow = Flow::refuse(arrived, StatusCode::BAD_REQUEST, "", "downstream_remote_disconnect");
    Stop::Answer(flow)
}

fn take_body(arrived: &mut Arrived<'_>, talk: &Rc<Talk>, limit: usize) -> ProcessedBody<Incoming> {
    let body = std::mem::replace(&mut arrived.body, Incoming::Empty);
    ProcessedBody::new(body, talk, Way::Request, limit)
}

fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Incoming {
    Incoming::Whole(Box::new(Whole::with_trailers(data, trailers)))
}
