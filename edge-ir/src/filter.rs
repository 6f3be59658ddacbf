//! HTTP filters as data: what stands on a manager's chain, and what a route makes of it.
//!
//! A chain carries an instance once, neutral by itself; a route that uses it names the instance and brings what it
//! shall do for its requests. So routes of one listener may differ in everything about a filter but its place. Filters
//! for calls need no word of a route: they stand where a listener has a GRPCRoute, and see by themselves what a call
//! is. Those of a listener's own are for all that it serves.

use crate::{
    AccessRules, ApiKeyAuth, BasicAuth, Cors, ExternalAuth, ExternalProcessor, GeoLookup, HeaderMutation, HostRewrite,
    Login, LuaScript, NamedHosts, NativeFilter, SecretBytes, SecretName, SiteCheck, Timeout, Tokens, WasmFilter,
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

mod fault;
mod rate_limit;
mod response;
mod shaping;

pub use fault::{AbortStatus, Fault, FaultAbort, FaultDelay};
pub use rate_limit::{
    GlobalRateLimit, GlobalRateLimitRule, Hits, LimitHeaders, LocalRateLimit, RateLimit, RateLimitEntry, RateLimitRule,
    RateLimitService, RateLimitUnit, Unanswered,
};
pub use response::{
    CodeRange, Elsewhere, Instead, OtherResponse, ResponseOverride, ResponseSource, TextMatch, TextMatcher,
};
pub use shaping::{AdmissionControl, Bandwidth, Compressor, Direction, Encoding};

/// Declares the kinds of filters, the list of them and their words in one.
macro_rules! kinds {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $kind:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $kind,)+
        }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The kind as a word; the name of an instance begins with it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                }
            }
        }
    };
}

kinds! {
    /// Kinds of filters, in the order in which a request meets them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FilterKind {
        /// Gives other responses in place of some.
        CustomResponse = "custom_response",
        /// Answers probes of the proxy itself.
        HealthCheck = "health_check",
        /// Failures on purpose.
        Fault = "fault",
        /// Refuses requests while too many fail.
        AdmissionControl = "admission_control",
        /// Cross-origin rules.
        Cors = "cors",
        /// Looks where requests that change something come from.
        Csrf = "csrf",
        /// Edits responses, just before they go to the client.
        HeaderMutation = "header_mutation",
        /// Asks another service.
        ExtAuthz = "ext_authz",
        /// Asks for a key.
        ApiKeyAuth = "api_key_auth",
        /// Asks for a user and a password.
        BasicAuth = "basic_auth",
        /// Asks clients to log in.
        Oauth2 = "oauth2",
        /// Asks for a token.
        JwtAuthn = "jwt_authn",
        /// Leads a client back to the endpoint that answered it.
        StatefulSession = "stateful_session",
        /// Reads requests whole before they go on.
        Buffer = "buffer",
        /// Runs a script.
        Lua = "lua",
        /// Lets a service see requests and change them.
        ExtProc = "ext_proc",
        /// Runs a filter of a Wasm module.
        Wasm = "wasm",
        /// Runs a filter of a native module.
        DynamicModules = "dynamic_modules",
        /// Looks up where clients are.
        Geoip = "geoip",
        /// Lets those through that rules allow.
        Rbac = "rbac",
        /// Requests in a time, as each proxy counts them.
        LocalRateLimit = "local_ratelimit",
        /// Requests in a time, as a service counts them for all proxies.
        RateLimit = "ratelimit",
        /// Bytes in a time.
        BandwidthLimit = "bandwidth_limit",
        /// Makes gRPC calls of gRPC-Web requests, and the other way round of the answers.
        GrpcWeb = "grpc_web",
        /// Counts gRPC calls by their own status.
        GrpcStats = "grpc_stats",
        /// Puts a credential into a header of the request.
        CredentialInjector = "credential_injector",
        /// Compresses responses.
        Compressor = "compressor",
        /// Resolves the host of a request for clusters without endpoints of their own.
        DynamicForwardProxy = "dynamic_forward_proxy",
    }
}

