// Made by `cargo xtask gen`.
pub mod cel {
    pub mod expr {
        include!("cel.expr.rs");
    }
}
pub mod envoy {
    pub mod admin {
        pub mod v3 {
            include!("envoy.admin.v3.rs");
        }
    }
    pub mod config {
        pub mod accesslog {
            pub mod v3 {
                include!("envoy.config.accesslog.v3.rs");
            }
        }
        pub mod bootstrap {
            pub mod v3 {
                include!("envoy.config.bootstrap.v3.rs");
            }
        }
        pub mod cluster {
            pub mod v3 {
                include!("envoy.config.cluster.v3.rs");
            }
        }
        pub mod common {
            pub mod key_value {
                pub mod v3 {
                    include!("envoy.config.common.key_value.v3.rs");
                }
            }
            pub mod matcher {
                pub mod v3 {
                    include!("envoy.config.common.matcher.v3.rs");
                }
            }
            pub mod mutation_rules {
                pub mod v3 {
                    include!("envoy.config.common.mutation_rules.v3.rs");
                }
            }
        }
        pub mod core {
            pub mod v3 {
                include!("envoy.config.core.v3.rs");
            }
        }
        pub mod endpoint {
            pub mod v3 {
                include!("envoy.config.endpoint.v3.rs");
            }
        }
        pub mod listener {
            pub mod v3 {
                include!("envoy.config.listener.v3.rs");
            }
        }
        pub mod metrics {
            pub mod v3 {
                include!("envoy.config.metrics.v3.rs");
            }
        }
        pub mod overload {
            pub mod v3 {
                include!("envoy.config.overload.v3.rs");
            }
        }
        pub mod ratelimit {
            pub mod v3 {
                include!("envoy.config.ratelimit.v3.rs");
            }
        }
        pub mod rbac {
            pub mod v3 {
                include!("envoy.config.rbac.v3.rs");
            }
        }
        pub mod route {
            pub mod v3 {
                include!("envoy.config.route.v3.rs");
            }
        }
        pub mod tap {
            pub mod v3 {
                include!("envoy.config.tap.v3.rs");
            }
        }
        pub mod trace {
            pub mod v3 {
                include!("envoy.config.trace.v3.rs");
            }
        }
    }
    pub mod data {
        pub mod accesslog {
            pub mod v3 {
                include!("envoy.data.accesslog.v3.rs");
            }
        }
    }
    pub mod extensions {
        pub mod access_loggers {
            pub mod file {
                pub mod v3 {
                    include!("envoy.extensions.access_loggers.file.v3.rs");
                }
            }
            pub mod filters {
                pub mod cel {
                    pub mod v3 {
                        include!("envoy.extensions.access_loggers.filters.cel.v3.rs");
                    }
                }
            }
            pub mod grpc {
                pub mod v3 {
                    include!("envoy.extensions.access_loggers.grpc.v3.rs");
                }
            }
            pub mod open_telemetry {
                pub mod v3 {
                    include!("envoy.extensions.access_loggers.open_telemetry.v3.rs");
                }
            }
            pub mod stream {
                pub mod v3 {
                    include!("envoy.extensions.access_loggers.stream.v3.rs");
                }
            }
        }
        pub mod clusters {
            pub mod common {
                pub mod dns {
                    pub mod v3 {
                        include!("envoy.extensions.clusters.common.dns.v3.rs");
                    }
                }
            }
            pub mod dns {
                pub mod v3 {
                    include!("envoy.extensions.clusters.dns.v3.rs");
                }
            }
            pub mod dynamic_forward_proxy {
                pub mod v3 {
                    include!("envoy.extensions.clusters.dynamic_forward_proxy.v3.rs");
                }
            }
        }
        pub mod common {
            pub mod dynamic_forward_proxy {
                pub mod v3 {
                    include!("envoy.extensions.common.dynamic_forward_proxy.v3.rs");
                }
            }
            pub mod ratelimit {
                pub mod v3 {
                    include!("envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
        pub mod compression {
            pub mod brotli {
                pub mod compressor {
                    pub mod v3 {
                        include!("envoy.extensions.compression.brotli.compressor.v3.rs");
                    }
                }
            }
            pub mod gzip {
                pub mod compressor {
                    pub mod v3 {
                        include!("envoy.extensions.compression.gzip.compressor.v3.rs");
                    }
                }
            }
            pub mod zstd {
                pub mod compressor {
                    pub mod v3 {
                        include!("envoy.extensions.compression.zstd.compressor.v3.rs");
                    }
                }
            }
        }
        pub mod dynamic_modules {
            pub mod v3 {
                include!("envoy.extensions.dynamic_modules.v3.rs");
            }
        }
        pub mod filters {
            pub mod common {
                pub mod fault {
                    pub mod v3 {
                        include!("envoy.extensions.filters.common.fault.v3.rs");
                    }
                }
            }
            pub mod http {
                pub mod admission_control {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.admission_control.v3.rs");
                    }
                }
                pub mod api_key_auth {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.api_key_auth.v3.rs");
                    }
                }
                pub mod bandwidth_limit {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.bandwidth_limit.v3.rs");
                    }
                }
                pub mod basic_auth {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.basic_auth.v3.rs");
                    }
                }
                pub mod buffer {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.buffer.v3.rs");
                    }
                }
                pub mod compressor {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.compressor.v3.rs");
                    }
                }
                pub mod cors {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.cors.v3.rs");
                    }
                }
                pub mod credential_injector {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.credential_injector.v3.rs");
                    }
                }
                pub mod csrf {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.csrf.v3.rs");
                    }
                }
                pub mod custom_response {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.custom_response.v3.rs");
                    }
                }
                pub mod dynamic_forward_proxy {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.dynamic_forward_proxy.v3.rs");
                    }
                }
                pub mod dynamic_modules {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.dynamic_modules.v3.rs");
                    }
                }
                pub mod ext_authz {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.ext_authz.v3.rs");
                    }
                }
                pub mod ext_proc {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.ext_proc.v3.rs");
                    }
                }
                pub mod fault {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.fault.v3.rs");
                    }
                }
                pub mod geoip {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.geoip.v3.rs");
                    }
                }
                pub mod grpc_stats {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.grpc_stats.v3.rs");
                    }
                }
                pub mod grpc_web {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.grpc_web.v3.rs");
                    }
                }
                pub mod header_mutation {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.header_mutation.v3.rs");
                    }
                }
                pub mod health_check {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.health_check.v3.rs");
                    }
                }
                pub mod jwt_authn {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.jwt_authn.v3.rs");
                    }
                }
                pub mod local_ratelimit {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.local_ratelimit.v3.rs");
                    }
                }
                pub mod lua {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.lua.v3.rs");
                    }
                }
                pub mod oauth2 {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.oauth2.v3.rs");
                    }
                }
                pub mod ratelimit {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.ratelimit.v3.rs");
                    }
                }
                pub mod rbac {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.rbac.v3.rs");
                    }
                }
                pub mod router {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.router.v3.rs");
                    }
                }
                pub mod stateful_session {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.stateful_session.v3.rs");
                    }
                }
                pub mod wasm {
                    pub mod v3 {
                        include!("envoy.extensions.filters.http.wasm.v3.rs");
                    }
                }
            }
            pub mod listener {
                pub mod proxy_protocol {
                    pub mod v3 {
                        include!("envoy.extensions.filters.listener.proxy_protocol.v3.rs");
                    }
                }
                pub mod tls_inspector {
                    pub mod v3 {
                        include!("envoy.extensions.filters.listener.tls_inspector.v3.rs");
                    }
                }
            }
            pub mod network {
                pub mod connection_limit {
                    pub mod v3 {
                        include!("envoy.extensions.filters.network.connection_limit.v3.rs");
                    }
                }
                pub mod http_connection_manager {
                    pub mod v3 {
                        include!("envoy.extensions.filters.network.http_connection_manager.v3.rs");
                    }
                }
                pub mod rbac {
                    pub mod v3 {
                        include!("envoy.extensions.filters.network.rbac.v3.rs");
                    }
                }
                pub mod sni_dynamic_forward_proxy {
                    pub mod v3 {
                        include!("envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.rs");
                    }
                }
                pub mod tcp_proxy {
                    pub mod v3 {
                        include!("envoy.extensions.filters.network.tcp_proxy.v3.rs");
                    }
                }
            }
            pub mod udp {
                pub mod udp_proxy {
                    pub mod v3 {
                        include!("envoy.extensions.filters.udp.udp_proxy.v3.rs");
                    }
                }
            }
        }
        pub mod formatter {
            pub mod cel {
                pub mod v3 {
                    include!("envoy.extensions.formatter.cel.v3.rs");
                }
            }
            pub mod req_without_query {
                pub mod v3 {
                    include!("envoy.extensions.formatter.req_without_query.v3.rs");
                }
            }
        }
        pub mod geoip_providers {
            pub mod common {
                pub mod v3 {
                    include!("envoy.extensions.geoip_providers.common.v3.rs");
                }
            }
            pub mod maxmind {
                pub mod v3 {
                    include!("envoy.extensions.geoip_providers.maxmind.v3.rs");
                }
            }
        }
        pub mod health_check {
            pub mod event_sinks {
                pub mod file {
                    pub mod v3 {
                        include!("envoy.extensions.health_check.event_sinks.file.v3.rs");
                    }
                }
            }
        }
        pub mod http {
            pub mod custom_response {
                pub mod local_response_policy {
                    pub mod v3 {
                        include!("envoy.extensions.http.custom_response.local_response_policy.v3.rs");
                    }
                }
                pub mod redirect_policy {
                    pub mod v3 {
                        include!("envoy.extensions.http.custom_response.redirect_policy.v3.rs");
                    }
                }
            }
            pub mod early_header_mutation {
                pub mod header_mutation {
                    pub mod v3 {
                        include!("envoy.extensions.http.early_header_mutation.header_mutation.v3.rs");
                    }
                }
            }
            pub mod header_formatters {
                pub mod preserve_case {
                    pub mod v3 {
                        include!("envoy.extensions.http.header_formatters.preserve_case.v3.rs");
                    }
                }
            }
            pub mod injected_credentials {
                pub mod generic {
                    pub mod v3 {
                        include!("envoy.extensions.http.injected_credentials.generic.v3.rs");
                    }
                }
            }
            pub mod original_ip_detection {
                pub mod custom_header {
                    pub mod v3 {
                        include!("envoy.extensions.http.original_ip_detection.custom_header.v3.rs");
                    }
                }
                pub mod xff {
                    pub mod v3 {
                        include!("envoy.extensions.http.original_ip_detection.xff.v3.rs");
                    }
                }
            }
            pub mod stateful_session {
                pub mod cookie {
                    pub mod v3 {
                        include!("envoy.extensions.http.stateful_session.cookie.v3.rs");
                    }
                }
                pub mod header {
                    pub mod v3 {
                        include!("envoy.extensions.http.stateful_session.header.v3.rs");
                    }
                }
            }
        }
        pub mod load_balancing_policies {
            pub mod client_side_weighted_round_robin {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.rs");
                }
            }
            pub mod common {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.common.v3.rs");
                }
            }
            pub mod least_request {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.least_request.v3.rs");
                }
            }
            pub mod maglev {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.maglev.v3.rs");
                }
            }
            pub mod override_host {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.override_host.v3.rs");
                }
            }
            pub mod random {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.random.v3.rs");
                }
            }
            pub mod ring_hash {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.ring_hash.v3.rs");
                }
            }
            pub mod round_robin {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.round_robin.v3.rs");
                }
            }
            pub mod wrr_locality {
                pub mod v3 {
                    include!("envoy.extensions.load_balancing_policies.wrr_locality.v3.rs");
                }
            }
        }
        pub mod matching {
            pub mod common_inputs {
                pub mod network {
                    pub mod v3 {
                        include!("envoy.extensions.matching.common_inputs.network.v3.rs");
                    }
                }
            }
            pub mod input_matchers {
                pub mod consistent_hashing {
                    pub mod v3 {
                        include!("envoy.extensions.matching.input_matchers.consistent_hashing.v3.rs");
                    }
                }
            }
        }
        pub mod request_id {
            pub mod uuid {
                pub mod v3 {
                    include!("envoy.extensions.request_id.uuid.v3.rs");
                }
            }
        }
        pub mod resource_monitors {
            pub mod downstream_connections {
                pub mod v3 {
                    include!("envoy.extensions.resource_monitors.downstream_connections.v3.rs");
                }
            }
        }
        pub mod retry {
            pub mod host {
                pub mod previous_hosts {
                    pub mod v3 {
                        include!("envoy.extensions.retry.host.previous_hosts.v3.rs");
                    }
                }
            }
            pub mod priority {
                pub mod previous_priorities {
                    pub mod v3 {
                        include!("envoy.extensions.retry.priority.previous_priorities.v3.rs");
                    }
                }
            }
        }
        pub mod stat_sinks {
            pub mod open_telemetry {
                pub mod v3 {
                    include!("envoy.extensions.stat_sinks.open_telemetry.v3.rs");
                }
            }
        }
        pub mod tracers {
            pub mod opentelemetry {
                pub mod resource_detectors {
                    pub mod v3 {
                        include!("envoy.extensions.tracers.opentelemetry.resource_detectors.v3.rs");
                    }
                }
                pub mod samplers {
                    pub mod v3 {
                        include!("envoy.extensions.tracers.opentelemetry.samplers.v3.rs");
                    }
                }
            }
        }
        pub mod transport_sockets {
            pub mod proxy_protocol {
                pub mod v3 {
                    include!("envoy.extensions.transport_sockets.proxy_protocol.v3.rs");
                }
            }
            pub mod quic {
                pub mod v3 {
                    include!("envoy.extensions.transport_sockets.quic.v3.rs");
                }
            }
            pub mod raw_buffer {
                pub mod v3 {
                    include!("envoy.extensions.transport_sockets.raw_buffer.v3.rs");
                }
            }
            pub mod tls {
                pub mod v3 {
                    include!("envoy.extensions.transport_sockets.tls.v3.rs");
                }
            }
        }
        pub mod upstreams {
            pub mod http {
                pub mod v3 {
                    include!("envoy.extensions.upstreams.http.v3.rs");
                }
            }
        }
        pub mod wasm {
            pub mod v3 {
                include!("envoy.extensions.wasm.v3.rs");
            }
        }
    }
    pub mod r#type {
        pub mod http {
            pub mod v3 {
                include!("envoy.type.http.v3.rs");
            }
        }
        pub mod matcher {
            pub mod v3 {
                include!("envoy.type.matcher.v3.rs");
            }
        }
        pub mod metadata {
            pub mod v3 {
                include!("envoy.type.metadata.v3.rs");
            }
        }
        pub mod tracing {
            pub mod v3 {
                include!("envoy.type.tracing.v3.rs");
            }
        }
        pub mod v3 {
            include!("envoy.type.v3.rs");
        }
    }
    pub mod service {
        pub mod accesslog {
            pub mod v3 {
                include!("envoy.service.accesslog.v3.rs");
            }
        }
        pub mod auth {
            pub mod v3 {
                include!("envoy.service.auth.v3.rs");
            }
        }
        pub mod discovery {
            pub mod v3 {
                include!("envoy.service.discovery.v3.rs");
            }
        }
        pub mod ext_proc {
            pub mod v3 {
                include!("envoy.service.ext_proc.v3.rs");
            }
        }
        pub mod ratelimit {
            pub mod v3 {
                include!("envoy.service.ratelimit.v3.rs");
            }
        }
        pub mod secret {
            pub mod v3 {
                include!("envoy.service.secret.v3.rs");
            }
        }
    }
}
pub mod google {
    pub mod api {
        pub mod expr {
            pub mod v1alpha1 {
                include!("google.api.expr.v1alpha1.rs");
            }
        }
    }
    pub mod protobuf {
        include!("google.protobuf.rs");
    }
    pub mod rpc {
        include!("google.rpc.rs");
    }
}
pub mod opentelemetry {
    pub mod proto {
        pub mod common {
            pub mod v1 {
                include!("opentelemetry.proto.common.v1.rs");
            }
        }
    }
}
pub mod ratelimit {
    pub mod config {
        pub mod ratelimit {
            pub mod v3 {
                include!("ratelimit.config.ratelimit.v3.rs");
            }
        }
    }
}
pub mod validate {
    include!("validate.rs");
}
pub mod xds {
    pub mod core {
        pub mod v3 {
            include!("xds.core.v3.rs");
        }
    }
    pub mod r#type {
        pub mod matcher {
            pub mod v3 {
                include!("xds.type.matcher.v3.rs");
            }
        }
        pub mod v3 {
            include!("xds.type.v3.rs");
        }
    }
}
