//! Access logs: of what a line is written, what it says, and into which file.
//!
//! Formats are taken apart ahead of time, and everything that all logs of a listener want to know of a message's
//! fields is listed once in [`CapturedFields`], so that a request costs a look for each of those fields and nothing
//! else. Services that take logs over the network are [`Collector`]s.

mod captured;
mod flags;

use std::path::PathBuf;
use std::sync::Arc;

pub use captured::{CallFields, CapturedFields, WholeFields, place};
pub use flags::Flags;

use crate::config::ClusterId;
use crate::config::access::{MetadataCondition, MetadataPath};
use crate::config::collector::Collector;
use crate::config::route::Fraction;
use crate::expression::Expression;

/// The logs of a connection manager, a proxy of streams or datagrams, or a listener; at least one.
#[derive(Debug)]
pub struct AccessLogs {
    /// Each for itself.
    pub logs: Box<[AccessLog]>,
    /// What all of them want to know.
    pub wanted: CapturedFields,
}

/// The content of a response, made like a line of a log.
#[derive(Debug)]
pub struct BodyFormat {
    /// What it says.
    pub format: Format,
    /// Logs that write nothing, with what the format wants to know.
    pub logs: Arc<AccessLogs>,
    /// It tells of more than heads, connection and clock: what has become of the request must be written down.
    pub tells_course: bool,
}

/// One log.
#[derive(Debug)]
pub struct AccessLog {
    /// Which requests it tells of.
    pub filter: Filter,
    /// What it tells, and whom.
    pub sink: Sink,
}

/// What a log tells, and whom.
#[derive(Debug)]
pub enum Sink {
    /// Lines in a file.
    File {
        /// What they say.
        format: Format,
        /// Where they go.
        file: Arc<LogFile>,
    },
    /// Envoy's access log service, with entries of HTTP.
    HttpService {
        /// What they say beside the usual.
        entries: Box<HttpEntries>,
        /// Who gathers them.
        collector: Arc<Collector>,
    },
    /// The same with entries of connections.
    StreamService {
        /// Who gathers them.
        collector: Arc<Collector>,
    },
    /// Records of OTLP.
    OpenTelemetry {
        /// What they say.
        format: Box<OtlpFormat>,
        /// Who gathers them.
        collector: Arc<Collector>,
    },
}

impl Sink {
    /// The service, if it is one.
    pub fn collector(&self) -> Option<&Arc<Collector>> {
        match self {
            Self::File { .. } => None,
            Self::HttpService { collector, .. }
            | Self::StreamService { collector }
            | Self::OpenTelemetry { collector, .. } => Some(collector),
        }
    }
}

impl AccessLogs {
    /// Every cluster that is told something.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let collectors = self.logs.iter().filter_map(|log| log.sink.collector());
        collectors.map(|collector| collector.cluster)
    }
}

/// Where the fields are that entries of Envoy's access log service have: places in the lists of [`CapturedFields`].
#[derive(Debug)]
pub struct HttpEntries {
    /// `user-agent`
    pub user_agent: usize,
    /// `referer`
    pub referer: usize,
    /// `x-forwarded-for`
    pub forwarded_for: usize,
    /// `x-request-id`
    pub request_id: usize,
    /// The path before it was rewritten.
    pub original_path: usize,
    /// More fields of requests, by their names.
    pub request_headers: Box<[(Box<str>, usize)]>,
    /// Of responses.
    pub response_headers: Box<[(Box<str>, usize)]>,
    /// Of their trailers.
    pub response_trailers: Box<[(Box<str>, usize)]>,
}

/// What a record of OTLP says.
#[derive(Debug)]
pub struct OtlpFormat {
    /// Its body, if it has one.
    pub body: Option<OtlpValue>,
    /// Its attributes.
    pub attributes: Box<[(Box<str>, OtlpValue)]>,
}

/// A value in a record of OTLP.
#[derive(Debug)]
pub enum OtlpValue {
    /// A text with values in it.
    Text(Box<[Piece]>),
    /// A list.
    List(Box<[OtlpValue]>),
    /// Pairs.
    Map(Box<[(Box<str>, OtlpValue)]>),
}

/// A file that lines are appended to. All logs with one path share it.
#[derive(Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Its path; `/dev/stdout` and `/dev/stderr` are the process's own.
    pub path: PathBuf,
}

/// How many questions about requests there may be.
pub const MAX_CONDITIONS: usize = 32;

