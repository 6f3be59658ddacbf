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
        /// Gives other responses in place of some (BackendTrafficPolicy `responseOverride`).
        CustomResponse = "custom_response",
        /// Answers probes of the proxy itself with 200 (ClientTrafficPolicy `healthCheck`).
        HealthCheck = "health_check",
        /// Delays requests or fails them on purpose (BackendTrafficPolicy `faultInjection`).
        Fault = "fault",
        /// Refuses a share of requests with 503 while too many fail (BackendTrafficPolicy `admissionControl`).
        AdmissionControl = "admission_control",
        /// Answers preflight requests and says which other origins may read responses (`cors` of a SecurityPolicy or an
        /// HTTPRoute).
        Cors = "cors",
        /// Refuses requests that change something and come from another site with 403 (SecurityPolicy `csrf`).
        Csrf = "csrf",
        /// Edits the headers of responses, just before they go to the client (ClientTrafficPolicy
        /// `headers.lateResponseHeaders`).
        HeaderMutation = "header_mutation",
        /// Asks a service whether a request goes on; where it doesn't decide, the request is refused unless the policy
        /// fails open (SecurityPolicy `extAuth`).
        ExtAuthz = "ext_authz",
        /// Refuses requests without a known key with 401 (SecurityPolicy `apiKeyAuth`).
        ApiKeyAuth = "api_key_auth",
        /// Refuses requests without a known user and its password with 401 (SecurityPolicy `basicAuth`).
        BasicAuth = "basic_auth",
        /// Sends clients without a session to an identity provider to log in (SecurityPolicy `oidc`).
        Oauth2 = "oauth2",
        /// Refuses requests without a valid JSON Web Token with 401 (SecurityPolicy `jwt`).
        JwtAuthn = "jwt_authn",
        /// Leads a client back to the endpoint that answered it (`sessionPersistence` of a rule).
        StatefulSession = "stateful_session",
        /// Reads requests whole before they go on; too large ones are refused with 413 (BackendTrafficPolicy
        /// `requestBuffer`).
        Buffer = "buffer",
        /// Runs a Lua script over requests and responses (EdgeExtensionPolicy `lua`).
        Lua = "lua",
        /// Lets a service see requests and responses and change them; where it fails, the request is refused unless the
        /// policy fails open (EdgeExtensionPolicy `extProc`).
        ExtProc = "ext_proc",
        /// Runs a filter of a Wasm module (EdgeExtensionPolicy `wasm`).
        Wasm = "wasm",
        /// Runs a filter of a native module (EdgeExtensionPolicy `dynamicModule`).
        DynamicModules = "dynamic_modules",
        /// Looks up where clients are, for the rules of [`Rbac`](Self::Rbac) (EdgeProxy `geoIP`).
        Geoip = "geoip",
        /// Refuses requests that the rules don't allow with 403 (SecurityPolicy `authorization`).
        Rbac = "rbac",
        /// Refuses requests above a limit with 429, as each proxy counts them (BackendTrafficPolicy `rateLimit.local`).
        LocalRateLimit = "local_ratelimit",
        /// Refuses requests above a limit with 429, as a service counts them for all proxies (BackendTrafficPolicy
        /// `rateLimit.global`).
        RateLimit = "ratelimit",
        /// Slows bodies down to so many bytes a second (BackendTrafficPolicy `bandwidthLimit`).
        BandwidthLimit = "bandwidth_limit",
        /// Makes gRPC calls of gRPC-Web requests and back again of the answers, on listeners with a GRPCRoute.
        GrpcWeb = "grpc_web",
        /// Counts gRPC calls by their own status, on listeners with a GRPCRoute.
        GrpcStats = "grpc_stats",
        /// Puts a credential into a header of the request; a request is refused while the proxy doesn't have it
        /// (HTTPRouteFilter `credentialInjection`).
        CredentialInjector = "credential_injector",
        /// Compresses responses for clients that accept it (BackendTrafficPolicy `compression`, `compressor`).
        Compressor = "compressor",
        /// Resolves the host that a request names, for clusters without endpoints of their own (Backend of type
        /// `DynamicResolver`).
        DynamicForwardProxy = "dynamic_forward_proxy",
    }
}

