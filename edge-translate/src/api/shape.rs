//! Shapes that several types have besides fields of their own, each written once.
//!
//! As macros and not as inner structs: `serde(flatten)` would read such a type through a buffer, which forgets the
//! places of faults and calls no field unknown.

/// Declares a reference to a backend with further fields.
macro_rules! backend_ref {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// API group; empty is core.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub group: crate::api::text::Symbol,
            /// Kind.
            #[serde(default = "crate::api::shape::service_kind")]
            pub kind: crate::api::text::Symbol,
            /// Name.
            pub name: crate::api::Text,
            /// Namespace; absent means that of the referrer.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub namespace: Option<crate::api::Text>,
            /// Port; required for Services.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub port: Option<u16>,
            $($own)*
        }

        impl $name {
            /// What it refers to.
            pub fn target(&self) -> crate::api::shape::BackendTarget<'_> {
                crate::api::shape::BackendTarget {
                    group: &self.group,
                    kind: &self.kind,
                    namespace: self.namespace.as_deref(),
                    name: &self.name,
                    port: self.port,
                }
            }
        }
    };
}
pub(crate) use backend_ref;

/// What a reference to a backend refers to, whatever the type of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendTarget<'a> {
    /// API group; empty is core.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace; absent means that of the referrer.
    pub namespace: Option<&'a str>,
    /// Name.
    pub name: &'a str,
    /// Port; required for Services.
    pub port: Option<u16>,
}

/// A service by its backends, whatever the type that names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backends<'a> {
    /// Older form of the list.
    pub single: Option<&'a crate::api::cluster_settings::BackendRef>,
    /// The backends.
    pub listed: &'a [crate::api::cluster_settings::BackendRef],
    /// Settings of the connections to them.
    pub settings: Option<&'a crate::api::cluster_settings::ClusterSettings>,
}

/// Declares a service that data is sent to, with further fields.
macro_rules! collector {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Older form of `backendRefs`.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub backend_ref: Option<Box<crate::api::cluster_settings::BackendRef>>,
            /// The service.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub backend_refs: Box<[crate::api::cluster_settings::BackendRef]>,
            /// Settings of the connections to it.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub backend_settings: Option<Box<crate::api::cluster_settings::ClusterSettings>>,
            $($own)*
        }

        impl $name {
            /// The service by its backends.
            pub fn backends(&self) -> crate::api::shape::Backends<'_> {
                crate::api::shape::Backends {
                    single: self.backend_ref.as_deref(),
                    listed: &self.backend_refs,
                    settings: self.backend_settings.as_deref(),
                }
            }
        }
    };
}
pub(crate) use collector;

/// Declares a service that data is sent to by OTLP, with further fields.
macro_rules! otlp_collector {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        crate::api::shape::collector! {
            $(#[$meta])*
            pub struct $name {
                /// Older form of `backendRefs`.
                #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
                pub host: Option<crate::api::Text>,
                /// Port of `host`.
                #[serde(default = "crate::api::shape::otlp")]
                pub port: u16,
                $($own)*
            }
        }

        impl $name {
            /// The service by its address, the older form.
            pub fn address(&self) -> Option<(&str, u16)> {
                Some((self.host.as_deref()?, self.port))
            }
        }
    };
}
pub(crate) use otlp_collector;

/// What spans tell, whatever the type that says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spans<'a> {
    /// Share of requests.
    pub sampling: Option<&'a crate::api::route_filter::Fraction>,
    /// Share of client-forced traces that are honoured.
    pub client_sampling: Option<&'a crate::api::route_filter::Fraction>,
    /// Upper bound after the others.
    pub overall_sampling: Option<&'a crate::api::route_filter::Fraction>,
    /// Older form of `tags`.
    pub custom_tags: &'a std::collections::BTreeMap<crate::api::Text, crate::api::edge_proxy::tracing::CustomTag>,
    /// Span tags with command operators.
    pub tags: &'a crate::api::string_map::StringMap,
    /// Names of spans.
    pub span_name: Option<&'a crate::api::edge_proxy::tracing::SpanName>,
}

/// Declares traces of requests, with further fields.
macro_rules! traces {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Share of requests.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub sampling_fraction: Option<crate::api::route_filter::Fraction>,
            /// Share of client-forced traces that are honoured.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub client_sampling_fraction: Option<crate::api::route_filter::Fraction>,
            /// Upper bound after the others.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub overall_sampling_fraction: Option<crate::api::route_filter::Fraction>,
            /// Older form of `tags`.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub custom_tags: std::collections::BTreeMap<crate::api::Text, crate::api::edge_proxy::tracing::CustomTag>,
            /// Span tags with command operators.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub tags: crate::api::string_map::StringMap,
            /// Names of spans.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub span_name: Option<crate::api::edge_proxy::tracing::SpanName>,
            $($own)*
        }

        impl $name {
            /// What spans tell.
            pub fn spans(&self) -> crate::api::shape::Spans<'_> {
                crate::api::shape::Spans {
                    sampling: self.sampling_fraction.as_ref(),
                    client_sampling: self.client_sampling_fraction.as_ref(),
                    overall_sampling: self.overall_sampling_fraction.as_ref(),
                    custom_tags: &self.custom_tags,
                    tags: &self.tags,
                    span_name: self.span_name.as_ref(),
                }
            }
        }
    };
}
pub(crate) use traces;