impl FilterKind {
    /// Whether requests that must be refused may get through where an instance is missing: what decides by the request
    /// and its client whether it goes on, the filters of SecurityPolicies and of EdgeExtensionPolicies, and what
    /// tells them where a client is. What limits how
    /// much gets through refuses nobody for what he is, browsers enforce the rules of other origins themselves, and
    /// without a credential or a resolved host no backend is reached.
    pub const fn is_guard(self) -> bool {
        match self {
            Self::Csrf
            | Self::ExtAuthz
            | Self::ApiKeyAuth
            | Self::BasicAuth
            | Self::Oauth2
            | Self::JwtAuthn
            | Self::Lua
            | Self::ExtProc
            | Self::Wasm
            | Self::DynamicModules
            | Self::Geoip
            | Self::Rbac => true,
            Self::CustomResponse
            | Self::HealthCheck
            | Self::Fault
            | Self::AdmissionControl
            | Self::Cors
            | Self::HeaderMutation
            | Self::StatefulSession
            | Self::Buffer
            | Self::LocalRateLimit
            | Self::RateLimit
            | Self::BandwidthLimit
            | Self::GrpcWeb
            | Self::GrpcStats
            | Self::CredentialInjector
            | Self::Compressor
            | Self::DynamicForwardProxy => false,
        }
    }
}

/// The identity of an instance: its kind and, where several of a kind stand on a chain, whose it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterId {
    /// The kind.
    pub kind: FilterKind,
    /// Whose it is, as `<kind>/<namespace>/<name>`, or a name of what it is set to; empty for the one that all routes
    /// share.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub owner: Arc<str>,
}

impl FilterId {
    /// The one instance of a kind that all routes share.
    pub fn shared(kind: FilterKind) -> Self {
        Self {
            kind,
            owner: Arc::default(),
        }
    }
}

impl fmt::Display for FilterId {
    /// The name of the instance on a chain and on routes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        if self.owner.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.owner)
    }
}

/// An instance on a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterInstance {
    /// Which one.
    #[serde(flatten)]
    pub id: FilterId,
    /// What it does for the routes that use it.
    #[serde(default, skip_serializing_if = "FilterSettings::are_of_routes")]
    pub settings: FilterSettings,
}

/// What an instance does for the routes that use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterSettings {
    /// What each route says; for others nothing.
    #[default]
    OfRoutes,
    /// Looks up where clients are, for rules over that.
    Places(Arc<GeoLookup>),
    /// Tells the backend the name of the user in a header of this name, for the routes that say which users there are.
    UserHeader(Arc<str>),
    /// Asks a service, for the routes that switch it on.
    ExternalAuth(Arc<ExternalAuth>),
    /// Lets a service see requests, for the routes that switch it on.
    Processor(Arc<ExternalProcessor>),
    /// Runs a script, for the routes that switch it on.
    Script(Arc<LuaScript>),
    /// Runs a filter of a Wasm module, for the routes that switch it on.
    Wasm(Arc<WasmFilter>),
    /// Runs a filter of a native module, for the routes that switch it on.
    Native(Arc<NativeFilter>),
    /// What routes ask of tokens, each by its name.
    Tokens(Arc<Tokens>),
    /// Asks clients to log in, for the routes that switch it on.
    Login(Arc<Login>),
    /// Puts a credential into a header, for the routes that switch it on.
    Credential(InjectedCredential),
    /// Refuses requests while too many fail, for the routes that switch it on.
    Admission(Arc<AdmissionControl>),
    /// Compresses responses, for the routes that switch it on.
    Compressor(Compressor),
    /// Limits the requests of the routes that switch it on, all together.
    RateLimit(Arc<LocalRateLimit>),
    /// Asks a service how many requests are let through.
    RateLimitService(Arc<RateLimitService>),
    /// Answers requests for this path with 200, whatever routes say.
    Probe(Arc<str>),
    /// Resolves the hosts that requests name, where their backend is who has that name.
    Names(NamedHosts),
    /// Edits all responses, in this order.
    Responses(Vec<HeaderMutation>),
}

