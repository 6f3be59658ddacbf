//! HTTP filters: what happens to a request before its route acts, and to the response behind it.
//!
//! A [`Chain`] is made of the filters that act on one request, in the order of the manager's list. Each has a
//! step in these phases, as in Envoy:
//!
//! | phase | order | may |
//! |---|---|---|
//! | request head, [`Step::request`] | as listed | read and edit the head, wait, ask for another look at the routes, or answer |
//! | request content | as listed | read the content whole while it waits, or put a body of its own around it |
//! | response head, [`Step::response`] | backwards | edit the head, or put another response in its place |
//! | response content, trailers | backwards | put a body of its own around the one that comes |
//! | end | – | what such a body does when it is dropped: the exchange is over |
//!
//! The answer of a filter goes through the response phase of all of them, also of those whose turn hadn't come, so a
//! step must be at home there without having seen the request.
//! Which filters act is decided by [`crate::config::filter`]: a route that says nothing, on a chain where nothing acts
//! by itself, comes here never and costs nothing. A filter that a request gives nothing to do is no step either.
//! Routes are looked up again when a filter asks for it, and the filters that are still to come are those of the new
//! route (Envoy keeps those of the first). What would have guarded that route before has had to guard the first one in
//! the same way: else the request is refused, for nobody has asked it for what the route wants to see.

mod admission_control;
mod api_key;
mod bandwidth_limit;
mod basic_auth;
mod buffer;
mod compressor;
mod cors;
mod credential_injector;
mod csrf;
mod custom_response;
mod ext_authz;
mod ext_proc;
mod fault;
mod geoip;
mod global_rate_limit;
pub(in crate::http) mod grpc_web;
mod health_check;
pub(in crate::http) mod jwt;
mod local_rate_limit;
pub(in crate::http) mod oauth2;
mod pseudo;
pub(in crate::http) mod query;
mod rate_limit_descriptor;
mod rbac;
pub(crate) mod session;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{Response, StatusCode};
use smallvec::SmallVec;

use crate::config::access::{AccessRules, Metadata};
use crate::config::dynamic_forward_proxy::NamedOtherwise;
use crate::config::filter::api_key::ApiKeyAuth;
use crate::config::filter::basic_auth::{BasicAuth, Users};
use crate::config::filter::credential_injector::Injector;
use crate::config::filter::csrf::SiteCheck;
use crate::config::filter::fault::Faults;
use crate::config::filter::geoip::GeoIp;
use crate::config::filter::jwt::{RouteRequirement, Tokens};
use crate::config::filter::session::SessionPolicy;
use crate::config::filter::{FilterKind, FilterSettings, HeaderMutations, HealthCheckFilter, HttpFilters};
use crate::config::route::HostRewrite;
use crate::http::body::ResponseBody;
use crate::http::edits::{self, Scene};
use crate::http::exchange::Exchange;
use crate::http::route::{Destination, Site};
use crate::http::{Arrived, local_reply, rewrite};
use crate::message::head::Head;
use crate::message::incoming::Incoming;
use admission_control::Admitting;
use bandwidth_limit::Slowing;
use compressor::Compressing;
use cors::Cors;
use custom_response::{Elsewhere, Replaced, Replacing};
use ext_authz::Authorizing;
use ext_proc::Processing;
use global_rate_limit::Counted;
use grpc_web::Bridge;
use local_rate_limit::Limited;
use oauth2::LoggingIn;
use session::Session;