/// Declares settings of the connections to a backend, with further fields.
macro_rules! cluster_settings {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($own)*
            /// How an endpoint is chosen; least request when absent.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub load_balancer: Option<Box<crate::api::load_balancer::LoadBalancer>>,
            /// Retries.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub retry: Option<Box<crate::api::cluster_settings::Retry>>,
            /// PROXY header for the backend.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub proxy_protocol: Option<crate::api::cluster_settings::ProxyProtocol>,
            /// TCP keepalive.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub tcp_keepalive: Option<Box<crate::api::cluster_settings::TcpKeepalive>>,
            /// Active and passive health checks.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub health_check: Option<Box<crate::api::health_check::HealthCheck>>,
            /// Limits.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub circuit_breaker: Option<Box<crate::api::cluster_settings::CircuitBreaker>>,
            /// Time limits.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub timeout: Option<Box<crate::api::cluster_settings::Timeout>>,
            /// Buffers and preconnecting.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub connection: Option<Box<crate::api::cluster_settings::BackendConnection>>,
            /// Name resolution.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub dns: Option<crate::api::cluster_settings::Dns>,
            /// HTTP/2.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub http2: Option<Box<crate::api::cluster_settings::Http2Settings>>,
        }
    };
}
pub(crate) use cluster_settings;

/// Settings of TLS connections, whatever the type that has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TlsSettings<'a> {
    /// Client certificate.
    pub client_certificate_ref: Option<&'a crate::api::meta::SecretRef>,
    /// Lowest version.
    pub min_version: Option<&'a crate::api::tls::TlsVersion>,
    /// Highest version.
    pub max_version: Option<&'a crate::api::tls::TlsVersion>,
    /// Cipher suites up to TLS 1.2.
    pub ciphers: &'a [crate::api::Text],
    /// Key exchange groups.
    pub ecdh_curves: &'a [crate::api::Text],
    /// Signature algorithms.
    pub signature_algorithms: &'a [crate::api::Text],
    /// Protocols offered; an empty list offers none.
    pub alpn_protocols: Option<&'a [crate::api::tls::AlpnProtocol]>,
    /// Client fingerprints to compute (listeners).
    pub fingerprints: &'a [crate::api::tls::TlsFingerprint],
}

/// Declares settings of TLS connections, with further fields.
macro_rules! tls_settings {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($own)*
            /// Client certificate.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub client_certificate_ref: Option<Box<crate::api::meta::SecretRef>>,
            /// Lowest version.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub min_version: Option<crate::api::tls::TlsVersion>,
            /// Highest version.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub max_version: Option<crate::api::tls::TlsVersion>,
            /// Cipher suites up to TLS 1.2.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub ciphers: Box<[crate::api::Text]>,
            /// Key exchange groups.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub ecdh_curves: Box<[crate::api::Text]>,
            /// Signature algorithms.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub signature_algorithms: Box<[crate::api::Text]>,
            /// Protocols offered; an empty list offers none.
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub alpn_protocols: Option<Box<[crate::api::tls::AlpnProtocol]>>,
            /// Client fingerprints to compute (listeners).
            #[serde(default, skip_serializing_if = "crate::api::text::is_default")]
            pub fingerprints: Box<[crate::api::tls::TlsFingerprint]>,
        }

        impl $name {
            /// What it says of TLS connections.
            pub fn settings(&self) -> crate::api::shape::TlsSettings<'_> {
                crate::api::shape::TlsSettings {
                    client_certificate_ref: self.client_certificate_ref.as_deref(),
                    min_version: self.min_version.as_ref(),
                    max_version: self.max_version.as_ref(),
                    ciphers: &self.ciphers,
                    ecdh_curves: &self.ecdh_curves,
                    signature_algorithms: &self.signature_algorithms,
                    alpn_protocols: self.alpn_protocols.as_deref(),
                    fingerprints: &self.fingerprints,
                }
            }
        }
    };
}
pub(crate) use tls_settings;

/// The kind of a backend that says none.
pub(crate) fn service_kind() -> crate::api::text::Symbol {
    crate::api::text::Symbol::new("Service")
}

/// The port of OTLP over gRPC.
pub(crate) fn otlp() -> u16 {
    4317
}
