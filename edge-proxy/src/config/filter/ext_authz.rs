//! A service that decides about requests (Envoy's `ext_authz`).

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};

use crate::config::ClusterId;
use crate::config::header::StringCondition;
use crate::config::route::RetryPolicy;

/// What asks a service.
#[derive(Debug)]
pub struct Authorizer {
    /// Whom.
    pub cluster: ClusterId,
    /// What it is called.
    pub authority: HeaderValue,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// When it is asked again.
    pub retry: Option<Box<RetryPolicy>>,
    /// How it is asked.
    pub form: AuthorizerForm,
    /// The headers of the request that it is told; unset: as the form has it.
    pub allowed: Option<Box<[StringCondition]>>,
    /// Headers that it isn't told.
    pub disallowed: Box<[StringCondition]>,
    /// It is told content, up to so many bytes; a larger request is refused.
    pub body: Option<usize>,
    /// What becomes of a request that it doesn't decide about; unset: it is let through.
    pub undecided: Option<StatusCode>,
    /// A request that is let through so says it in a header.
    pub tells_undecided: bool,
    /// The routes are looked at again when it has let a request through.
    pub reroutes: bool,
    /// What it is told of the route, by the names of those whom it is for.
    pub of_route: Box<[String]>,
}

/// How a service is asked.
#[derive(Debug)]
pub enum AuthorizerForm {
    /// By a call of gRPC.
    Call,
    /// By a request like the one that it is about.
    Request {
        /// Where to, for the path of the request.
        path: AuthorizerPath,
        /// What it is told besides.
        added: Box<[(HeaderName, HeaderValue)]>,
        /// Headers of its answer that the backend gets, in place of those of the client.
        to_backend: Box<[StringCondition]>,
        /// The same, beside those of the client.
        to_backend_too: Box<[StringCondition]>,
        /// Headers of a refusal that the client gets; empty is all.
        to_client: Box<[StringCondition]>,
        /// Headers of its answer that the client gets with the response.
        to_client_on_success: Box<[StringCondition]>,
    },
}

/// Where a service is asked.
#[derive(Debug)]
pub enum AuthorizerPath {
    /// At the path of the request behind this.
    Behind(Box<str>),
    /// Here.
    Fixed(Box<str>),
}

/// What a route says of it.
#[derive(Debug)]
pub enum AuthorizerOfRoute {
    /// It isn't asked.
    Off,
    /// It is told this as well.
    Context(BTreeMap<String, String>),
}
