//! HTTP filters: what stands on the chain of a connection manager, and what routes say of it.
//!
//! [`HttpFilters`] are the entries of a manager in their order; [`RouteFilters`] is what the levels around a
//! route (weighted cluster, route, virtual host, route configuration) say of entries by their names, merged ahead of
//! time. Which entries act on a request follows from both: `filters::Chain`. Settings are made by [`crate::compile`],
//! one file a filter here as there.
//! Why by name: a route table may serve several managers, and a manager gets its table at any time (Envoy's
//! `typed_per_filter_config`).

pub mod admission_control;
pub mod api_key;
pub mod bandwidth_limit;
pub mod basic_auth;
pub mod compressor;
pub mod cors;
pub mod credential_injector;
pub mod csrf;
pub mod custom_response;
pub mod ext_authz;
pub mod ext_proc;
pub mod fault;
pub mod geoip;
pub mod global_rate_limit;
pub mod jwt;
pub mod local_rate_limit;
pub mod oauth2;
pub mod rate_limit_descriptor;
pub mod session;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::config::ClusterId;
use crate::config::access::AccessRules;
use crate::config::dynamic_forward_proxy::NamedOtherwise;
use crate::config::header::{HeaderCondition, HeaderSteps};
use admission_control::Admission;
use api_key::ApiKeyAuth;
use bandwidth_limit::Bandwidth;
use basic_auth::{BasicAuth, Users};
use compressor::Compressor;
use cors::CorsPolicy;
use credential_injector::Injector;
use csrf::SiteCheck;
use custom_response::CustomResponses;
use ext_authz::{Authorizer, AuthorizerOfRoute};
use ext_proc::{Processor, ProcessorOfRoute};
use fault::Faults;
use geoip::GeoIp;
use global_rate_limit::{GlobalRateLimits, RateLimitService};
use jwt::{RemoteKeys, RouteRequirement, Tokens};
use local_rate_limit::RateLimits;
use oauth2::Login;
use session::SessionPolicy;

/// The filters of a manager before its router.
#[derive(Debug, Default)]
pub struct HttpFilters {
    list: Vec<HttpFilter>,
    acts_alone: bool,
}

impl HttpFilters {
    /// Filters in their order.
    pub fn new(list: Vec<HttpFilter>) -> Self {
        let acts_alone = list.iter().any(HttpFilter::acts_alone);
        Self { list, acts_alone }
    }

    /// All of them.
    pub fn list(&self) -> &[HttpFilter] {
        &self.list
    }

    /// The clusters that they ask.
    pub fn clusters(&self) -> Vec<ClusterId> {
        let filters = self.list.iter().flat_map(|filter| match &filter.kind {
            FilterKind::Authorizer(authorizer) => vec![authorizer.cluster],
            FilterKind::RateLimitService(service) => vec![service.cluster],
            FilterKind::Processor(processor) => vec![processor.service.cluster],
            FilterKind::Tokens(tokens) => tokens.remote().map(|keys| keys.cluster).collect(),
            FilterKind::Login(login) => vec![login.tokens.cluster],
            _ => Vec::new(),
        });
        filters.collect()
    }

    /// The keys that servers have.
    pub fn remote_keys(&self) -> impl Iterator<Item = &Arc<RemoteKeys>> {
        let tokens = self.list.iter().filter_map(|filter| match &filter.kind {
            FilterKind::Tokens(tokens) => Some(tokens),
            _ => None,
        });
        tokens.flat_map(Tokens::remote)
    }

    /// Whether one of them does something for a route that says nothing. Most chains hold only what routes switch on.
    pub fn acts_alone(&self) -> bool {
        self.acts_alone
    }
}

/// An entry of a chain.
#[derive(Debug)]
pub struct HttpFilter {
    /// Its name, by which routes speak of it.
    pub name: Arc<str>,
    /// What it does.
    pub kind: FilterKind,
    /// It doesn't act where nothing is said of it.
    pub disabled: bool,
}

impl HttpFilter {
    /// A filter that is switched on.
    pub fn on(name: &str, kind: FilterKind) -> Self {
        Self {
            name: name.into(),
            kind,
            disabled: false,
        }
    }

    /// By which settings it guards a route that says this of it; none where it lets every request of that pass, and for
    /// filters that aren't there to refuse anybody for who they are or what they ask for. What tells rules where
    /// clients are counts as one that is.
    pub fn guards(&self, said: Option<&RouteFilter>) -> Option<Mark> {
        use FilterKind as Kind;
        if said.map_or(self.disabled, |said| said.disabled) {
            return None;
        }
        let is_guard = match (&self.kind, said.and_then(|said| said.settings.as_deref())) {
            (
                _,
                Some(
                    FilterSettings::Rbac(None)
                    | FilterSettings::Processor(None)
                    | FilterSettings::Tokens(RouteRequirement::Nothing)
                    | FilterSettings::Authorizer(AuthorizerOfRoute::Off),
                ),
            ) => false,
            (Kind::Tokens(_) | Kind::Rbac(None), None) => false,
            (kind, _) => matches!(
                kind,
                Kind::Csrf(_)
                    | Kind::Authorizer(_)
                    | Kind::BasicAuth(_)
                    | Kind::ApiKeyAuth(_)
                    | Kind::GeoIp(_)
                    | Kind::Login(_)
                    | Kind::Tokens(_)
                    | Kind::Rbac(_)
                    | Kind::Processor(_)
                    | Kind::Unknown
            ),
        };
        is_guard.then(|| said.map(|said| said.mark).unwrap_or_default())
    }

