//! A service that sees requests and responses and may change them (Envoy's `ext_proc`).

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::config::ClusterId;
use crate::config::header::StringCondition;
use crate::config::route::RetryPolicy;

/// What shows requests and responses to a service. Its parts are shared with what routes make of it.
#[derive(Clone, Debug)]
pub struct Processor {
    /// Whom.
    pub service: Service,
    /// What it sees, as long as it says nothing else.
    pub modes: Modes,
    /// Whether it is waited for.
    pub role: Role,
    /// What it fails over goes on as it is.
    pub may_fail: bool,
    /// The answer where it fails otherwise.
    pub on_error: StatusCode,
    /// How long it may take for an answer.
    pub timeout: Duration,
    /// How long it may ask for; zero is not at all.
    pub max_timeout: Duration,
    /// How long it has for its end once all is over.
    pub patience: Duration,
    /// What it may choose to see, an empty list being anything; `None` is nothing else than [`Self::modes`].
    pub overrides: Option<Arc<[Override]>>,
    /// It may answer in place of others.
    pub may_answer: bool,
    /// When routes are looked at again.
    pub reroute: Reroute,
    /// Attributes that it is told with a request.
    pub of_request: Arc<[Attribute]>,
    /// Attributes that it is told with a response.
    pub of_response: Arc<[Attribute]>,
    /// Headers that it is told; unset: all.
    pub forwarded_headers: Option<Arc<[StringCondition]>>,
    /// Headers that it isn't told.
    pub withheld_headers: Arc<[StringCondition]>,
    /// Namespaces of metadata that it is told.
    pub readable: Names,
    /// Namespaces of metadata that it may write.
    pub writable: Names,
    /// Which headers it may change.
    pub rules: Arc<MutationRules>,
}

/// Names of namespaces.
pub type Names = Arc<[Arc<str>]>;

/// A service, and how it is called.
#[derive(Clone, Debug)]
pub struct Service {
    /// Where it is.
    pub cluster: ClusterId,
    /// Its name.
    pub authority: HeaderValue,
    /// When it is asked again that has not begun to answer.
    pub retry: Option<Arc<RetryPolicy>>,
    /// What comes with a call.
    pub headers: Arc<[(HeaderName, HeaderValue)]>,
}

/// What a route says of a processor; of what it says nothing of the chain does.
#[derive(Clone, Debug, Default)]
pub struct ProcessorOfRoute {
    /// Whom.
    pub service: Option<Service>,
    /// What comes with a call besides.
    pub headers: Box<[(HeaderName, HeaderValue)]>,
    /// What it sees.
    pub modes: Option<Modes>,
    /// Whether what it fails over goes on.
    pub may_fail: Option<bool>,
    /// Namespaces of metadata that it is told.
    pub readable: Option<Names>,
    /// Namespaces of metadata that it may write.
    pub writable: Option<Names>,
}

impl ProcessorOfRoute {
    /// A processor as it is on the route.
    pub fn of(&self, chain: &Processor) -> Processor {
        let mut service = self.service.as_ref().unwrap_or(&chain.service).clone();
        if !self.headers.is_empty() {
            service.headers = joined(&service.headers, &self.headers).into();
        }
        Processor {
            service,
            modes: self.modes.unwrap_or(chain.modes),
            may_fail: self.may_fail.unwrap_or(chain.may_fail),
            readable: Arc::clone(self.readable.as_ref().unwrap_or(&chain.readable)),
            writable: Arc::clone(self.writable.as_ref().unwrap_or(&chain.writable)),
            ..chain.clone()
        }
    }

    /// This level over a wider one: as in Envoy, each says what it says.
    pub fn over(&self, wider: &Self) -> Self {
        let own = self.clone();
        Self {
            service: own.service.or_else(|| wider.service.clone()),
            headers: joined(&wider.headers, &own.headers).into(),
            modes: own.modes.or(wider.modes),
            may_fail: own.may_fail.or(wider.may_fail),
            readable: own.readable.or_else(|| wider.readable.clone()),
            writable: own.writable.or_else(|| wider.writable.clone()),
        }
    }
}

/// Headers in place of those of the same name.
fn joined(before: &[(HeaderName, HeaderValue)], over: &[(HeaderName, HeaderValue)]) -> Vec<(HeaderName, HeaderValue)> {
    let stays = |name: &HeaderName| !over.iter().any(|(other, _)| other == name);
    let kept = before.iter().filter(|(name, _)| stays(name));
    kept.chain(over).cloned().collect()
}

/// Whether a service is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What it says counts.
    Processes,
    /// Nobody waits, and what it says is ignored.
    Watches,
}

/// When routes are looked at again after a service has changed the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reroute {
    /// When it says so.
    OnDemand,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a service sees of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Of the request.
    pub request: Mode,
    /// Of the response.
    pub response: Mode,
}