/// The filters that act on a request.
pub(crate) struct Chain<'a> {
    /// Each with its place in the manager's list.
    steps: SmallVec<[(usize, Step<'a>); 4]>,
}

/// A filter at work on one request.
enum Step<'a> {
    HealthCheck(&'a HealthCheckFilter),
    Cors(Cors<'a>),
    GrpcWeb(Option<Rc<Bridge>>),
    Session(&'a SessionPolicy),
    Csrf(&'a SiteCheck),
    Authorizer(Authorizing<'a>),
    BasicAuth(&'a BasicAuth, Option<&'a Users>),
    ApiKeyAuth(&'a ApiKeyAuth, Option<&'a ApiKeyAuth>),
    Login(Box<LoggingIn<'a>>),
    GeoIp(&'a GeoIp),
    Tokens(&'a Tokens, Option<&'a RouteRequirement>),
    Rbac(&'a AccessRules),
    LocalRateLimit(Limited<'a>),
    /// Boxed: it is large, and few requests have one.
    GlobalRateLimit(Box<Counted<'a>>),
    Fault(&'a Faults),
    Buffer(usize),
    CredentialInjector(&'a Injector),
    HeaderMutation(&'a HeaderMutations),
    Compressor(Compressing<'a>),
    Admission(Admitting<'a>),
    CustomResponse(Replacing<'a>),
    Bandwidth(Slowing<'a>),
    /// Boxed: it is large, and few requests have one.
    Processor(Box<Processing<'a>>),
    /// What the route says isn't for this filter, or nobody knows the filter: nothing may pass.
    Misfit(&'a str),
    /// Lets the host be resolved that the request asks for, or that the route names.
    Names(Option<&'a HostRewrite>),
}

/// How a request goes on behind a filter.
pub(crate) enum Flow {
    /// To the next one.
    Continue,
    /// To the next one of its route, which may be another than before.
    Reroute,
    /// The proxy answers it, as it answers what no backend does: what its route says of responses is said of this one.
    Answer(Box<Response<ResponseBody>>),
    /// The filter answers it all by itself.
    AnswerItself(Box<Response<ResponseBody>>),
}

impl Flow {
    /// This is the answer.
    fn answer(response: Response<ResponseBody>) -> Self {
        Self::Answer(Box::new(response))
    }

    /// This is the answer, and the filter has said all of it.
    fn answer_itself(response: Response<ResponseBody>) -> Self {
        Self::AnswerItself(Box::new(response))
    }

    /// The answer of a filter that lets nothing pass.
    fn refuse(arrived: &Arrived<'_>, status: StatusCode, body: &'static str, details: &'static str) -> Self {
        arrived.exchange.note(|record| record.details = details.into());
        let body = Bytes::from_static(body.as_bytes());
        Self::answer(local_reply::text(status, body, None, arrived.audience))
    }
}

/// What a request asks for, as a challenge names it: at most so much of the path.
fn realm(head: &Head) -> String {
    const MAX_PATH: usize = 256;
    let said = head
        .headers
        .get("x-forwarded-proto")
        .and_then(|value| value.to_str().ok());
    let (scheme, path) = (said.unwrap_or(head.scheme), head.target.as_str());
    let path = path.get(..MAX_PATH).unwrap_or(path).replace('"', "%22");
    format!("{scheme}://{}{path}", head.authority_text())
}

/// Waits for something, no longer than the request may take; else its answer.
async fn within<F: Future>(arrived: &mut Arrived<'_>, work: F) -> Result<F::Output, Flow> {
    arrived.delayed = true;
    let exchange = Rc::clone(&arrived.exchange);
    exchange.hold(&arrived.body);
    let mut work = pin!(work);
    let done = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => exchange.poll_deadline(cx).map(Err),
    });
    done.await.map_err(|kind| {
        let fault = exchange.overdue(kind, None);
        exchange.note(|record| record.fault(fault));
        Flow::answer(local_reply::of_fault(fault, arrived.audience))
    })
}

impl<'a> Chain<'a> {
    /// The filters that act on a request of a route that says this.
    pub(crate) fn new(filters: &'a HttpFilters, destination: Destination<'a>, head: &Head) -> Self {
        let mut chain = Self { steps: SmallVec::new() };
        chain.extend(0, filters, destination, head);
        chain
    }

    /// Whether none does.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds those from a place in the list on.
    fn extend(&mut self, from: usize, filters: &'a HttpFilters, destination: Destination<'a>, head: &Head) {
        let said = destination.filters(head.random);
        for (place, filter) in filters.list().iter().enumerate().skip(from) {
            let own = said.of(&filter.name);
            if own.map_or(filter.disabled, |own| own.disabled) {
                continue;
            }
            let settings = own.and_then(|own| own.settings.as_deref());
            // Who edits the head may give those behind it something to do.
            let is_final = !self.steps.iter().any(|(_, step)| step.edits_requests());
            let step = self.step(&filter.kind, settings, is_final.then_some(head));
            let mut step = step.unwrap_or(Some(Step::Misfit(&filter.name)));
            if let (Some(Step::Processor(processing)), Destination::Route(route)) = (&mut step, destination) {
                processing.route = &route.name;
            }
            if let (Some(Step::Authorizer(authorizing)), Destination::Route(route)) = (&mut step, destination) {
                authorizing.of_route = &route.metadata;
            }
            // As in Envoy: what the proxy itself answers is nobody's page, and no service counts it.
            let is_for_backends = |step: &Step<'_>| matches!(step, Step::Cors(_) | Step::GlobalRateLimit(_));
            let step = step.filter(|step| destination.is_backend() || !is_for_backends(step));
            self.steps.extend(step.map(|step| (place, step)));
        }
    }

    /// A filter at work beside those that there are.
    fn step(
        &self,
        kind: &'a FilterKind,
        settings: Option<&'a FilterSettings>,
        head: Option<&Head>,
    ) -> Result<Option<Step<'a>>, Misfit> {
        match (kind, settings) {
            (FilterKind::Compressor(compressor), None) => {
                let others = self.steps.iter().find_map(|(_, step)| match step {
                    Step::Compressor(other) => Some(other.negotiation()),
                    _ => None,
                });
                let compressing = Compressing::new(compressor, others.unwrap_or_default());
                Ok(Some(Step::Compressor(compressing)))
            }
            (FilterKind::Compressor(_), Some(FilterSettings::NoCompression)) => Ok(None),
            _ => Step::of(kind, settings, head),
        }
    }

    /// Has it written down what becomes of a request that a filter may tell of.
    fn write_down(&self, destination: Destination<'_>, exchange: &Exchange) {
        let tells = |step: &Step<'_>| matches!(step, Step::CustomResponse(replacing) if replacing.tells_course());
        if self.steps.iter().any(|(_, step)| tells(step)) {
            exchange.write_down(match destination {
                Destination::Route(route) => Some(&route.name),
                _ => None,
            });
        }
    }

    /// Leads a request through, to its destination, and the response back.
    pub(crate) async fn run(
        mut self,
        site: &Site<'a>,
        destination: Destination<'a>,
        mut arrived: Arrived<'a>,
    ) -> Response<ResponseBody> {
        let exchange = Rc::clone(&arrived.exchange);
        let mut destination = destination;
        self.write_down(destination, &exchange);
        let mut answer = None;
        let mut at = 0;
        while let Some((place, step)) = self.steps.get_mut(at) {
            let place = *place;
            at += 1;
            let mut flow = step.request(&mut arrived).await;
            if matches!(flow, Flow::Reroute) {
                let filters = &site.manager.filters;
                let found = site.find(&arrived);
                if passed(filters, place, [destination, found], &arrived.head) {
                    destination = found;
                    self.steps.truncate(at);
                    self.extend(place + 1, filters, destination, &arrived.head);
                    self.write_down(destination, &exchange);
                } else {
                    flow = Flow::refuse(&arrived, StatusCode::FORBIDDEN, "", "route_guarded_otherwise");
                }
            }
            match flow {
                Flow::Continue | Flow::Reroute => {}
                Flow::Answer(mut response) => {
                    site.note_cluster(destination, &arrived);
                    destination.edit_own(&mut response, site.snapshot, &exchange, &arrived.head);
                    answer = Some(*response);
                    break;
                }
                Flow::AnswerItself(response) => {
                    site.note_cluster(destination, &arrived);
                    answer = Some(*response);
                    break;
                }
            }
        }
        exchange.note(|record| record.metadata.append(&mut arrived.metadata.clone()));
        let mut response = match answer {
            Some(answer) => answer,
            None => site.go(destination, arrived).await,
        };
        for (_, step) in self.steps.iter_mut().rev() {
            response = match step {
                Step::CustomResponse(replacing) => {
                    match replacing.response(&exchange, destination, site.snapshot, response) {
                        Replaced::By(response) => response,
                        Replaced::Elsewhere(response, elsewhere) => {
                            Box::pin(ask_elsewhere(site, &exchange, response, *elsewhere)).await
                        }
                    }
                }
                _ => step.response(&exchange, response).await,
            };
        }
        response
    }
}

/// Whether a request that has come up to a place in the list to the first destination has passed what guards the other
/// one up to there, too, by the same settings.
fn passed(filters: &HttpFilters, place: usize, [first, other]: [Destination<'_>; 2], head: &Head) -> bool {
    let [first, other] = [first, other].map(|destination| destination.filters(head.random));
    filters.list().iter().take(place + 1).all(|filter| {
        let wanted = filter.guards(other.of(&filter.name));
        wanted.is_none() || wanted == filter.guards(first.of(&filter.name))
    })
}

/// Makes another request in place of one, if a route takes it; else the response stays.
async fn ask_elsewhere(
    site: &Site<'_>,
    exchange: &Rc<Exchange>,
    response: Response<ResponseBody>,
    elsewhere: Elsewhere,
) -> Response<ResponseBody> {
    let arrived = Arrived {
        exchange: Rc::clone(exchange),
        head: Box::new(elsewhere.head.clone()),
        notes: elsewhere.notes.clone(),
        body: Incoming::Empty,
        audience: elsewhere.audience,
        session: None,
        delayed: true,
        metadata: Metadata::new(),
        asks_for: None,
    };
    let destination = site.find(&arrived);
    if matches!(destination, Destination::Nowhere) {
        return response;
    }
    // Its backend need not go on.
    drop(response);
    let mut chain = Chain::new(&site.manager.filters, destination, &arrived.head);
    chain.steps.retain(|(_, step)| !matches!(step, Step::CustomResponse(_)));
    let response = chain.run(site, destination, arrived).await;
    elsewhere.found(response)
}

/// What a route says isn't for the filter that it is said of.
struct Misfit;

impl<'a> Step<'a> {
    /// What a filter has to do by its own settings and those of the route. `head` is the request, if it stays so until
    /// the filter gets it: what doesn't concern it is no step.
    fn of(
        kind: &'a FilterKind,
        settings: Option<&'a FilterSettings>,
        head: Option<&Head>,
    ) -> Result<Option<Self>, Misfit> {
        use {FilterKind as Kind, FilterSettings as Of};
        Ok(match (kind, settings) {
            (Kind::HealthCheck(check), None) => {
                let is_asked = head.is_none_or(|head| health_check::is_asked(check, head));
                is_asked.then_some(Self::HealthCheck(check))
            }
            (Kind::Cors, Some(Of::Cors(policy))) => {
                let concerns = head.is_none_or(cors::concerns);
                concerns.then(|| Self::Cors(Cors::new(policy)))
            }
            (Kind::GrpcWeb, None) => {
                let concerns = head.is_none_or(|head| Bridge::of(head).is_some());
                concerns.then_some(Self::GrpcWeb(None))
            }
            (Kind::Cors | Kind::Session, None) => None,
            (Kind::Session, Some(Of::Session(policy))) => policy.as_ref().map(Self::Session),
            (Kind::Csrf(check), None) | (Kind::Csrf(_), Some(Of::Csrf(check))) => Some(Self::Csrf(check)),
            (Kind::Authorizer(filter), None) => Authorizing::new(filter, None).map(Self::Authorizer),
            (Kind::Authorizer(filter), Some(Of::Authorizer(said))) => {
                Authorizing::new(filter, Some(said)).map(Self::Authorizer)
            }
            (Kind::BasicAuth(auth), None) => Some(Self::BasicAuth(auth, None)),
            (Kind::BasicAuth(auth), Some(Of::BasicAuth(users))) => Some(Self::BasicAuth(auth, Some(users))),
            (Kind::ApiKeyAuth(auth), None) => Some(Self::ApiKeyAuth(auth, None)),
            (Kind::ApiKeyAuth(auth), Some(Of::ApiKeyAuth(own))) => Some(Self::ApiKeyAuth(auth, Some(own))),
            (Kind::Login(login), None) => Some(Self::Login(Box::new(LoggingIn::new(login)))),
            (Kind::GeoIp(places), None) => Some(Self::GeoIp(places)),
            (Kind::Tokens(tokens), None) => (!tokens.telling.is_empty()).then_some(Self::Tokens(tokens, None)),
            (Kind::Tokens(tokens), Some(Of::Tokens(asked))) => Some(Self::Tokens(tokens, Some(asked))),
            (Kind::Rbac(rules), None) | (Kind::Rbac(_), Some(Of::Rbac(rules))) => rules.as_ref().map(Self::Rbac),
            (Kind::LocalRateLimit(limits), None) | (Kind::LocalRateLimit(_), Some(Of::LocalRateLimit(limits))) => {
                let limits = limits.as_ref();
                limits.map(|limits| Self::LocalRateLimit(Limited::new(limits)))
            }
            (Kind::RateLimitService(_), None) => None,
            (Kind::RateLimitService(service), Some(Of::GlobalRateLimits(limits))) => {
                Some(Self::GlobalRateLimit(Box::new(Counted::new(service, limits))))
            }
            (Kind::Fault(faults), None) | (Kind::Fault(_), Some(Of::Fault(faults))) => Some(Self::Fault(faults)),
            (Kind::Buffer(limit), None) | (Kind::Buffer(_), Some(Of::Buffer(Some(limit)))) => {
                Some(Self::Buffer(*limit))
            }
            (Kind::Buffer(_), Some(Of::Buffer(None))) => None,
            (Kind::Admission(admission), None) => admission
                .as_ref()
                .map(|admission| Self::Admission(Admitting::new(admission))),
            (Kind::CustomResponses(responses), None)
            | (Kind::CustomResponses(_), Some(Of::CustomResponses(responses))) => {
                let responses = responses.as_ref();
                responses.map(|responses| Self::CustomResponse(Replacing::new(responses)))
            }
            (Kind::Bandwidth(limit), None) | (Kind::Bandwidth(_), Some(Of::Bandwidth(limit))) => {
                let limit = limit.as_ref();
                limit.map(|limit| Self::Bandwidth(Slowing::new(limit)))
            }
            (Kind::Processor(processor), None) => {
                Some(Self::Processor(Box::new(Processing::new(Arc::clone(processor)))))
            }
            (Kind::Processor(processor), Some(Of::Processor(said))) => {
                let said = said.as_ref().map(|said| Arc::new(said.of(processor)));
                said.map(|processor| Self::Processor(Box::new(Processing::new(processor))))
            }
            (Kind::Names, None) => Some(Self::Names(None)),
            (Kind::Names, Some(Of::Names(other))) => {
                Some(Self::Names(other.as_ref().map(|NamedOtherwise(rewrite)| rewrite)))
            }
            (Kind::CredentialInjector(injector), None) => Some(Self::CredentialInjector(injector)),
            (Kind::HeaderMutation(edits), None) => Some(Self::HeaderMutation(edits)),
            _ => return Err(Misfit),
        })
    }

    /// Whether filters behind it may see another head.
    fn edits_requests(&self) -> bool {
        matches!(
            self,
            Self::Authorizer(_)
                | Self::BasicAuth(..)
                | Self::ApiKeyAuth(..)
                | Self::GrpcWeb(_)
                | Self::HeaderMutation(_)
                | Self::Login(_)
                | Self::GeoIp(_)
                | Self::Tokens(..)
                | Self::LocalRateLimit(_)
                | Self::GlobalRateLimit(_)
                | Self::CredentialInjector(_)
                | Self::Processor(_)
                | Self::Names(Some(_))
        )
    }

    /// The request has come so far.
    async fn request(&mut self, arrived: &mut Arrived<'a>) -> Flow {
        match self {
            Self::HealthCheck(check) => return health_check::request(check, arrived),
            Self::Cors(cors) => return cors.request(arrived),
            Self::GrpcWeb(bridge) => {
                *bridge = Bridge::of(&arrived.head);
                if let Some(bridge) = bridge {
                    bridge.translate(arrived);
                }
            }
            Self::Session(policy) => arrived.session = Session::of(policy, &arrived.head),
            Self::Csrf(check) => return csrf::request(check, arrived),
            Self::Authorizer(authorizing) => return authorizing.request(arrived).await,
            Self::BasicAuth(auth, users) => return basic_auth::request(auth, *users, arrived),
            Self::ApiKeyAuth(auth, own) => return api_key::request(auth, *own, arrived),
            Self::Login(logging_in) => return logging_in.request(arrived).await,
            Self::GeoIp(places) => geoip::request(places, arrived),
            Self::Tokens(tokens, asked) => return jwt::request(tokens, *asked, arrived).await,
            Self::Rbac(rules) => return rbac::request(rules, arrived),
            Self::LocalRateLimit(limited) => return limited.request(arrived),
            Self::GlobalRateLimit(counted) => return counted.request(arrived).await,
            Self::CredentialInjector(injector) => return credential_injector::request(injector, arrived),
            Self::Fault(faults) => return fault::request(faults, arrived).await,
            Self::Buffer(limit) => return buffer::request(*limit, arrived).await,
            Self::Compressor(compressing) => compressing.request(arrived),
            Self::Admission(admitting) => return admitting.request(arrived),
            Self::Bandwidth(slowing) => slowing.request(arrived),
            Self::CustomResponse(replacing) => replacing.request(arrived),
            Self::Processor(processing) => return Box::pin(processing.request(arrived)).await,
            Self::HeaderMutation(edits) => {
                let connection = Rc::clone(&arrived.exchange.connection);
                edits::edit_request(&mut arrived.head, &edits.request, Scene::of(&connection));
            }
            Self::Names(rewrite) => {
                // As in Envoy the filter puts the other host into the request: the router finds what was resolved.
                let head = &mut arrived.head;
                if let Some(other) = rewrite.and_then(|rewrite| rewrite::host(rewrite, head, "")) {
                    head.authority = other;
                }
                arrived.asks_for = Some(head.authority.clone());
            }
            Self::Misfit(name) => {
                let worker = &arrived.exchange.connection.worker;
                if worker.told.is_news(format!("misfit {name}"), worker.clock.recent()) {
                    tracing::error!(filter = *name, "a route's settings aren't for this filter");
                }
                return Flow::refuse(arrived, StatusCode::INTERNAL_SERVER_ERROR, "", "filter_misfit");
            }
        }
        Flow::Continue
    }

    /// The response has come so far.
    async fn response(
        &mut self,
        exchange: &Rc<Exchange>,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        match self {
            Self::Cors(cors) => cors.response(response.headers_mut()),
            Self::GrpcWeb(Some(bridge)) => response = bridge.answer(exchange, response).await,
            Self::Authorizer(authorizing) => authorizing.response(response.headers_mut()),
            Self::Login(logging_in) => logging_in.response(response.headers_mut()),
            Self::LocalRateLimit(limited) => limited.response(response.headers_mut()),
            Self::GlobalRateLimit(counted) => response = counted.response(response),
            Self::Compressor(compressing) => response = compressing.response(exchange, response),
            Self::Admission(admitting) => response = admitting.response(exchange, response),
            Self::Bandwidth(slowing) => response = slowing.response(exchange, response),
            Self::Processor(processing) => response = Box::pin(processing.response(exchange, response)).await,
            Self::HeaderMutation(edits) => {
                let scene = Scene::of(&exchange.connection);
                edits::edit_response(response.headers_mut(), &edits.response, scene, &Head::empty());
            }
            _ => {}
        }
        response
    }
}