    /// Whether it does something for a route that says nothing of it.
    fn acts_alone(&self) -> bool {
        !self.disabled
            && match &self.kind {
                FilterKind::Cors
                | FilterKind::Session
                | FilterKind::RateLimitService(_)
                | FilterKind::Rbac(None)
                | FilterKind::LocalRateLimit(None)
                | FilterKind::Admission(None)
                | FilterKind::Bandwidth(None)
                | FilterKind::CustomResponses(None) => false,
                FilterKind::Tokens(tokens) => !tokens.telling.is_empty(),
                FilterKind::Fault(faults) => faults.delay.is_some() || faults.abort.is_some(),
                FilterKind::HeaderMutation(edits) => !edits.request.is_empty() || !edits.response.is_empty(),
                _ => true,
            }
    }
}

/// What a filter does where a route says no more than that it is on.
#[derive(Debug)]
pub enum FilterKind {
    /// Answers health checks itself.
    HealthCheck(HealthCheckFilter),
    /// Nothing: a [`CorsPolicy`] is a route's.
    Cors,
    /// Makes gRPC calls of gRPC-Web requests, and the other way round of the answers.
    GrpcWeb,
    /// Nothing: a [`SessionPolicy`] is a route's.
    Session,
    /// Refuses requests that another site has forged.
    Csrf(SiteCheck),
    /// Lets requests through that a service lets through.
    Authorizer(Authorizer),
    /// Lets users through who know their password.
    BasicAuth(BasicAuth),
    /// Lets clients through that have a key.
    ApiKeyAuth(ApiKeyAuth),
    /// Tells where clients are.
    GeoIp(GeoIp),
    /// Leads clients to an identity provider, and lets those through who have logged in.
    Login(Box<Login>),
    /// Lets requests through by the tokens that routes ask for.
    Tokens(Tokens),
    /// Lets requests through by rules, if there are any.
    Rbac(Option<AccessRules>),
    /// Limits requests in a time, if it says how many.
    LocalRateLimit(Option<RateLimits>),
    /// Asks a service about what routes count.
    RateLimitService(RateLimitService),
    /// Fails on purpose.
    Fault(Faults),
    /// Reads requests whole, up to so many bytes.
    Buffer(usize),
    /// Puts a credential into requests.
    CredentialInjector(Injector),
    /// Edits headers.
    HeaderMutation(HeaderMutations),
    /// Compresses responses.
    Compressor(Compressor),
    /// Refuses requests while too few succeed.
    Admission(Option<Arc<Admission>>),
    /// Replaces responses, if it says which.
    CustomResponses(Option<CustomResponses>),
    /// Slows content, if it says how far.
    Bandwidth(Option<Bandwidth>),
    /// Lets a service see and change requests and responses. Shared with what outlives the filter: bodies.
    Processor(Arc<Processor>),
    /// Lets clusters resolve the hosts that requests ask for.
    Names,
    /// Nothing that this proxy can do. It is off, and a request of a route that switches it on all the same is refused.
    Unknown,
}

/// Envoy's health check filter without pass-through: requests that meet all conditions are answered 200, or 503 after
/// `/healthcheck/fail` and while draining.
#[derive(Debug)]
pub struct HealthCheckFilter {
    /// All must hold (`:path` conditions see the path without normalisation).
    pub conditions: Vec<HeaderCondition>,
}

/// Edits of headers on the way there and back.
#[derive(Debug)]
pub struct HeaderMutations {
    /// Of requests.
    pub request: HeaderSteps,
    /// Of responses.
    pub response: HeaderSteps,
}

/// What a route says of filters; nothing costs nothing.
#[derive(Clone, Debug, Default)]
pub struct RouteFilters(Option<Arc<[RouteFilter]>>);

impl RouteFilters {
    /// Nothing is said.
    pub const NONE: Self = Self(None);

    /// What one level says.
    pub fn new(said: Vec<RouteFilter>) -> Self {
        Self((!said.is_empty()).then(|| said.into()))
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What is said of a filter.
    pub fn of(&self, name: &str) -> Option<&RouteFilter> {
        self.0.as_ref()?.iter().find(|filter| &*filter.name == name)
    }

    /// The clusters that they ask, where others than those of the chain.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let said = self.0.iter().flat_map(|said| said.iter());
        said.filter_map(|filter| match filter.settings.as_deref() {
            Some(FilterSettings::Processor(Some(said))) => Some(said.service.as_ref()?.cluster),
            _ => None,
        })
    }