impl FilterSettings {
    /// Takes in what the same instance does for other routes. Settings of a name are the same but for what each route
    /// names of them.
    pub fn join(&mut self, other: &Self) {
        if let (Self::Tokens(own), Self::Tokens(other)) = (self, other) {
            Arc::make_mut(own).join(other);
        }
    }

    fn are_of_routes(&self) -> bool {
        *self == Self::OfRoutes
    }
}

/// A credential that the proxy adds to requests. A request is refused as long as the proxy doesn't have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectedCredential {
    /// The header.
    pub header: Arc<str>,
    /// What becomes of a header that the client sent.
    pub existing: ExistingHeader,
    /// The credential, a [`SecretContent::Generic`](crate::SecretContent).
    pub secret: SecretName,
}

/// What becomes of a header that the client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExistingHeader {
    /// It stays, and nothing is added.
    Kept,
    /// It is replaced.
    Replaced,
}

/// What a route makes of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFilter {
    /// The instance.
    pub id: FilterId,
    /// What it does for the route.
    pub effect: FilterEffect,
}

/// What a filter does for a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterEffect {
    /// Which requests fail on purpose.
    Fault(Arc<Fault>),
    /// Which responses are given others in place.
    Override(Arc<[ResponseOverride]>),
    /// Requests are read whole, of up to this many bytes.
    Buffer(u32),
    /// How many of its requests are let through.
    RateLimit(Arc<LocalRateLimit>),
    /// How many are let through at all proxies together.
    GlobalRateLimit(Arc<GlobalRateLimit>),
    /// How many bytes pass.
    Bandwidth(Arc<Bandwidth>),
    /// Which other origins browsers may let their scripts call the route from.
    Cors(Arc<Cors>),
    /// Where requests may come from.
    SiteCheck(Arc<SiteCheck>),
    /// Another service decides, which is told these attributes.
    ExternalAuth(Arc<[(Arc<str>, SecretBytes)]>),
    /// The name of what is asked of tokens.
    Token(Arc<str>),
    /// Keys that requests carry.
    ApiKeyAuth(Arc<ApiKeyAuth>),
    /// Users that send requests.
    BasicAuth(Arc<BasicAuth>),
    /// How a client is led back to its endpoint.
    Session(Arc<Session>),
    /// Who may send what.
    Access(Arc<AccessRules>),
    /// The instance does what it is set to.
    On,
    /// Resolves what the host becomes, not what the request says.
    Resolve(HostRewrite),
}

impl FilterEffect {
    /// The address of what somebody else has too; none while nobody does. Routes under policies that say the same have one
    /// of it.
    pub fn shared(&self) -> Option<usize> {
        fn address<T: ?Sized>(shared: &Arc<T>) -> Option<usize> {
            (Arc::strong_count(shared) > 1).then(|| Arc::as_ptr(shared).addr())
        }
        match self {
            Self::Fault(fault) => address(fault),
            Self::Override(overrides) => address(overrides),
            Self::RateLimit(limits) => address(limits),
            Self::GlobalRateLimit(limits) => address(limits),
            Self::Bandwidth(limit) => address(limit),
            Self::Cors(cors) => address(cors),
            Self::SiteCheck(check) => address(check),
            Self::ExternalAuth(attributes) => address(attributes),
            Self::Token(name) => address(name),
            Self::ApiKeyAuth(auth) => address(auth),
            Self::BasicAuth(auth) => address(auth),
            Self::Session(session) => address(session),
            Self::Access(rules) => address(rules),
            Self::Buffer(_) | Self::On | Self::Resolve(_) => None,
        }
    }
}

/// Where a client keeps the endpoint that answered it. The proxy writes it there, and reads it from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Session {
    /// In a cookie.
    Cookie(SessionCookie),
    /// In a header of this name, lower case.
    Header(Arc<str>),
}

/// A cookie that holds a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCookie {
    /// Its name.
    pub name: Arc<str>,
    /// Paths that it is for.
    pub path: Arc<str>,
    /// How long it is kept; for as long as a browser runs by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Timeout>,
}

/// The filters of a route, sorted by id.
pub type RouteFilters = Arc<[RouteFilter]>;
