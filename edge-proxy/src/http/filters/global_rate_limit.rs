//! Requests in a time, counted by a service for all proxies (Envoy's `ratelimit`).
//!
//! The service is told of a request in entries and says whether it is within its limits; a request that exceeds
//! one is refused, one about which nothing is said only where the chain wants it. What is told when a request is over
//! is put together when it comes: no filter of this proxy finds anything out about responses.

use std::rc::Rc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValue as ProtoHeader;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::UInt64Value;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Body as _, Frame, SizeHint};
use serde_json::Value;

use crate::calls::ask::{ServiceProtocol, ServiceRequest, ask};
use crate::calls::grpc;
use crate::clock::Kind;
use crate::config::filter::global_rate_limit::{GlobalRateLimits, GlobalRule, RateLimitService, When};
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::http::filters::{Flow, rate_limit_descriptor, within};
use crate::http::local_reply::Audience;
use crate::http::{Arrived, local_reply};
use crate::message::body::Broken;
use crate::upstream::Upstreams;

mod headers;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The limits of a route on one request.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    service: &'a RateLimitService,
    limits: &'a GlobalRateLimits,
    /// Fields of the response.
    fields: HeaderMap,
    later: Option<Later>,
}

/// What is told when a request is over, however it ends.
struct Later {
    upstreams: Rc<Upstreams>,
    question: Option<ServiceRequest>,
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        let Some(question) = self.question.take() else { return };
        let upstreams = Rc::clone(&self.upstreams);
        tokio::task::spawn_local(async move {
            let snapshot = upstreams.worker.snapshot();
            if let Err(fault) = ask(&upstreams, &snapshot, question, None).await {
                tracing::debug!(?fault, "a request that is over was not counted");
            }
        });
    }
}

impl<'a> Counted<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(service: &'a RateLimitService, limits: &'a GlobalRateLimits) -> Self {
        Self {
            service,
            limits,
            fields: HeaderMap::new(),
            later: None,
        }
    }

    /// Lets a request through that is within its limits.
    pub(super) async fn request(&mut self, arrived: &mut Arrived<'_>) -> Flow {
        let upstreams = Rc::clone(&arrived.exchange.connection.upstreams);
        let (_, over) = self.describe(arrived, When::Over);
        if !over.is_empty() {
            self.later = Some(Later {
                upstreams: Rc::clone(&upstreams),
                question: Some(self.question(over)),
            });
        }
        let (rules, descriptors) = self.describe(arrived, When::Asked);
        if descriptors.is_empty() {
            return Flow::Continue;
        }
        let question = self.question(descriptors);
        let snapshot = upstreams.worker.snapshot();
        let told = match within(arrived, ask(&upstreams, &snapshot, question, None)).await {
            Ok(told) => told,
            Err(answer) => return answer,
        };
        let said = told.ok().and_then(|told| grpc::message::<RateLimitResponse>(&told));
        let Some(said) = said else {
            return self.unanswered(arrived);
        };
        self.follow(&rules, said, arrived)
    }

    /// What a request is in the entries of the rules, and whose entries these are.
    fn describe(&self, arrived: &Arrived<'_>, when: When) -> (Vec<&'a GlobalRule>, Vec<RateLimitDescriptor>) {
        let rules = self.limits.rules.iter().filter(|rule| rule.when == when);
        let told = rules.filter_map(|rule| Some((rule, descriptor(rule, arrived)?)));
        told.unzip()
    }

    fn question(&self, descriptors: Vec<RateLimitDescriptor>) -> ServiceRequest {
        let domain = self.limits.domain.as_ref().unwrap_or(&self.service.domain);
        let message = RateLimitRequest {
            domain: domain.to_string(),
            descriptors,
            hits_addend: 0,
        };
        let (head, body) = grpc::of(SHOULD_RATE_LIMIT, &self.service.authority, &message);
        ServiceRequest {
            cluster: self.service.cluster,
            head,
            body,
            timeout: self.service.timeout,
            protocol: ServiceProtocol::Grpc,
        }
    }

    fn unanswered(&self, arrived: &Arrived<'_>) -> Flow {
        let Some(status) = self.service.unanswered else {
            return Flow::Continue;
        };
        arrived.exchange.note(|record| record.flag("RLSE"));
        Flow::refuse(arrived, status, "", "rate_limiter_error")
    }

    /// Does what the service has said.
    fn follow(&mut self, rules: &[&GlobalRule], said: RateLimitResponse, arrived: &mut Arrived<'_>) -> Flow {
        let is_over = said.overall_code == Code::OverLimit as i32;
        if is_over && self.service.adds_ratelimited_header {
            let name = &arrived.exchange.connection.manager().prefixed.rate_limited;
            self.fields.insert(name.clone(), HeaderValue::from_static("true"));
        }
        let told: Vec<bool> = rules
            .iter()
            .map(|rule| {
                rule.descriptor
                    .sends_limit_headers
                    .unwrap_or(self.service.sends_limit_headers)
            })
            .collect();
        headers::tell(
            &mut self.fields,
            &said.statuses,
            &told,
            self.service.sends_limit_headers,
        );
        add(&mut self.fields, &said.response_headers_to_add);
        if !is_over {
            add(&mut arrived.head.headers, &said.request_headers_to_add);
            return Flow::Continue;
        }
        arrived.exchange.note(|record| {
            record.flag("RL");
            record.details = "request_rate_limited".into();
        });
        let (body, audience) = (Bytes::from(said.raw_body), arrived.audience);
        let mut answer = local_reply::text(self.service.status, body, None, audience);
        if self.service.exhausted && audience == Audience::Grpc {
            local_reply::say_code(answer.headers_mut(), 8);
        }
        if self.fields.contains_key(CONTENT_TYPE) {
            answer.headers_mut().remove(CONTENT_TYPE);
        }
        Flow::answer(answer)
    }

    /// Tells the client what there is to tell, and keeps what is told later until the response is over.
    pub(super) fn response(&mut self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        let mut last = None;
        for (name, value) in std::mem::take(&mut self.fields) {
            last = name.or(last);
            if let Some(name) = &last {
                response.headers_mut().append(name, value);
            }
        }
        if let Some(later) = self.later.take()
            && !response.body().is_end_stream()
        {
            let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
            *response.body_mut() = ResponseBody::Filtered(Box::new(CountedBody { body, _later: later }));
        }
        response
    }
}

