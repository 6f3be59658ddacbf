//! Virtual hosts and routes.

use crate::{
    ClusterName, CustomObjects, Domains, GuardSet, LimitHeaders, List, Origins, RetryPolicy, RouteFilters, RouteName,
    RouteTableName, RouteTraffic, Seldom, Text,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The virtual hosts of one HTTP port, or of one HTTPS listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// `<namespace>/<gateway>/<listener>`; on a plain port the first listener in spec order gives the name.
    pub name: RouteTableName,
    /// What stands on the chains that route by it. Tables of one name behind other guards are other resources to the
    /// data plane: it ignores what a route says of a filter that its chain doesn't have, so connections of a chain of
    /// before must go on with the table of before.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub guards: GuardSet,
    /// Virtual hosts, sorted by name. Their domains are disjoint.
    pub hosts: List<Arc<VirtualHost>>,
    /// The Gateway listeners that share this table.
    pub origins: Origins,
}

/// The routes of one effective hostname of one listener; or what answers there for the names of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualHost {
    /// `<listener>/<host with dots as underscores>`, or `<listener>/*`; [`ELSEWHERE`] for the names of others.
    pub name: Arc<str>,
    /// What it answers for.
    #[serde(flatten)]
    pub domains: Domains,
    /// The port that clients used to get here; a redirect that names no port keeps it.
    pub port: u16,
    /// Routes in the order they are tried. None at all answers 404, which is how a more specific listener hides a
    /// broader one (listener isolation, GEP-1713 and the Gateway API's `listeners` text).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Arc<Route>>,
    /// Whether clients are told of limits, where these say nothing of it.
    #[serde(default, skip_serializing_if = "LimitHeaders::is_usual")]
    pub limits: LimitHeaders,
    /// Whose requests are counted.
    #[serde(default, skip_serializing_if = "HostStats::is_usual")]
    pub stats: HostStats,
    /// The Gateway listener it belongs to.
    pub origins: Origins,
}

/// What the virtual host for the names of other listeners is called after its own: nothing that a hostname can be.
pub const ELSEWHERE: &str = "~elsewhere";

/// Whose requests are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostStats {
    /// Those of the connection manager, for all of its hosts.
    #[default]
    Usual,
    /// Those of the virtual host, by itself as well.
    Own,
}

impl HostStats {
    fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

impl VirtualHost {
    /// The listener that it belongs to: all of its name but the host.
    pub fn listener(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(listener, _)| listener)
    }

    /// All of its name but the listener: the lowering puts it behind the names of its routes.
    pub fn own_name(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(_, own)| own)
    }
}

/// One match of one rule, and what to do with what matches. Shared by all virtual hosts that the rule is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The lowering puts `/<host>` behind it.
    pub name: RouteName,
    /// All conditions must hold.
    #[serde(rename = "match")]
    pub matches: RouteMatch,
    /// Those of the requests that match which take it: the first so many, by a number that each request has. The others
    /// try the next route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<Fraction>,
    /// What becomes of what matches.
    #[serde(flatten)]
    pub effect: Arc<RouteEffect>,
}

/// What a rule does with a request that one of its matches takes. All matches of the rule share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteEffect {
    /// What happens.
    pub action: RouteAction,
    /// Edits to the request before it goes to the backend; few rules have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<Box<HeaderEdits>>,
    /// Edits to the response before it goes to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<Box<HeaderEdits>>,
    /// What filters of the manager do for it, sorted by id. The manager has each of them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub filters: RouteFilters,
    /// What extension services are shown with it; few rules have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Arc<CustomObjects>>,
    /// Traces and the name of metrics where nothing is forwarded; what is, has them with its [`Forward`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Arc<RouteTraffic>>,
    /// The route object and rule.
    pub origins: Origins,
}

impl RouteEffect {
    /// An action and nothing besides.
    pub fn new(action: RouteAction, origins: Origins) -> Self {
        Self {
            action,
            request_headers: None,
            response_headers: None,
            filters: RouteFilters::default(),
            custom: None,
            telemetry: None,
            origins,
        }
    }

