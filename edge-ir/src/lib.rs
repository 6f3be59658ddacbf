//! The intermediate representation: what one proxy fleet must do ([`Fleet`]) and what must exist around it ([`Infra`]).
//!
//! Plain data with public fields, in the terms of a proxy and not of the platform: a fleet knows listeners, virtual
//! hosts, routes, clusters and endpoints, and nothing of Gateways, HTTPRoutes or Services. It knows just as little of
//! protobuf. Whoever reads it needs no lookup elsewhere: every reference is a name that stands in the same fleet.
//!
//! Three properties hold throughout:
//!
//! * **Deterministic.** Lists are in the order in which they take effect, or sorted by name; nothing hashes.
//! * **Shared.** Whatever changes on its own ([`Listener`], [`VirtualHost`], [`Route`], [`Cluster`], [`EndpointSet`],
//!   [`Secret`]) sits behind an [`Arc`](std::sync::Arc), and an unchanged piece keeps its `Arc` from one translation to
//!   the next. Pointer equality is therefore a sound (not a complete) test for "nothing to do".
//! * **Explainable.** Listeners, virtual hosts, routes and clusters carry the objects they came from ([`Origin`]).
//!
//! It is read and written as data, and as JSON:
//!
//! ```
//! use edge_ir::{Domain, RouteTable, VirtualHost};
//! use std::{collections::BTreeMap, sync::Arc};
//!
//! /// Which domains a table serves, and by how many routes.
//! fn domains(table: &RouteTable) -> BTreeMap<&Domain, usize> {
//!     let hosts = table.hosts.iter();
//!     hosts.flat_map(|host| host.domains.iter().map(|domain| (domain, host.routes.len()))).collect()
//! }
//! let host = r#"{"name": "www", "domain": "www.example.com", "port": 80, "routes": [], "origins": []}"#;
//! let host: VirtualHost = serde_json::from_str(host)?;
//! let table = RouteTable {
//!     name: "infra/gw/http".into(),
//!     guards: Default::default(),
//!     hosts: vec![Arc::new(host)].into(),
//!     origins: [].into(),
//! };
//! assert_eq!(domains(&table).into_values().sum::<usize>(), 0);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Absent on purpose: defaults of the data plane (they belong to the lowering) and anything unresolved. A backend
//! that could not be resolved is no name waiting to be looked up but a share of traffic that answers 500.

#![warn(missing_debug_implementations)]

mod access;
mod client;
mod cluster;
mod custom;
mod domains;
mod executor;
mod expression;
mod ext_auth;
mod extension;
mod filter;
mod fleet;
mod geoip;
mod http;
mod infra;
mod list;
mod listener;
mod login;
mod metrics;
mod name;
mod named_hosts;
mod origin;
mod patch;
mod quantity;
mod rate_limit_infra;
mod route_name;
mod secret;
mod seldom;
mod telemetry;
mod text;
mod token;
mod traffic;
mod upstream;
mod workload;