/// A request in the entries of a rule, if it has all of them.
fn descriptor(rule: &GlobalRule, arrived: &Arrived<'_>) -> Option<RateLimitDescriptor> {
    let said = rate_limit_descriptor::describe(&rule.descriptor, arrived)?;
    let hits = rate_limit_descriptor::hits(&rule.descriptor, &arrived.metadata)?;
    let limit = rule.limit.as_ref();
    Some(RateLimitDescriptor {
        entries: said
            .into_iter()
            .map(|(key, value)| Entry {
                key: key.to_string(),
                value,
            })
            .collect(),
        limit: limit.and_then(|path| override_of(path.find(&arrived.metadata)?)),
        hits_addend: hits.map(|value| UInt64Value { value }),
        ..RateLimitDescriptor::default()
    })
}

/// A limit that a filter has found out.
fn override_of(value: &Value) -> Option<RateLimitOverride> {
    let requests = value.get("requests_per_unit")?.as_f64()?;
    let unit = RateLimitUnit::from_str_name(value.get("unit")?.as_str()?)?;
    Some(RateLimitOverride {
        requests_per_unit: requests as u32,
        unit: unit.into(),
    })
}

/// Adds fields of the service; what can't stand in a message is left out.
fn add(fields: &mut HeaderMap, added: &[ProtoHeader]) {
    for header in added {
        let value = match header.raw_value.is_empty() {
            true => HeaderValue::from_str(&header.value),
            false => HeaderValue::from_bytes(&header.raw_value),
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(header.key.as_bytes()), value) {
            fields.append(name, value);
        }
    }
}

/// The content of a response, after which something is told.
#[derive(Debug)]
struct CountedBody {
    body: ResponseBody,
    _later: Later,
}

impl FilteredBody for CountedBody {
    fn poll_frame(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Result<Frame<Bytes>, Broken>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.expire(exchange, kind);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_that_a_filter_has_found_out_has_a_number_and_a_unit() {
        let limit = override_of(&json!({"requests_per_unit": 42, "unit": "HOUR"})).expect("a limit");
        assert_eq!((limit.requests_per_unit, limit.unit()), (42, RateLimitUnit::Hour));
        for bad in [
            json!(42),
            json!({"requests_per_unit": "42", "unit": "HOUR"}),
            json!({"requests_per_unit": 1}),
        ] {
            assert!(override_of(&bad).is_none(), "{bad}");
        }
    }
}