    /// This level over a wider one: of each filter the narrower switch and the narrower settings count.
    pub fn over(self, wider: &Self) -> Self {
        let (Some(own), Some(others)) = (&self.0, &wider.0) else {
            return if self.is_empty() { wider.clone() } else { self };
        };
        let mut said: Vec<_> = own
            .iter()
            .map(|own| {
                wider
                    .of(&own.name)
                    .map_or_else(|| own.clone(), |wider| narrowed(own, wider))
            })
            .collect();
        said.extend(others.iter().filter(|other| self.of(&other.name).is_none()).cloned());
        Self::new(said)
    }
}

/// Of settings those of the narrower level count, or both where they are made to.
fn narrowed(own: &RouteFilter, wider: &RouteFilter) -> RouteFilter {
    use FilterSettings::Processor;
    let (settings, mark) = match (own.settings.as_deref(), wider.settings.as_deref()) {
        (Some(Processor(Some(of_own))), Some(Processor(Some(of_wider)))) => {
            let both = Arc::new(Processor(Some(Box::new(of_own.over(of_wider)))));
            (Some(both), own.mark.with(wider.mark))
        }
        (Some(_), _) => (own.settings.clone(), own.mark),
        (None, _) => (wider.settings.clone(), wider.mark),
    };
    RouteFilter {
        settings,
        mark,
        ..own.clone()
    }
}

/// What is said of one filter.
#[derive(Clone, Debug)]
pub struct RouteFilter {
    /// Which.
    pub name: Arc<str>,
    /// It is switched off; else it is switched on.
    pub disabled: bool,
    /// Settings in place of those of the chain.
    pub settings: Option<Arc<FilterSettings>>,
    /// By which they are told from others.
    pub mark: Mark,
}

/// Tells settings apart, whichever routes they are said of: those that are written alike have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark([u8; 32]);

impl Mark {
    /// Of settings as they are written.
    pub fn of(written: &[u8]) -> Self {
        Self(Sha256::digest(written).into())
    }

    /// Of settings that two levels make together.
    fn with(self, wider: Self) -> Self {
        Self::of(&[self.0, wider.0].concat())
    }
}

/// Settings of a filter for a route.
#[derive(Debug)]
pub enum FilterSettings {
    /// Rules for requests of other origins.
    Cors(CorsPolicy),
    /// How sessions are kept; `None` is not at all.
    Session(Option<SessionPolicy>),
    /// Where requests may come from.
    Csrf(SiteCheck),
    /// What the service is told, if it is asked.
    Authorizer(AuthorizerOfRoute),
    /// Who is let through.
    BasicAuth(Users),
    /// Who is let through.
    ApiKeyAuth(ApiKeyAuth),
    /// The tokens that it asks for.
    Tokens(RouteRequirement),
    /// The rules; `None` lets everybody through.
    Rbac(Option<AccessRules>),
    /// How many requests in a time.
    LocalRateLimit(Option<RateLimits>),
    /// What a service counts.
    GlobalRateLimits(GlobalRateLimits),
    /// What fails.
    Fault(Faults),
    /// How much is read; `None` is nothing.
    Buffer(Option<usize>),
    /// Responses aren't compressed.
    NoCompression,
    /// How fast content passes.
    Bandwidth(Option<Bandwidth>),
    /// What takes the place of responses.
    CustomResponses(Option<CustomResponses>),
    /// Which service sees requests and responses, and what of them; `None` is none.
    Processor(Option<Box<ProcessorOfRoute>>),
    /// What is resolved, where that isn't the host of the request.
    Names(Option<NamedOtherwise>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, disabled: bool, sessions: bool) -> RouteFilter {
        let settings = sessions.then(|| Arc::new(FilterSettings::Session(None)));
        RouteFilter {
            name: name.into(),
            disabled,
            settings,
            mark: Mark::of(name.as_bytes()),
        }
    }

    #[test]
    fn the_narrower_level_counts() {
        let wide = RouteFilters::new(vec![said("a", true, true), said("b", false, true)]);
        let merged = RouteFilters::new(vec![said("a", false, false)]).over(&wide);
        let a = merged.of("a").expect("a");
        // On again, with the settings that the wider level has brought.
        assert!(!a.disabled && a.settings.is_some());
        assert_eq!(a.mark, Mark::of(b"a"));
        assert!(merged.of("b").is_some() && merged.of("c").is_none());
        assert!(RouteFilters::default().over(&wide).of("a").is_some_and(|a| a.disabled));
        assert!(RouteFilters::default().over(&RouteFilters::default()).is_empty());
    }
}