pub use access::{
    Access, AccessCondition, AccessRule, AccessRules, AddressRange, ApiKey, ApiKeyAuth, BasicAuth, ClaimCondition,
    ClaimForm, KeySeen, KeySource, SiteCheck,
};
pub use client::{
    Accepts, AgedConnection, AppendsPeer, CertificateDetail, ClientAddress, ClientHeaders, ClientLimits,
    ClientSettings, ConnectionLimit, ConnectionSettings, EscapedSlashes, Fingerprint, ForwardedCertificate,
    ForwardedCertificateMode, HeaderCase, HeaderMutation, Http1Settings, Http10, MissingAddress, OwnHeaders,
    ProxyHeader, RequestId, Scheme, Slashes, SocketSettings, Trailers, TrailingDot, Underscores,
};
pub use cluster::{
    AppProtocol, Cluster, ClusterStats, Discovery, Endpoint, EndpointAddress, EndpointHealth, EndpointSet,
    EndpointSocket, Inside, Locality, ServerNaming, SubjectName, TlsParameters, UpstreamTls, ZonePreference,
    ZoneRouting,
};
pub use custom::{CustomObject, CustomObjects, CustomPolicy};
pub use domains::Domains;
pub use executor::{Executor, InPlace, in_shares, is_worth_sharing};
pub use expression::{Call, Expression};
pub use ext_auth::{AuthPath, AuthService, ExternalAuth, RouteMetadata, Undecided};
pub use extension::{
    Download, ExternalProcessor, Failing, LuaScript, ModuleSource, NativeFilter, NativeModule, Processed,
    ProcessedBody, ProcessorAnswers, WasmFilter,
};
pub use filter::{
    AbortStatus, AdmissionControl, Bandwidth, CodeRange, Compressor, Direction, Elsewhere, Encoding, ExistingHeader,
    Fault, FaultAbort, FaultDelay, FilterEffect, FilterId, FilterInstance, FilterKind, FilterSettings, GlobalRateLimit,
    GlobalRateLimitRule, Hits, InjectedCredential, Instead, LimitHeaders, LocalRateLimit, OtherResponse, RateLimit,
    RateLimitEntry, RateLimitRule, RateLimitService, RateLimitUnit, ResponseOverride, ResponseSource, RouteFilter,
    RouteFilters, Session, SessionCookie, TextMatch, TextMatcher, Unanswered,
};
pub use fleet::{Fleet, FleetSettings, ReadyListener, RequestIdTracing};
pub use geoip::{GeoCondition, GeoConditions, GeoDatabases, GeoFact, GeoLookup};
pub use http::{
    BackendShare, Cors, Destination, DirectResponse, ELSEWHERE, Forward, ForwardedHost, Fraction, HeaderEdit,
    HeaderEdits, HostRewrite, HostStats, MethodName, Mirror, PathMatch, PathRewrite, Redirect, RedirectPath,
    RedirectPort, RegexRewrite, ResponseBody, Route, RouteAction, RouteEffect, RouteMatch, RouteTable, Shares, Timeout,
    Unresolved, ValueMatch, ValueMatcher, VirtualHost,
};
pub use infra::{
    BootstrapPatch, HostProcess, Infra, JsonPatchOperation, LIVENESS_HEADER, Owner, POD_ZONE, Placement, PortProtocol,
    ProxySettings, ServicePort, StartPlace, StringMap, label, pod_certificate, pod_port,
};
pub use list::{Chunk, List};
pub use listener::{
    Carrier, CertificateName, CertificateNameKind, ClientCertificates, ClientValidation, DownstreamTls, FilterChain,
    Hello, HttpManager, IpFamily, Listener, NamedAt, Network, Resumption, ServerNames, StreamProxy, StreamShare,
    TlsVersion,
};
pub use login::{
    Bearers, ClientProof, CookieTokens, ForwardedTokens, Login, LoginCookies, LoginProvider, Renewal, SameSite,
};
pub use metrics::{MetricHost, MetricSink, MetricTls, Temporality};
pub use name::{
    ClusterName, Domain, EndpointSetName, FleetKey, FleetOwner, GuardSet, ListenerName, RouteTableName, SecretName,
};
pub use named_hosts::NamedHosts;
pub use origin::{Origin, Origins};
pub use patch::{Patch, PatchFailure, PatchProblem};
pub use rate_limit_infra::{RateLimitClients, RateLimitInfra, RateLimitTraces, RedisAddress, RedisSecurity};
pub use route_name::RouteName;
pub use secret::{Secret, SecretBytes, SecretContent, SecretSource};
pub use seldom::Seldom;
pub use telemetry::{
    AccessLog, AccessLogger, CollectorRef, FleetTracing, LogEntries, LogFormat, LogScope, LogSink, Pairs, SampledShare,
    Sampler, TraceProvider,
};
pub use text::Text;
pub use token::{KeySet, Rerouting, TokenIssuer, TokenPlace, TokenRequirement, Tokens, WithoutToken};
pub use traffic::{HashInput, RetryPolicy, RouteTracing, RouteTraffic, TagValue, Tunnel, Upgrade};
pub use upstream::{
    CircuitBreaker, DnsFamily, DnsSettings, HealthCheck, HealthLog, Http1Upstream, Http2Keepalive, Http2Settings,
    HttpProbe, HttpVersion, LoadBalancing, OutlierDetection, Payload, Preconnect, Probe, ProxyProtocol, ReportedLoad,
    RetryBudget, TcpKeepalive, UpstreamSettings,
};
pub use workload::{
    AutoscalerSettings, BudgetSettings, ClusterSettings, ContainerSettings, ObjectPatch, PodSettings, ServiceKind,
    ServiceSettings, WorkloadKind, WorkloadSettings,
};