    /// What is said of its requests besides where they go.
    pub fn traffic(&self) -> Option<&RouteTraffic> {
        match &self.action {
            RouteAction::Forward(forward) => forward.traffic.as_deref(),
            RouteAction::Redirect(_) | RouteAction::Respond(_) => self.telemetry.as_deref(),
        }
    }
}

/// Cross-origin rules (the Fetch standard's CORS protocol): the proxy answers preflights and marks responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins that are let in; any of them must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<ValueMatcher>,
    /// Methods that are let in, or `*` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<MethodName>,
    /// Request headers that are let in, or `*` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Arc<str>>,
    /// Response headers that scripts may read, or `*` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exposed_headers: Vec<Arc<str>>,
    /// Seconds that a preflight's answer may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u32>,
    /// Cookies and the like may come along. The answer then names what it lets in, never `*`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub credentials: bool,
}

/// Conditions on a request; all must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteMatch {
    /// On the path, without the query.
    pub path: PathMatch,
    /// On the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodName>,
    /// On header values; names are lower case.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub headers: Seldom<ValueMatch>,
    /// On query parameters; the first value of a repeated one counts.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub query: Seldom<ValueMatch>,
    /// On cookies (RFC 6265 §4.2); names count with case, and the first value of a repeated one.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub cookies: Seldom<ValueMatch>,
}

impl RouteMatch {
    /// A condition on the path and no other.
    pub fn on_path(path: PathMatch) -> Self {
        Self {
            path,
            method: None,
            headers: Seldom::default(),
            query: Seldom::default(),
            cookies: Seldom::default(),
        }
    }
}

/// An HTTP method in capitals.
pub type MethodName = Text;

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    /// Every path.
    Any,
    /// Byte for byte.
    Exact(Text),
    /// By whole segments, without trailing slash: `/foo` matches `/foo`, `/foo/` and `/foo/bar`, never `/foobar`.
    Prefix(Text),
    /// The whole path matches this RE2 expression.
    Regex(Text),
}

/// A condition on a named value: a header, a query parameter or a cookie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueMatch {
    /// Name of the header (lower case), parameter or cookie (as written).
    pub name: Text,
    /// What its value must be.
    pub value: ValueMatcher,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueMatcher {
    /// Equal.
    Exact(Text),
    /// The whole value matches this RE2 expression.
    Regex(Text),
}

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteAction {
    /// Send it to a backend.
    Forward(Forward),
    /// Send the client elsewhere.
    Redirect(Box<Redirect>),
    /// Answer here.
    Respond(DirectResponse),
}

/// How a request is sent on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forward {
    /// Where to.
    pub destination: Destination,
    /// From the end of the request to the end of the response, retries included. Unset: the proxy's 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Arc<RetryPolicy>>,
    /// What becomes of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_rewrite: Option<Box<PathRewrite>>,
    /// What becomes of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_rewrite: Option<Box<HostRewrite>>,
    /// Whether the backend learns of the host that was rewritten.
    #[serde(default, skip_serializing_if = "ForwardedHost::is_told")]
    pub forwarded_host: ForwardedHost,
    /// Copies, fire and forget.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub mirrors: Seldom<Mirror>,
    /// What policies ask besides; shared by all routes that a policy covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Arc<RouteTraffic>>,
}

/// A time limit in milliseconds; 0 switches the limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timeout(
    /// Milliseconds.
    pub u64,
);

/// The backends of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// All traffic to one cluster.
    Cluster(ClusterName),
    /// Shares by weight, picked for each request.
    Weighted(Box<Shares>),
}

/// The backends of a rule that has several, or that are edited for. Weights are positive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Those that have a cluster, in the order of the rule.
    pub shares: Vec<BackendShare>,
    /// Weight of the backends that could not be resolved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalid_weight: u32,
    /// How that share is answered.
    #[serde(default, skip_serializing_if = "Unresolved::is_error")]
    pub unresolved: Unresolved,
}

/// How requests are answered whose backend could not be resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unresolved {
    /// By 500.
    #[default]
    Error,
    /// By 503, which a caller of gRPC sees as UNAVAILABLE.
    Unavailable,
}