/// What a service sees of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Its head.
    pub head: bool,
    /// Its content.
    pub body: BodyMode,
    /// Its trailers.
    pub trailers: bool,
}

impl Modes {
    /// Whether content flows both ways: then the service chooses nothing (as documented of Envoy's
    /// `allow_mode_override`).
    pub fn flow(self) -> bool {
        [self.request.body, self.response.body].contains(&BodyMode::Duplex)
    }
}

impl Mode {
    /// Nothing.
    pub const NOTHING: Self = Self {
        head: false,
        body: BodyMode::Hidden,
        trailers: false,
    };

    /// Whether a length that was announced may be another in the end.
    pub fn changes_length(self) -> bool {
        match self.body {
            BodyMode::Hidden => false,
            BodyMode::Whole => !self.head,
            BodyMode::Beginning | BodyMode::Pieces | BodyMode::Duplex => true,
        }
    }
}

/// How a service sees content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    Hidden,
    /// At once; a message that is too large is refused.
    Whole,
    /// At once, as much as may be kept of it.
    Beginning,
    /// Piece by piece, with an answer to each.
    Pieces,
    /// Piece by piece, and the answers are pieces of their own.
    Duplex,
}

/// What a service chooses to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// The head of the response; unset: as before. (That of the request is told already.)
    pub response_head: Option<bool>,
    /// Content of the request.
    pub request_body: BodyMode,
    /// Content of the response.
    pub response_body: BodyMode,
    /// Trailers of the request; unset: as before.
    pub request_trailers: Option<bool>,
    /// Trailers of the response; unset: as before.
    pub response_trailers: Option<bool>,
}

impl BodyMode {
    /// By its name in Envoy; `None` where it isn't served.
    pub fn of(mode: BodySendMode) -> Option<Self> {
        match mode {
            BodySendMode::None => Some(Self::Hidden),
            BodySendMode::Buffered => Some(Self::Whole),
            BodySendMode::BufferedPartial => Some(Self::Beginning),
            BodySendMode::Streamed => Some(Self::Pieces),
            BodySendMode::FullDuplexStreamed => Some(Self::Duplex),
            BodySendMode::Grpc => None,
        }
    }
}

impl Override {
    /// What a message chooses; `None` where that isn't served. The service says it of one exchange, so it is read here
    /// and not by the compiler alone.
    pub fn of(message: &ProcessingMode) -> Option<Self> {
        let sends = |mode: i32| match HeaderSendMode::try_from(mode) {
            Ok(HeaderSendMode::Default) => Some(None),
            Ok(HeaderSendMode::Send) => Some(Some(true)),
            Ok(HeaderSendMode::Skip) => Some(Some(false)),
            Err(_) => None,
        };
        let body = |mode: i32| BodyMode::of(BodySendMode::try_from(mode).ok()?);
        Some(Self {
            response_head: sends(message.response_header_mode)?,
            request_body: body(message.request_body_mode)?,
            response_body: body(message.response_body_mode)?,
            request_trailers: sends(message.request_trailer_mode)?,
            response_trailers: sends(message.response_trailer_mode)?,
        })
    }

    /// What is seen then.
    pub fn over(self, before: Modes) -> Modes {
        Modes {
            request: Mode {
                head: before.request.head,
                body: self.request_body,
                trailers: self.request_trailers.unwrap_or(before.request.trailers),
            },
            response: Mode {
                head: self.response_head.unwrap_or(before.response.head),
                body: self.response_body,
                trailers: self.response_trailers.unwrap_or(before.response.trailers),
            },
        }
    }
}

/// Something that is known of an exchange, by its name in Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `request.path`
    Path,
    /// `request.url_path`
    UrlPath,
    /// `request.query`
    Query,
    /// `request.host`
    Host,
    /// `request.scheme`
    Scheme,
    /// `request.method`
    Method,
    /// `request.referer`
    Referer,
    /// `request.useragent`
    UserAgent,
    /// `request.id`
    Id,
    /// `request.protocol`
    Protocol,
    /// `source.address`
    Source,
    /// `source.port`
    SourcePort,
    /// `destination.address`
    Destination,
    /// `destination.port`
    DestinationPort,
    /// `connection.requested_server_name`
    ServerName,
    /// `connection.mtls`
    MutualTls,
    /// `xds.route_name`
    RouteName,
    /// `response.code`
    ResponseCode,
}

impl Attribute {
    /// All that are known here.
    pub const ALL: [(&'static str, Self); 18] = [
        ("request.path", Self::Path),
        ("request.url_path", Self::UrlPath),
        ("request.query", Self::Query),
        ("request.host", Self::Host),
        ("request.scheme", Self::Scheme),
        ("request.method", Self::Method),
        ("request.referer", Self::Referer),
        ("request.useragent", Self::UserAgent),
        ("request.id", Self::Id),
        ("request.protocol", Self::Protocol),
        ("source.address", Self::Source),
        ("source.port", Self::SourcePort),
        ("destination.address", Self::Destination),
        ("destination.port", Self::DestinationPort),
        ("connection.requested_server_name", Self::ServerName),
        ("connection.mtls", Self::MutualTls),
        ("xds.route_name", Self::RouteName),
        ("response.code", Self::ResponseCode),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(name, _)| name)
    }
}

