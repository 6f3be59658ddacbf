//! A response on its way past the service.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse;
use envoy_types::pb::envoy::service::ext_proc::v3::common_response::ResponseStatus;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};
use http_body::Body as _;

use super::attributes::Known;
use super::body::{self, ProcessedBody};
use super::talk::{Talk, Way};
use super::{Gathered, Processing, Stop, change, check_length, follow_trailers, gather, message, refuse, replaces};
use crate::clock::Kind;
use crate::config::access::Metadata;
use crate::config::filter::ext_proc::BodyMode;
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::http::filters::Flow;
use crate::http::local_reply;

impl Processing<'_> {
    pub(super) async fn process_response(
        &self,
        talk: &Rc<Talk>,
        exchange: &Rc<Exchange>,
        response: &mut Response<ResponseBody>,
    ) -> Result<(), Stop> {
        let is_empty = response.body().is_end_stream();
        if is_empty {
            exchange.answered();
        }
        let limit = exchange.connection.manager().max_request_headers;
        let mut flowing = None;
        if talk.mode(Way::Response).head {
            self.show_response(talk, exchange, response, is_empty);
            if !talk.is_watched() {
                if !is_empty && talk.mode(Way::Response).body == BodyMode::Duplex {
                    let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
                    flowing = Some(ProcessedBody::new(body, talk, Way::Response, limit));
                }
                let said = self.response_head(talk, exchange, response, &mut flowing).await?;
                if let Some(said) = said {
                    self.follow_response(talk, &said, response, limit)?;
                    if replaces(&said) {
                        flowing = None;
                    }
                }
            }
        }
        let mode = talk.mode(Way::Response);
        if mode.changes_length() && !talk.is_over() && !talk.is_watched() {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        if let Some(body) = flowing {
            *response.body_mut() = body::answered(body, exchange);
        } else if response.body().is_end_stream() {
            talk.finish(Way::Response);
        } else if !talk.is_over() {
            self.response_body(talk, exchange, response, limit).await?;
        }
        Ok(())
    }

    fn show_response(&self, talk: &Talk, exchange: &Exchange, response: &Response<ResponseBody>, is_empty: bool) {
        let known = Known {
            connection: &exchange.connection,
            head: self.head.as_deref(),
            route: self.route,
            status: Some(response.status()),
        };
        let told = self.attributes(talk, Way::Response, &known);
        let message = message::response(talk, response, is_empty);
        talk.show(Way::Response, message::with_attributes(message, told));
    }

    /// Waits for what is said about the head of a response, while its content may flow.
    async fn response_head(
        &self,
        talk: &Rc<Talk>,
        exchange: &Exchange,
        response: &mut Response<ResponseBody>,
        flowing: &mut Option<ProcessedBody<ResponseBody>>,
    ) -> Result<Option<CommonResponse>, Stop> {
        let heard = poll_fn(|cx| {
            let polled = match flowing {
                Some(body) => body.poll_head(cx).map_err(|_| None),
                None => talk.poll(Way::Response, cx).map(Ok),
            };
            match polled {
                Poll::Pending => exchange.poll_deadline(cx).map(|kind| Err(Some(kind))),
                ready => ready,
            }
        });
        match heard.await {
            Ok(heard) => self.head_of(heard, talk, &mut Metadata::new()),
            Err(kind) => Err(self.broke_off(exchange, response, kind)),
        }
    }

    /// The answer where the backend has broken off, or a deadline has passed.
    fn broke_off(&self, exchange: &Exchange, response: &mut Response<ResponseBody>, kind: Option<Kind>) -> Stop {
        *response.body_mut() = ResponseBody::Empty;
        let fault = match kind {
            Some(kind) => exchange.overdue(kind, None),
            None => Fault::ConnectionTermination,
        };
        exchange.note(|record| record.fault(fault));
        Stop::Answer(Flow::answer(local_reply::of_fault(fault, self.audience)))
    }

    fn follow_response(
        &self,
        talk: &Talk,
        said: &CommonResponse,
        response: &mut Response<ResponseBody>,
        limit: usize,
    ) -> Result<(), Stop> {
        if let Some(mutation) = &said.header_mutation {
            let terms = self.terms(talk, Way::Response, said, limit);
            change(response, mutation, terms).map_err(|invalid| refuse(talk, invalid))?;
        }
        if replaces(said) {
            if said.body_mutation.is_some() {
                response.headers_mut().remove(CONTENT_LENGTH);
                *response.body_mut() = full(message::content(said).unwrap_or_default());
            }
            talk.hide(Way::Response);
            talk.finish(Way::Response);
        }
        Ok(())
    }

    /// Shows content of a response, at once or on its way.
    async fn response_body(
        &self,
        talk: &Rc<Talk>,
        exchange: &Rc<Exchange>,
        response: &mut Response<ResponseBody>,
        limit: usize,
    ) -> Result<(), Stop> {
        let mode = talk.mode(Way::Response);
        let gathers = matches!(mode.body, BodyMode::Whole | BodyMode::Beginning) && !talk.is_watched();
        if !gathers {
            if mode.body != BodyMode::Hidden || mode.trailers {
                let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
                let body = ProcessedBody::new(body, talk, Way::Response, limit);
                *response.body_mut() = body::answered(body, exchange);
            }
            return Ok(());
        }
        let most = exchange.connection.buffer_limit();
        let gathered = self.gather_response(exchange, response, most).await?;
        let Gathered {
            data,
            mut trailers,
            is_complete,
        } = gathered;
        if !is_complete && mode.body == BodyMode::Whole {
            exchange.note(|record| record.details = "response_payload_too_large".into());
            let body = Bytes::from_static(b"Internal Server Error");
            let answer = local_reply::text(StatusCode::INTERNAL_SERVER_ERROR, body, None, self.audience);
            return Err(Stop::Answer(Flow::answer(answer)));
        }
        let is_end = is_complete && trailers.is_none();
        talk.show(Way::Response, message::body(talk, Way::Response, &data, is_end));
        let mut data = data;
        if let Some(said) = self.response_head(talk, exchange, response, &mut None).await? {
            let new = message::content(&said);
            let plain = CommonResponse {
                status: ResponseStatus::Continue.into(),
                body_mutation: None,
                ..said
            };
            self.follow_response(talk, &plain, response, limit)?;
            if let Some(new) = new {
                check_length(response.headers(), new.len()).map_err(|invalid| refuse(talk, invalid))?;
                data = new;
            }
        }
        if !is_complete {
            let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
            let rest = ProcessedBody::new(body, talk, Way::Response, limit).behind(data);
            *response.body_mut() = body::answered(rest, exchange);
            return Ok(());
        }
        if let Some(fields) = trailers.as_mut().filter(|_| mode.trailers && !talk.is_over()) {
            talk.show(Way::Response, message::trailers(talk, Way::Response, fields));
            let heard = poll_fn(|cx| talk.poll(Way::Response, cx)).await;
            follow_trailers(talk, heard, fields, limit)?;
        }
        *response.body_mut() = match trailers {
            None => full(data),
            Some(trailers) => body::kept(data, trailers),
        };
        Ok(())
    }

    async fn gather_response(
        &self,
        exchange: &Exchange,
        response: &mut Response<ResponseBody>,
        most: usize,
    ) -> Result<Gathered, Stop> {
        let gathered = {
            let mut gathering = std::pin::pin!(gather(response.body_mut(), most));
            let gathered = poll_fn(|cx| match gathering.as_mut().poll(cx) {
                Poll::Pending => exchange.poll_deadline(cx).map(|kind| Err(Some(kind))),
                Poll::Ready(gathered) => Poll::Ready(gathered.map_err(|_| None)),
            });
            gathered.await
        };
        if let Ok(Gathered { is_complete: true, .. }) = &gathered {
            // The backend's time is over, and the service has its own.
            exchange.answered();
        }
        gathered.map_err(|kind| self.broke_off(exchange, response, kind))
    }
}

fn full(data: Bytes) -> ResponseBody {
    match data.is_empty() {
        true => ResponseBody::Empty,
        false => ResponseBody::Full(data),
    }
}
