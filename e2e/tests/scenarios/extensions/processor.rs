//! Services that process requests and responses.

use crate::policies::GrpcPeer;
use anyhow::Result;
use envoy_types::pb::{
    envoy::{
        config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
        extensions::filters::http::ext_proc::v3::{ProcessingMode, processing_mode::BodySendMode},
        service::ext_proc::v3::{
            BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody, HttpHeaders,
            ImmediateResponse, ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
            body_mutation::Mutation,
            common_response::ResponseStatus,
            external_processor_server::{ExternalProcessor, ExternalProcessorServer},
            processing_request::Request as Asked,
            processing_response::Response as Said,
        },
        r#type::v3::HttpStatus,
    },
    google::protobuf::{BoolValue, value::Kind},
};
use futures_util::{Stream, StreamExt as _, stream};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

type Answers = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

/// Starts a service that tells clients in a header that their response was processed.
pub(super) fn start() -> Result<GrpcPeer> {
    GrpcPeer::serving(Server::builder().add_service(ExternalProcessorServer::new(Service)))
}

struct Service;

#[tonic::async_trait]
impl ExternalProcessor for Service {
    type ProcessStream = Answers;

    async fn process(&self, request: Request<Streaming<ProcessingRequest>>) -> Result<Response<Answers>, Status> {
        let answers = request.into_inner().map(|asked| asked.map(answer));
        Ok(Response::new(Box::pin(answers)))
    }
}

fn answer(asked: ProcessingRequest) -> ProcessingResponse {
    said(match asked.request {
        Some(Asked::ResponseHeaders(_)) => Said::ResponseHeaders(head(with(vec![set("x-told", "processed")]))),
        _ => Said::RequestHeaders(HeadersResponse::default()),
    })
}

/// A service that does what requests wish for in `x-wish`.
#[derive(Debug, Default)]
pub(super) struct Wisher {
    /// How many messages it was sent.
    pub(super) heard: AtomicUsize,
}

impl Wisher {
    /// Starts one.
    pub(super) fn start(wisher: &Arc<Self>) -> Result<GrpcPeer> {
        let service = Wishing(Arc::clone(wisher));
        GrpcPeer::serving(Server::builder().add_service(ExternalProcessorServer::new(service)))
    }
}

struct Wishing(Arc<Wisher>);

#[tonic::async_trait]
impl ExternalProcessor for Wishing {
    type ProcessStream = Answers;

    async fn process(&self, request: Request<Streaming<ProcessingRequest>>) -> Result<Response<Answers>, Status> {
        let wisher = Arc::clone(&self.0);
        let answers = request.into_inner().scan(Exchange::default(), move |exchange, asked| {
            wisher.heard.fetch_add(1, Ordering::Relaxed);
            let answers = asked.map(|asked| exchange.answers(&asked));
            let next = match answers {
                Ok(Some(answers)) => Some(stream::iter(answers)),
                // It ends in order.
                Ok(None) => None,
                Err(status) => Some(stream::iter(vec![Err(status)])),
            };
            std::future::ready(next)
        });
        Ok(Response::new(Box::pin(answers.flatten())))
    }
}

/// One exchange.
#[derive(Default)]
struct Exchange {
    wish: String,
    attributes: String,
    /// What flows, until all of it is there.
    kept: Vec<u8>,
}

type Answered = Option<Vec<Result<ProcessingResponse, Status>>>;

impl Exchange {
    /// The answers to a message; `None` ends the stream.
    fn answers(&mut self, asked: &ProcessingRequest) -> Answered {
        self.attributes = attributes(asked);
        match asked.request.as_ref()? {
            Asked::RequestHeaders(shown) => {
                self.wish = field(shown, "x-wish").unwrap_or_default();
                self.request(shown)
            }
            Asked::ResponseHeaders(shown) => self.response(shown),
            Asked::RequestBody(shown) => {
                self.body(shown, |said| Said::RequestBody(BodyResponse { response: Some(said) }))
            }
            Asked::ResponseBody(shown) => {
                self.body(shown, |said| Said::ResponseBody(BodyResponse { response: Some(said) }))
            }
            Asked::RequestTrailers(_) => one(Said::RequestTrailers(TrailersResponse::default())),
            Asked::ResponseTrailers(_) => one(Said::ResponseTrailers(TrailersResponse::default())),
        }
    }

    fn request(&self, shown: &HttpHeaders) -> Answered {
        let [method, path] = [":method", ":path"].map(|name| field(shown, name).unwrap_or_default());
        let seen = set("x-seen", &format!("request head {method} {path} {}", self.attributes));
        one(Said::RequestHeaders(head(match &*self.wish {
            "late" => return Some(Vec::new()),
            "close" => return None,
            "break" => return Some(vec![Err(Status::internal("broken"))]),
            "answer" => return one(refusal(403)),
            "odd" => return one(Said::ResponseHeaders(HeadersResponse::default())),
            "invalid" => with(vec![set("x-set", "a\nb")]),
            "change" => {
                let many = HeaderValueOption {
                    append_action: HeaderAppendAction::OverwriteIfExists.into(),
                    ..set("x-absent", "no")
                };
                #[allow(deprecated)]
                let append = HeaderValueOption {
                    append: Some(BoolValue { value: true }),
                    ..set("x-many", "two")
                };
                let own = [set(":method", "PUT"), set("host", "elsewhere"), set("x-edge-own", "no")];
                let mut changed = vec![seen, set("x-set", "a"), set(":path", "/other"), many, append];
                changed.extend(own);
                with(changed)
            }
            "replace" => replaced("instead"),
            "upper" | "flow" => with(vec![seen]),
            "show-response" => return self.chooses(),
            _ => with(vec![seen]),
        })))
    }

