//! Resource types: what is read of every kind, once, for files, clusters and the command line alike.
//!
//! Our own small structs instead of generated ones, because tens of thousands of routes are held in memory and only
//! part of each kind matters. Three rules shape them: CRD defaults are filled in while reading, so that nobody
//! downstream asks what absence means; enums are open, so that one odd value is a finding on its object and not a
//! lost object; rare parts sit behind a `Box`. Checks beyond the shape (bounds, patterns, cross-field rules) are
//! deliberately absent: they belong to validation, which can name a condition.

pub mod admission;
pub mod backend;
pub mod backend_telemetry;
pub mod backend_traffic;
pub mod client_headers;
pub mod client_tls;
pub mod client_traffic;
pub mod cluster_settings;
pub mod core;
pub mod custom;
pub mod edge_patch_policy;
pub mod edge_proxy;
pub mod extension;
pub mod fault;
pub mod gateway;
pub mod grants;
pub mod health_check;
pub mod http_route;
pub mod http_route_filter;
pub mod label;
pub mod list;
pub mod load_balancer;
pub mod meta;
pub mod object;
pub mod policy;
pub mod rate_limit;
pub mod response;
pub mod route_filter;
pub mod routes;
pub mod secret;
pub mod security;
pub mod shape;
mod string_map;
pub mod string_match;
pub mod text;
pub mod tls;

pub use edge_ir::Text;

pub use backend::{
    AppProtocol, Backend, BackendEndpoint, BackendSpec, BackendTlsSettings, BackendType, FqdnEndpoint, IpEndpoint,
    UnixSocket,
};
pub use backend_traffic::{BackendTrafficPolicy, BackendTrafficPolicySpec, Unread};
pub use client_headers::HeaderSettings;
pub use client_tls::{ClientTlsSettings, ClientValidationContext, ClientValidationMode};
pub use client_traffic::ClientTrafficPolicySpec;
pub use core::{
    AddressFamily, ClusterTrustBundle, ConfigMap, Endpoint, EndpointConditions, EndpointPort, EndpointSlice,
    IpProtocol, Namespace, Service, ServiceImport, ServicePort, ServiceSpec, ServiceType,
};
pub(crate) use custom::key_name as custom_key_name;
pub use custom::{CustomKind, CustomObject, CustomRole};
pub use edge_patch_policy::{EdgePatchPolicy, EdgePatchPolicySpec, EdgePatchType, PatchTarget, ResourcePatch};
pub use edge_proxy::{EdgeProxy, EdgeProxySpec, IpFamily, RoutingType};
pub use gateway::{
    AddressType, AllowedListeners, AllowedRoutes, CLASS_IN_USE, FromNamespaces, FrontendTls, FrontendTlsConfig,
    FrontendTlsValidation, FrontendValidationMode, Gateway, GatewayAddress, GatewayClass, GatewayClassSpec,
    GatewayInfrastructure, GatewaySpec, GatewayTls, Listener, ListenerSet, ListenerSetParentRef, ListenerSetSpec,
    ListenerTls, ParametersRef, Protocol, RouteGroupKind, RouteNamespaces, TlsMode,
};
pub use grants::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendTlsValidation, GrantFrom, GrantTo, PolicyTargetRef, ReferenceGrant,
    ReferenceGrantSpec, SubjectAltName, SubjectAltNameType, WellKnownCa,
};
pub use http_route::{
    CookieLifetime, CookieSession, HttpHeaderMatch, HttpMethod, HttpPathMatch, HttpQueryParamMatch, HttpRoute,
    HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, MatchType, PathMatchType,
    RouteBackendRef, SessionPersistence, SessionPersistenceType,
};
pub use http_route_filter::{
    CookieMatch, DirectResponseFilter, HostModifier, HostModifierType, HttpRouteFilter, RegexPathModifier,
    RegexPathModifierType, RegexReplacement, ResponseText, ResponseTextType, UrlRewriteFilter,
};
pub use meta::{
    LabelOperator, LabelRequirement, LabelSelector, LocalObjectRef, Metadata, ObjectRef, ParentReference, SecretRef,
    StatusAsRead, Timestamp,
};
pub use object::{Generic, Kind, Object, ObjectKey, Scope};
pub use policy::{MergeType, PolicyTargets, TargetNamespaces, TargetRef, TargetSelector, TargetsFrom};
pub use route_filter::{
    CorsFilter, ExternalAuth, ExternalAuthProtocol, Fraction, HeaderModifier, HttpHeader, MirrorBackendRef,
    PathModifier, PathModifierType, RequestMirror, RequestRedirect, RouteFilter, RouteFilterType, UrlRewrite,
};
pub use routes::{
    GrpcHeaderMatch, GrpcMethodMatch, GrpcRoute, GrpcRouteMatch, GrpcRouteRule, GrpcRouteSpec, StreamRouteSpec,
    StreamRule, TcpRoute, TlsRoute, TlsRouteSpec, UdpRoute,
};
pub(crate) use secret::decoded;
pub use secret::{Secret, SecretData};
pub use shape::BackendTarget;
pub use string_map::StringMap;
pub use text::{DurationText, Hostname, IntOrText, Quantity, Symbol, TextError};
pub use tls::{AlpnProtocol, BackendTlsConfig, TlsFingerprint, TlsVersion};

/// The release of Gateway API whose kinds and conditions we follow.
pub const GATEWAY_API_VERSION: &str = "v1.7.0";