/// Which headers a service may change (Envoy's `HeaderMutationRules`).
#[derive(Debug)]
pub struct MutationRules {
    /// Those that routes and backends are chosen by.
    pub routing: bool,
    /// What the names of the proxy's own headers begin with; unset: they are like others.
    pub own_prefix: Option<Box<str>>,
    /// Pseudo headers.
    pub system: bool,
    /// Anything at all.
    pub any: bool,
    /// Those that may be changed all the same.
    pub allowed: Option<StringCondition>,
    /// Those that never may.
    pub disallowed: Option<StringCondition>,
    /// What may not be changed is an error, and isn't left out.
    pub strict: bool,
}

/// What is done to a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It goes.
    Remove,
    /// It gets a value.
    Set,
}

impl MutationRules {
    /// Whether a header, by its name in lower case, may be changed so.
    pub fn allow(&self, change: Change, name: &str) -> bool {
        let is_system = name.starts_with(':');
        if change == Change::Remove && (is_system || name == "host") {
            return false;
        }
        if self.disallowed.as_ref().is_some_and(|names| names.matches(name)) {
            return false;
        }
        if self.allowed.as_ref().is_some_and(|names| names.matches(name)) {
            return true;
        }
        let is_own = || {
            self.own_prefix
                .as_ref()
                .is_some_and(|prefix| name.starts_with(&**prefix))
        };
        let routes = || matches!(name, "host" | ":authority" | ":scheme" | ":method");
        self.any && (self.system || !is_system) && !is_own() && (self.routing || !routes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> MutationRules {
        MutationRules {
            routing: false,
            own_prefix: Some("x-envoy".into()),
            system: true,
            any: true,
            allowed: None,
            disallowed: None,
            strict: false,
        }
    }

    #[test]
    fn what_routes_go_by_stays_unless_rules_say_otherwise() {
        let usual = rules();
        for name in ["x-a", ":path", "content-length", "cookie"] {
            assert!(usual.allow(Change::Set, name), "{name}");
        }
        for name in ["host", ":authority", ":method", ":scheme", "x-envoy-a"] {
            assert!(!usual.allow(Change::Set, name), "{name}");
        }
        assert!(!usual.allow(Change::Remove, ":path") && usual.allow(Change::Remove, "x-a"));
        let routing = MutationRules {
            routing: true,
            ..rules()
        };
        assert!(routing.allow(Change::Set, "host") && !routing.allow(Change::Remove, "host"));
        let exact = |name: &str| Some(StringCondition::Exact(name.into()));
        let one = MutationRules {
            any: false,
            allowed: exact("x-a"),
            disallowed: exact("x-b"),
            ..rules()
        };
        assert!(one.allow(Change::Set, "x-a") && !one.allow(Change::Set, "x-b") && !one.allow(Change::Set, "x-c"));
        let plain = MutationRules {
            system: false,
            ..rules()
        };
        assert!(!plain.allow(Change::Set, ":path") && plain.allow(Change::Set, "x-a"));
    }

    #[test]
    fn what_a_narrower_level_says_of_a_call_stands_over_the_wider() {
        let level = |fields: &[(&'static str, &'static str)], may_fail| ProcessorOfRoute {
            headers: fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect(),
            may_fail,
            ..ProcessorOfRoute::default()
        };
        let merged = level(&[("a", "2")], None).over(&level(&[("a", "1"), ("b", "1")], Some(true)));
        let expected = level(&[("b", "1"), ("a", "2")], None);
        assert_eq!((merged.headers, merged.may_fail), (expected.headers, Some(true)));
    }

    #[test]
    fn an_override_leaves_what_it_says_nothing_of() {
        let mode = Mode {
            head: true,
            body: BodyMode::Hidden,
            trailers: false,
        };
        let before = Modes {
            request: mode,
            response: mode,
        };
        let said = Override {
            response_head: None,
            request_body: BodyMode::Whole,
            response_body: BodyMode::Hidden,
            request_trailers: Some(true),
            response_trailers: None,
        };
        let after = said.over(before);
        assert_eq!(after.response, mode);
        assert!(after.request.head && after.request.trailers && after.request.body == BodyMode::Whole);
        assert!(!after.request.changes_length());
    }

    #[test]
    fn every_attribute_has_its_name() {
        for (name, attribute) in Attribute::ALL {
            assert_eq!(attribute.name(), name);
        }
    }
}
