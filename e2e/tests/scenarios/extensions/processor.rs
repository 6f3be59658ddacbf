//! A service that processes requests and responses.

use crate::policies::GrpcPeer;
use anyhow::Result;
use envoy_types::pb::envoy::{
    config::core::v3::{HeaderValue, HeaderValueOption},
    service::ext_proc::v3::{
        CommonResponse, HeaderMutation, HeadersResponse, ProcessingRequest, ProcessingResponse,
        external_processor_server::{ExternalProcessor, ExternalProcessorServer},
        processing_request::Request as Asked,
        processing_response::Response as Answer,
    },
};
use futures_util::{Stream, StreamExt as _};
use std::pin::Pin;
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Starts a service that tells clients in a header that their response was processed.
pub(super) fn start() -> Result<GrpcPeer> {
    GrpcPeer::serving(Server::builder().add_service(ExternalProcessorServer::new(Service)))
}

struct Service;

#[tonic::async_trait]
impl ExternalProcessor for Service {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let answers = request.into_inner().map(|asked| asked.map(answer));
        Ok(Response::new(Box::pin(answers)))
    }
}

fn answer(asked: ProcessingRequest) -> ProcessingResponse {
    let answer = match asked.request {
        Some(Asked::ResponseHeaders(_)) => Answer::ResponseHeaders(HeadersResponse {
            response: Some(told("processed")),
        }),
        _ => Answer::RequestHeaders(HeadersResponse::default()),
    };
    ProcessingResponse {
        response: Some(answer),
        ..ProcessingResponse::default()
    }
}

fn told(what: &str) -> CommonResponse {
    let header = HeaderValue {
        key: "x-told".to_owned(),
        raw_value: what.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    let set = HeaderValueOption {
        header: Some(header),
        ..HeaderValueOption::default()
    };
    CommonResponse {
        header_mutation: Some(HeaderMutation {
            set_headers: vec![set],
            ..HeaderMutation::default()
        }),
        ..CommonResponse::default()
    }
}