impl FilterKind {
    /// Whether requests that must be refused may get through where an instance is missing: what decides by the request
    /// and its client whether it goes on, the filters of SecurityPolicies and of EdgeExtensionPolicies, and what
    /// tells them where a client is. What limits how
    /// much gets through refuses nobody for who they are, browsers enforce the rules of other origins themselves, and
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
    /// Nothing of its own: each route says what is done for it, in its [`FilterEffect`].
    #[default]
    OfRoutes,
    /// Geoip: looks up where clients are, for rules over that.
    Places(Arc<GeoLookup>),
    /// Basic auth: tells the backend the name of the user in a header of this name. Routes say which users there are.
    UserHeader(Arc<str>),
    /// External authorization: asks this service, for the routes that switch it on.
    ExternalAuth(Arc<ExternalAuth>),
    /// External processing: lets this service see requests, for the routes that switch it on.
    Processor(Arc<ExternalProcessor>),
    /// Lua: runs this script, for the routes that switch it on.
    Script(Arc<LuaScript>),
    /// Wasm: runs a filter of this module, for the routes that switch it on.
    Wasm(Arc<WasmFilter>),
    /// Dynamic modules: runs a filter of this native module, for the routes that switch it on.
    Native(Arc<NativeFilter>),
    /// JWT authentication: which tokens can be asked for, by the names that routes ask by.
    Tokens(Arc<Tokens>),
    /// OAuth2: asks clients to log in, for the routes that switch it on.
    Login(Arc<Login>),
    /// Credential injection: puts this credential into a header, for the routes that switch it on.
    Credential(InjectedCredential),
    /// Admission control: refuses requests while too many fail, for the routes that switch it on.
    Admission(Arc<AdmissionControl>),
    /// Compression: compresses responses so, for the routes that switch it on.
    Compressor(Compressor),
    /// Local rate limit: limits the requests of the routes that switch it on, all together.
    RateLimit(Arc<LocalRateLimit>),
    /// Global rate limit: asks this service how many requests are let through, for the routes that have limits.
    RateLimitService(Arc<RateLimitService>),
    /// Health check: answers requests for this path with 200, whatever routes say.
    Probe(Arc<str>),
    /// Dynamic forward proxy: resolves the hosts that requests name, for the routes that switch it on.
    Names(NamedHosts),
    /// Header mutation: edits all responses, in this order.
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
    /// Fault: which requests fail on purpose.
    Fault(Arc<Fault>),
    /// Custom response: which responses are given others in place.
    Override(Arc<[ResponseOverride]>),
    /// Buffer: requests are read whole, of up to this many bytes.
    Buffer(u32),
    /// Local rate limit: how many of its requests each proxy lets through.
    RateLimit(Arc<LocalRateLimit>),
    /// Global rate limit: how many of its requests all proxies together let through.
    GlobalRateLimit(Arc<GlobalRateLimit>),
    /// Bandwidth limit: how many bytes pass in a second.
    Bandwidth(Arc<Bandwidth>),
    /// CORS: which other origins browsers may let their scripts call the route from.
    Cors(Arc<Cors>),
    /// CSRF: where requests that change something may come from.
    SiteCheck(Arc<SiteCheck>),
    /// External authorization: the service of the instance decides, and is told these attributes.
    ExternalAuth(Arc<[(Arc<str>, SecretBytes)]>),
    /// JWT authentication: the name, in [`FilterSettings::Tokens`], of what is asked of tokens.
    Token(Arc<str>),
    /// API keys: the keys of which requests must carry one.
    ApiKeyAuth(Arc<ApiKeyAuth>),
    /// Basic auth: the users of which requests must name one.
    BasicAuth(Arc<BasicAuth>),
    /// Stateful session: how a client is led back to its endpoint.
    Session(Arc<Session>),
    /// RBAC: who may send what.
    Access(Arc<AccessRules>),
    /// Any kind: the instance does what its [`FilterSettings`] say.
    On,
    /// Dynamic forward proxy: resolves what the host is rewritten to, not what the request says.
    Resolve(HostRewrite),
}

impl FilterEffect {
    /// The address of what somebody else has too; none while nobody does. Routes under policies that say the same have
    /// one of it.
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