/// Which requests a log tells of.
#[derive(Debug)]
pub enum Filter {
    /// Of all.
    Everything,
    /// By status, 0 where none was sent.
    Status(Comparison),
    /// By milliseconds.
    Duration(Comparison),
    /// By what went wrong; with an empty set anything must have.
    Flags(Flags),
    /// By what it is a line of, in Envoy's words (`DownstreamEnd`); one of these, or any other.
    Type {
        /// What is named.
        types: Box<[&'static str]>,
        /// All others.
        exclude: bool,
    },
    /// By a question of [`CapturedFields::conditions`].
    Condition(usize),
    /// Some, at random.
    Share(Fraction),
    /// Not of those that the health check filter has answered.
    NotHealthCheck,
    /// By the status of a call, wherever it is; of those with one of these, or of all others.
    GrpcStatus {
        /// The statuses.
        statuses: Box<[u32]>,
        /// All others.
        exclude: bool,
        /// Where a response says it.
        fields: CallFields,
    },
    /// By what filters have found out; the second is for requests of which nothing is there.
    Metadata(Box<MetadataCondition>, bool),
    /// Of those for which an expression is true.
    Expression(Box<Expression>),
    /// What all of these tell of.
    All(Box<[Filter]>),
    /// What any of these tells of.
    Any(Box<[Filter]>),
}

/// A number is compared with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equal(u64),
    /// Not equal.
    Other(u64),
    /// At least.
    AtLeast(u64),
    /// At most.
    AtMost(u64),
}

impl Comparison {
    /// Whether it holds for a number.
    pub fn holds(self, number: u64) -> bool {
        match self {
            Self::Equal(with) => number == with,
            Self::Other(with) => number != with,
            Self::AtLeast(with) => number >= with,
            Self::AtMost(with) => number <= with,
        }
    }
}

/// What a line says.
#[derive(Debug)]
pub enum Format {
    /// Text as it is; what isn't there is written so.
    Text(Box<[Piece]>, Absent),
    /// One JSON object and a line end.
    Json(Json, Absent),
}

/// What stands for a value that isn't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// `-`, in JSON null.
    Shown,
    /// Nothing; a JSON object doesn't have the key.
    Omitted,
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it is.
    Text(Box<str>),
    /// A value.
    Value(Operator),
}

/// A piece of a JSON document.
#[derive(Debug)]
pub enum Json {
    /// Is JSON already.
    Literal(Box<str>),
    /// A value with its own type.
    Value(Operator),
    /// A string with values in it.
    Text(Box<[Piece]>),
    /// An object; keys are JSON already, with a comma before and a colon behind them.
    Object(Box<[(Box<str>, Json)]>),
    /// A list.
    List(Box<[Json]>),
}

/// A command operator of Envoy's formats.
#[derive(Debug, PartialEq, Eq)]
pub enum Operator {
    /// `%REQ()%`
    Request(FieldOf),
    /// `%RESP()%`
    Response(FieldOf),
    /// `%TRAILER()%`
    Trailer(FieldOf),
    /// `%START_TIME%`
    StartTime(Box<[TimePart]>),
    /// `%EMIT_TIME%`
    EmitTime(Box<[TimePart]>),
    /// `%DURATION%` and its likes: from, to, and how many make a second.
    Duration(Moment, Moment, u32),
    /// `%PROTOCOL%`
    Protocol,
    /// `%RESPONSE_CODE%`
    ResponseCode,
    /// `%RESPONSE_CODE_DETAILS%`
    ResponseCodeDetails,
    /// `%RESPONSE_FLAGS%`
    ResponseFlags,
    /// `%RESPONSE_FLAGS_LONG%`
    ResponseFlagsLong,
    /// `%BYTES_RECEIVED%`
    BytesReceived,
    /// `%BYTES_SENT%`
    BytesSent,
    /// `%ROUTE_NAME%`
    RouteName,
    /// `%UPSTREAM_CLUSTER%`
    UpstreamCluster,
    /// `%UPSTREAM_HOST_NAME%`
    UpstreamHostName,
    /// `%UPSTREAM_PROTOCOL%`
    UpstreamProtocol,
    /// `%UPSTREAM_REQUEST_ATTEMPT_COUNT%`
    UpstreamAttempts,
    /// `%UPSTREAM_TRANSPORT_FAILURE_REASON%`
    UpstreamFailure,
    /// `%UPSTREAM_HOST%`, `%DOWNSTREAM_LOCAL_ADDRESS%` and their likes.
    Address(AddressOf, AddressPart),
    /// `%REQUESTED_SERVER_NAME%`
    ServerName,
    /// `%LISTENER_NAME%`
    ListenerName,
    /// `%FILTER_CHAIN_NAME%`
    ChainName,
    /// `%ACCESS_LOG_TYPE%`
    LogType,
    /// `%HOSTNAME%`
    Hostname,
    /// `%DYNAMIC_METADATA(udp.proxy.session:…)%`
    Session(OfSession),
    /// `%DYNAMIC_METADATA()%`: what filters have found out, cut to so many bytes.
    Metadata(Box<MetadataPath>, Option<usize>),
    /// `%GRPC_STATUS()%`
    GrpcStatus(GrpcForm, CallFields),
    /// `%DOWNSTREAM_TLS_VERSION%`
    TlsVersion,
    /// `%DOWNSTREAM_TLS_CIPHER%`
    TlsCipher,
    /// `%DOWNSTREAM_PEER_SUBJECT%` and its likes.
    Peer(PeerPart),
    /// `%DOWNSTREAM_PEER_CERT_V_START%`
    PeerFrom(Box<[TimePart]>),
    /// `%DOWNSTREAM_PEER_CERT_V_END%`
    PeerUntil(Box<[TimePart]>),
    /// `%TRACE_ID%`
    TraceId,
    /// `%SPAN_ID%`
    SpanId,
    /// `%CEL()%`
    Expression(Box<Written>),
    /// `%CONNECTION_TERMINATION_DETAILS%`
    Termination,
    /// What nothing in this proxy sets: state of filters that it doesn't have.
    Nothing,
}