impl Unresolved {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Error => 500,
            Self::Unavailable => 503,
        }
    }

    fn is_error(&self) -> bool {
        *self == Self::Error
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One weighted backend, and what is edited only for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendShare {
    /// The backend's cluster.
    pub cluster: ClusterName,
    /// Its weight among the shares, > 0.
    pub weight: u32,
    /// Edits to requests that go to it.
    #[serde(default, skip_serializing_if = "HeaderEdits::is_empty")]
    pub request_headers: HeaderEdits,
    /// Edits to its responses.
    #[serde(default, skip_serializing_if = "HeaderEdits::is_empty")]
    pub response_headers: HeaderEdits,
    /// Replaces the host for requests that go to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_rewrite: Option<Arc<str>>,
    /// What filters of the manager do for requests that go to it, sorted by id.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub filters: RouteFilters,
}

/// A change to the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathRewrite {
    /// The whole path becomes this; the query stays.
    Full(Arc<str>),
    /// The matched prefix becomes this (no trailing slash; empty stands for `/`), never giving `//`.
    Prefix {
        /// The prefix that the route matched, without trailing slash; empty stands for `/`.
        matched: Arc<str>,
        /// What replaces it.
        replacement: Arc<str>,
    },
    /// Every part that an expression finds becomes something else; the query stays.
    Regex(RegexRewrite),
}

/// What an expression finds becomes something else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegexRewrite {
    /// An RE2 expression.
    pub pattern: Arc<str>,
    /// What takes the place of a match; `\1` stands for what the first group found.
    pub substitution: Arc<str>,
}

/// A change to the host that the backend sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostRewrite {
    /// This name.
    Literal(Arc<str>),
    /// What this header of the request says; where it is absent the host stays.
    Header(Arc<str>),
    /// The host name of the endpoint that is chosen; where it has none the host stays.
    Endpoint,
    /// What an expression makes of the path.
    Path(Arc<RegexRewrite>),
}

/// Whether `x-forwarded-host` tells the host that was rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ForwardedHost {
    /// It does.
    #[default]
    Told,
    /// It doesn't.
    Untold,
}

impl ForwardedHost {
    fn is_told(&self) -> bool {
        *self == Self::Told
    }
}

/// A copy of requests to another cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// Where copies go; their answers are dropped.
    pub cluster: ClusterName,
    /// How many of the requests are copied.
    pub fraction: Fraction,
}

/// A fraction with a denominator of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fraction(
    /// Parts in a million, at most 1,000,000.
    pub u32,
);

/// An answer that sends the client elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub code: u16,
    /// New scheme, `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Arc<str>>,
    /// New host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// New port.
    pub port: RedirectPort,
    /// New path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<RedirectPath>,
}

/// Which port a redirect points at. The one that the scheme implies may be left out of the Location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectPort {
    /// The port that the client used ([`VirtualHost::port`]).
    Listener,
    /// This port.
    Number(u16),
}

/// The path a redirect points at.
pub type RedirectPath = PathRewrite;

/// An answer given by the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponse {
    /// Status code.
    pub status: u16,
    /// Body; empty when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<ResponseBody>,
}

/// The body of an answer given by the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResponseBody {
    /// As it is.
    Text(Arc<str>),
    /// With command operators (`%START_TIME%`) that the proxy fills in.
    Format(Arc<str>),
    /// No text.
    Bytes(Arc<[u8]>),
}

impl From<&str> for ResponseBody {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl ResponseBody {
    /// Its bytes, operators as written.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) | Self::Format(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Changes to a header section, applied in this order: set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderEdits {
    /// Replace all values of the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderEdit>,
    /// Append a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderEdit>,
    /// Drop the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Arc<str>>,
}

impl HeaderEdits {
    /// The edits, if there are any, in no more room than they take.
    pub fn boxed(mut self) -> Option<Box<Self>> {
        self.set.shrink_to_fit();
        self.add.shrink_to_fit();
        self.remove.shrink_to_fit();
        (!self.is_empty()).then(|| Box::new(self))
    }

    /// Nothing to edit.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// A header and a value for it. The value is literal: the lowering escapes what the proxy would interpret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderEdit {
    /// Name as written; matched without case.
    pub name: Text,
    /// Value; may be empty.
    pub value: Text,
}