    /// Wants to see the content of the response.
    fn chooses(&self) -> Answered {
        let answer = ProcessingResponse {
            mode_override: Some(ProcessingMode {
                response_body_mode: BodySendMode::Buffered.into(),
                ..ProcessingMode::default()
            }),
            ..said(Said::RequestHeaders(HeadersResponse::default()))
        };
        Some(vec![Ok(answer)])
    }

    fn response(&self, shown: &HttpHeaders) -> Answered {
        let status = field(shown, ":status").unwrap_or_default();
        let told = set("x-told", &format!("response head {status}"));
        one(Said::ResponseHeaders(head(match &*self.wish {
            "late-response" => return Some(Vec::new()),
            "break-response" => return Some(vec![Err(Status::internal("broken"))]),
            "answer-response" => return one(refusal(418)),
            "attributes" => with(vec![set("x-told", &self.attributes)]),
            "change" => with(vec![told, set(":status", "201")]),
            "replace-response" => {
                let mut said = replaced("instead");
                said.header_mutation = with(vec![set("x-told", "replaced")]).header_mutation;
                said
            }
            _ => with(vec![told]),
        })))
    }

    fn body(&mut self, shown: &HttpBody, part: impl Fn(CommonResponse) -> Said) -> Answered {
        match &*self.wish {
            "answer-body" => one(refusal(403)),
            "late-body" => Some(Vec::new()),
            "mismatch" => one(part(with_body(b"something longer"))),
            "upper" | "show-response" => one(part(with_body(&shown.body.to_ascii_uppercase()))),
            "flow" => Some(
                self.flow(shown)
                    .into_iter()
                    .map(|piece| Ok(said(part(piece))))
                    .collect(),
            ),
            _ => one(part(CommonResponse::default())),
        }
    }

    /// Keeps all content, and sends it back in two pieces when it is complete.
    fn flow(&mut self, shown: &HttpBody) -> Vec<CommonResponse> {
        self.kept.extend(shown.body.to_ascii_uppercase());
        if !shown.end_of_stream {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.kept);
        let is_marked = all == b"ABC";
        let tail: &[u8] = if is_marked { b"!" } else { b"" };
        vec![flowing(&all, false), flowing(tail, true)]
    }
}

fn attributes(asked: &ProcessingRequest) -> String {
    let fields = asked.attributes.values().flat_map(|told| &told.fields);
    let mut told: Vec<String> = fields
        .map(|(name, value)| match &value.kind {
            Some(Kind::StringValue(text)) => format!("{name}={text}"),
            Some(Kind::BoolValue(truth)) => format!("{name}={truth}"),
            Some(Kind::NumberValue(number)) => format!("{name}={number}"),
            other => format!("{name}={other:?}"),
        })
        .collect();
    told.sort();
    told.join(",")
}

fn field(shown: &HttpHeaders, name: &str) -> Option<String> {
    let HeaderMap { headers } = shown.headers.as_ref()?;
    let found = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(&found.raw_value).into_owned())
}

fn one(answer: Said) -> Answered {
    Some(vec![Ok(said(answer))])
}

fn said(answer: Said) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(answer),
        ..ProcessingResponse::default()
    }
}

fn head(response: CommonResponse) -> HeadersResponse {
    HeadersResponse {
        response: Some(response),
    }
}

/// Headers are set, and two go.
fn with(set_headers: Vec<HeaderValueOption>) -> CommonResponse {
    let is_change = set_headers.len() > 2;
    CommonResponse {
        header_mutation: Some(HeaderMutation {
            set_headers,
            remove_headers: if is_change {
                vec!["x-gone".to_owned(), ":path".to_owned()]
            } else {
                Vec::new()
            },
        }),
        ..CommonResponse::default()
    }
}

fn with_body(body: &[u8]) -> CommonResponse {
    CommonResponse {
        body_mutation: Some(BodyMutation {
            mutation: Some(Mutation::Body(body.to_vec())),
        }),
        ..CommonResponse::default()
    }
}

fn replaced(body: &str) -> CommonResponse {
    CommonResponse {
        status: ResponseStatus::ContinueAndReplace.into(),
        ..with_body(body.as_bytes())
    }
}

fn flowing(body: &[u8], is_end: bool) -> CommonResponse {
    let piece = StreamedBodyResponse {
        body: body.to_vec(),
        end_of_stream: is_end,
        ..StreamedBodyResponse::default()
    };
    CommonResponse {
        body_mutation: Some(BodyMutation {
            mutation: Some(Mutation::StreamedResponse(piece)),
        }),
        ..CommonResponse::default()
    }
}

fn refusal(code: i32) -> Said {
    Said::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code }),
        headers: with(vec![set("x-told", "no")]).header_mutation,
        body: b"go away".to_vec(),
        details: "not today".to_owned(),
        ..ImmediateResponse::default()
    })
}

fn set(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            raw_value: value.as_bytes().to_vec(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    }
}