/// How a status of gRPC is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcForm {
    /// `NotFound`
    Camel,
    /// `NOT_FOUND`
    Snake,
    /// `5`
    Number,
}

/// What a client's certificate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPart {
    /// Of whom.
    Subject,
    /// By whom.
    Issuer,
    /// Its number.
    Serial,
    /// Its digest with SHA-256.
    Fingerprint,
    /// All of it, escaped as in URLs.
    Pem,
    /// Names that are URIs.
    Uris,
    /// Names of hosts.
    Hosts,
    /// Names that are addresses of IP.
    Addresses,
    /// Names that are those of mailboxes.
    Mailboxes,
}

/// An expression, with the text that it was made of.
#[derive(Debug)]
pub struct Written {
    /// As it was written.
    pub text: Box<str>,
    /// What it says.
    pub expression: Expression,
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Written {}

impl Operator {
    /// Whether its value is a number, which JSON writes without quotes.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Duration(..)
                | Self::ResponseCode
                | Self::BytesReceived
                | Self::BytesSent
                | Self::UpstreamAttempts
                | Self::GrpcStatus(GrpcForm::Number, _)
                | Self::Address(_, AddressPart::Port)
        ) || matches!(self, Self::Session(of) if *of != OfSession::Cluster)
    }
}

/// What is known of a session of datagrams, under Envoy's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfSession {
    /// `cluster_name`
    Cluster,
    /// `bytes_received`
    BytesReceived,
    /// `bytes_sent`
    BytesSent,
    /// `datagrams_received`
    DatagramsReceived,
    /// `datagrams_sent`
    DatagramsSent,
    /// `errors_sent`
    ErrorsSent,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldOf {
    /// First choice.
    pub first: Named,
    /// When the first is missing.
    pub second: Option<Named>,
    /// Cut to that many bytes.
    pub max_len: Option<usize>,
    /// Cut before `?`.
    pub query: Query,
}

/// Whether a path is told with its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// As it came.
    Kept,
    /// Without, as `%REQ_WITHOUT_QUERY()%` says.
    Cut,
}

/// What a field is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:authority`
    Authority,
    /// `:scheme`
    Scheme,
    /// `:status`
    Status,
    /// Its place in a list of [`CapturedFields`].
    Field(usize),
}

/// A moment of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The head of the request has arrived.
    Begun,
    /// All of the request has.
    RequestRead,
    /// The request went to a backend.
    Sent,
    /// The head of the backend's response has arrived.
    Answered,
    /// Everything is over.
    Over,
    /// Now, or when everything was over.
    Told,
}

/// Whose address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOf {
    /// The client, as far as proxies before this one are trusted to say.
    Client,
    /// Who has connected.
    Peer,
    /// Where the client was connected to.
    Local,
    /// Where this proxy was connected to.
    DirectLocal,
    /// The backend that was chosen.
    Backend,
    /// The same once there is a connection to it.
    Connected,
    /// Where this proxy has connected to the backend from.
    ToBackend,
}

/// How much of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPart {
    /// Both parts.
    Whole,
    /// The address alone.
    WithoutPort,
    /// The port alone.
    Port,
}

/// A piece of a time's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// As it is.
    Text(Box<str>),
    /// `%Y`
    Year,
    /// `%m`
    Month,
    /// `%b`
    MonthName,
    /// `%d`
    Day,
    /// `%e`: the day with a space for its first zero.
    DaySpaced,
    /// `%j`
    DayOfYear,
    /// `%a`
    Weekday,
    /// `%H`
    Hour,
    /// `%M`
    Minute,
    /// `%S`
    Second,
    /// `%s`: seconds since 1970.
    Epoch,
    /// `%3f`: so many digits of the second's fraction.
    Fraction(u32),
}
