//! The closed set of names, by scope.

use crate::stats::{Counter, Gauge, Histogram, HistogramValue, Merge, Scope, Value};

macro_rules! cell_type {
    (counter) => {
        Counter
    };
    (gauge) => {
        Gauge
    };
    (histogram) => {
        Histogram
    };
}

macro_rules! merged {
    (counter, $scope:expr, $field:ident) => {
        Value::Counter($scope.all().map(|cells| cells.$field.get()).fold(0, u64::wrapping_add))
    };
    (gauge, $scope:expr, $field:ident) => {
        Value::Gauge($scope.all().map(|cells| cells.$field.get()).fold(0, i64::wrapping_add))
    };
    (histogram, $scope:expr, $field:ident) => {
        Value::Histogram(Box::new($scope.all().fold(
            HistogramValue::default(),
            |mut sum, cells| {
                sum.add(&cells.$field);
                sum
            },
        )))
    };
}

macro_rules! cells {
    ($(#[$doc:meta])* $cells:ident / $(#[$scope_doc:meta])* $scope:ident { $($kind:ident $field:ident = $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $cells {
            $(#[doc = concat!("`", $name, "`")] pub $field: cell_type!($kind),)*
        }

        $(#[$scope_doc])*
        pub type $scope = Scope<$cells>;

        const _: () = assert!(<$scope as Merge>::NAMES.len() <= u128::BITS as usize);

        impl Merge for $scope {
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn merge(&self, visit: &mut dyn FnMut(&'static str, Value)) {
                $(visit($name, merged!($kind, self, $field));)*
            }
        }
    };
}

cells! {
    /// Cells of a cluster.
    ClusterCells / /** `cluster.<name>.` */ ClusterStats {
        counter upstream_cx_total = "upstream_cx_total";
        counter upstream_cx_http1_total = "upstream_cx_http1_total";
        counter upstream_cx_http2_total = "upstream_cx_http2_total";
        counter upstream_cx_connect_fail = "upstream_cx_connect_fail";
        counter upstream_cx_connect_timeout = "upstream_cx_connect_timeout";
        counter upstream_cx_overflow = "upstream_cx_overflow";
        counter upstream_cx_destroy = "upstream_cx_destroy";
        counter upstream_cx_idle_timeout = "upstream_cx_idle_timeout";
        counter upstream_cx_max_requests = "upstream_cx_max_requests";
        counter upstream_cx_max_duration_reached = "upstream_cx_max_duration_reached";
        counter upstream_cx_none_healthy = "upstream_cx_none_healthy";
        counter upstream_cx_connect_attempts_exceeded = "upstream_cx_connect_attempts_exceeded";
        counter upstream_cx_rx_bytes_total = "upstream_cx_rx_bytes_total";
        counter upstream_cx_tx_bytes_total = "upstream_cx_tx_bytes_total";
        gauge upstream_cx_active = "upstream_cx_active";
        counter upstream_rq_total = "upstream_rq_total";
        counter upstream_rq_1xx = "upstream_rq_1xx";
        counter upstream_rq_2xx = "upstream_rq_2xx";
        counter upstream_rq_3xx = "upstream_rq_3xx";
        counter upstream_rq_4xx = "upstream_rq_4xx";
        counter upstream_rq_5xx = "upstream_rq_5xx";
        counter upstream_rq_completed = "upstream_rq_completed";
        counter upstream_rq_cancelled = "upstream_rq_cancelled";
        counter upstream_rq_timeout = "upstream_rq_timeout";
        counter upstream_rq_per_try_timeout = "upstream_rq_per_try_timeout";
        counter upstream_rq_max_duration_reached = "upstream_rq_max_duration_reached";
        counter upstream_rq_rx_reset = "upstream_rq_rx_reset";
        counter upstream_rq_tx_reset = "upstream_rq_tx_reset";
        counter upstream_rq_retry = "upstream_rq_retry";
        counter upstream_rq_retry_success = "upstream_rq_retry_success";
        counter upstream_rq_retry_limit_exceeded = "upstream_rq_retry_limit_exceeded";
        counter upstream_rq_retry_overflow = "upstream_rq_retry_overflow";
        counter upstream_rq_pending_overflow = "upstream_rq_pending_overflow";
        counter upstream_rq_pending_failure_eject = "upstream_rq_pending_failure_eject";
        gauge upstream_rq_active = "upstream_rq_active";
        gauge upstream_rq_pending_active = "upstream_rq_pending_active";
        gauge membership_total = "membership_total";
        gauge membership_healthy = "membership_healthy";
        gauge membership_degraded = "membership_degraded";
        gauge membership_excluded = "membership_excluded";
        counter membership_change = "membership_change";
        counter health_check_attempt = "health_check.attempt";
        counter health_check_success = "health_check.success";
        counter health_check_failure = "health_check.failure";
        counter health_check_passive_failure = "health_check.passive_failure";
        counter health_check_network_failure = "health_check.network_failure";
        gauge health_check_healthy = "health_check.healthy";
        gauge health_check_degraded = "health_check.degraded";
        gauge outlier_ejections_active = "outlier_detection.ejections_active";
        counter outlier_ejections_overflow = "outlier_detection.ejections_overflow";
        counter outlier_enforced_total = "outlier_detection.ejections_enforced_total";
        counter outlier_detected_5xx = "outlier_detection.ejections_detected_consecutive_5xx";
        counter outlier_enforced_5xx = "outlier_detection.ejections_enforced_consecutive_5xx";
        counter outlier_detected_gateway = "outlier_detection.ejections_detected_consecutive_gateway_failure";
        counter outlier_enforced_gateway = "outlier_detection.ejections_enforced_consecutive_gateway_failure";
        counter outlier_detected_local = "outlier_detection.ejections_detected_consecutive_local_origin_failure";
        counter outlier_enforced_local = "outlier_detection.ejections_enforced_consecutive_local_origin_failure";
        counter outlier_detected_success_rate = "outlier_detection.ejections_detected_success_rate";
        counter outlier_enforced_success_rate = "outlier_detection.ejections_enforced_success_rate";
        counter outlier_detected_local_success_rate = "outlier_detection.ejections_detected_local_origin_success_rate";
        counter outlier_enforced_local_success_rate = "outlier_detection.ejections_enforced_local_origin_success_rate";
        counter outlier_detected_failure_percentage = "outlier_detection.ejections_detected_failure_percentage";
        counter outlier_enforced_failure_percentage = "outlier_detection.ejections_enforced_failure_percentage";
        counter outlier_detected_local_failure_percentage = "outlier_detection.ejections_detected_local_origin_failure_percentage";
        counter outlier_enforced_local_failure_percentage = "outlier_detection.ejections_enforced_local_origin_failure_percentage";
        counter update_attempt = "update_attempt";
        counter update_success = "update_success";
        counter update_failure = "update_failure";
        counter udp_sess_rx_datagrams = "udp.sess_rx_datagrams";
        counter udp_sess_rx_datagrams_dropped = "udp.sess_rx_datagrams_dropped";
        counter udp_sess_rx_errors = "udp.sess_rx_errors";
        counter udp_sess_tx_datagrams = "udp.sess_tx_datagrams";
        counter udp_sess_tx_errors = "udp.sess_tx_errors";
        histogram upstream_rq_time = "upstream_rq_time";
    }
}

cells! {
    /// Cells of an HTTP connection manager.
    ConnectionManagerCells / /** `http.<stat_prefix>.` */ HttpStats {
        counter downstream_cx_total = "downstream_cx_total";
        counter downstream_cx_http1_total = "downstream_cx_http1_total";
        counter downstream_cx_http2_total = "downstream_cx_http2_total";
        counter downstream_cx_ssl_total = "downstream_cx_ssl_total";
        counter downstream_cx_destroy = "downstream_cx_destroy";
        counter downstream_cx_idle_timeout = "downstream_cx_idle_timeout";
        counter downstream_cx_max_duration_reached = "downstream_cx_max_duration_reached";
        counter downstream_cx_protocol_error = "downstream_cx_protocol_error";
        counter downstream_cx_upgrades_total = "downstream_cx_upgrades_total";
        counter downstream_cx_drain_close = "downstream_cx_drain_close";
        gauge downstream_cx_active = "downstream_cx_active";
        gauge downstream_cx_upgrades_active = "downstream_cx_upgrades_active";
        counter downstream_rq_total = "downstream_rq_total";
        counter downstream_rq_http1_total = "downstream_rq_http1_total";
        counter downstream_rq_http2_total = "downstream_rq_http2_total";
        counter downstream_rq_1xx = "downstream_rq_1xx";
        counter downstream_rq_2xx = "downstream_rq_2xx";
        counter downstream_rq_3xx = "downstream_rq_3xx";
        counter downstream_rq_4xx = "downstream_rq_4xx";
        counter downstream_rq_5xx = "downstream_rq_5xx";
        counter downstream_rq_completed = "downstream_rq_completed";
        counter downstream_rq_timeout = "downstream_rq_timeout";
        counter downstream_rq_header_timeout = "downstream_rq_header_timeout";
        counter downstream_rq_idle_timeout = "downstream_rq_idle_timeout";
        counter downstream_rq_max_duration_reached = "downstream_rq_max_duration_reached";
        counter downstream_rq_too_many_premature_resets = "downstream_rq_too_many_premature_resets";
        counter downstream_rq_non_relative_path = "downstream_rq_non_relative_path";
        counter downstream_rq_rx_reset = "downstream_rq_rx_reset";
        counter downstream_rq_too_large = "downstream_rq_too_large";
        counter downstream_rq_failed_path_normalization = "downstream_rq_failed_path_normalization";
        counter downstream_rq_redirected_with_normalized_path = "downstream_rq_redirected_with_normalized_path";
        counter downstream_rq_rejected_via_underscores = "downstream_rq_rejected_via_underscores";
        gauge downstream_rq_active = "downstream_rq_active";
        counter no_route = "no_route";
        counter no_cluster = "no_cluster";
        counter rq_direct_response = "rq_direct_response";
        counter rq_redirect = "rq_redirect";
        counter rq_total = "rq_total";
        counter tracing_random_sampling = "tracing.random_sampling";
        counter tracing_service_forced = "tracing.service_forced";
        counter tracing_client_enabled = "tracing.client_enabled";
        counter tracing_not_traceable = "tracing.not_traceable";
        counter cors_origin_valid = "cors.origin_valid";
        counter cors_origin_invalid = "cors.origin_invalid";
        histogram downstream_rq_time = "downstream_rq_time";
    }
}

cells! {
    /// Cells of a TCP proxy.
    TcpCells / /** `tcp.<stat_prefix>.` */ TcpStats {
        counter downstream_cx_total = "downstream_cx_total";
        counter downstream_cx_no_route = "downstream_cx_no_route";
        counter downstream_cx_rx_bytes_total = "downstream_cx_rx_bytes_total";
        counter downstream_cx_tx_bytes_total = "downstream_cx_tx_bytes_total";
        counter idle_timeout = "idle_timeout";
        counter max_downstream_connection_duration = "max_downstream_connection_duration";
    }
}

cells! {
    /// Cells of a UDP proxy.
    UdpCells / /** `udp.<stat_prefix>.` */ UdpStats {
        counter downstream_sess_total = "downstream_sess_total";
        gauge downstream_sess_active = "downstream_sess_active";
        counter downstream_sess_no_route = "downstream_sess_no_route";
        counter downstream_sess_rx_bytes = "downstream_sess_rx_bytes";
        counter downstream_sess_rx_datagrams = "downstream_sess_rx_datagrams";
        counter downstream_sess_rx_errors = "downstream_sess_rx_errors";
        counter downstream_sess_tx_bytes = "downstream_sess_tx_bytes";
        counter downstream_sess_tx_datagrams = "downstream_sess_tx_datagrams";
        counter downstream_sess_tx_errors = "downstream_sess_tx_errors";
        counter idle_timeout = "idle_timeout";
    }
}

cells! {
    /// Cells of a listener.
    ListenerCells / /** `listener.<address>.` */ ListenerStats {
        counter downstream_cx_total = "downstream_cx_total";
        counter downstream_cx_destroy = "downstream_cx_destroy";
        counter downstream_cx_overflow = "downstream_cx_overflow";
        counter downstream_global_cx_overflow = "downstream_global_cx_overflow";
        counter downstream_cx_overload_reject = "downstream_cx_overload_reject";
        counter downstream_cx_transport_socket_connect_timeout = "downstream_cx_transport_socket_connect_timeout";
        counter downstream_pre_cx_timeout = "downstream_pre_cx_timeout";
        counter no_filter_chain_match = "no_filter_chain_match";
        counter proxy_protocol_error = "downstream_cx_proxy_proto_error";
        counter ssl_handshake = "ssl.handshake";
        counter ssl_connection_error = "ssl.connection_error";
        gauge downstream_cx_active = "downstream_cx_active";
        gauge downstream_pre_cx_active = "downstream_pre_cx_active";
    }
}

cells! {
    /// Cells of a secret that a server beside the proxy has.
    SecretCells / /** `sds.<name>.` */ SecretStats {
        counter update_attempt = "update_attempt";
        counter update_success = "update_success";
        counter update_failure = "update_failure";
        counter update_rejected = "update_rejected";
    }
}

cells! {
    /// Cells of the process.
    ServerCells / /** Names without a varying part. */ ServerStats {
        gauge live = "server.live";
        gauge state = "server.state";
        gauge concurrency = "server.concurrency";
        gauge total_connections = "server.total_connections";
        gauge workers_started = "listener_manager.workers_started";
        gauge total_listeners_active = "listener_manager.total_listeners_active";
        gauge total_listeners_draining = "listener_manager.total_listeners_draining";
        counter access_log_buffered = "filesystem.write_buffered";
        counter access_log_dropped = "filesystem.write_dropped";
        counter access_log_failed = "filesystem.write_failed";
        counter service_logs_written = "access_logs.grpc_access_log.logs_written";
        counter service_logs_dropped = "access_logs.grpc_access_log.logs_dropped";
        counter otlp_logs_written = "access_logs.open_telemetry_access_log.logs_written";
        counter otlp_logs_dropped = "access_logs.open_telemetry_access_log.logs_dropped";
        counter otlp_spans_sent = "tracing.opentelemetry.spans_sent";
        counter otlp_spans_dropped = "tracing.opentelemetry.spans_dropped";
        counter otlp_metrics_sent = "stats_sinks.open_telemetry.data_points_sent";
        counter otlp_metrics_dropped = "stats_sinks.open_telemetry.data_points_dropped";
        counter zipkin_spans_sent = "tracing.zipkin.spans_sent";
        counter zipkin_spans_dropped = "tracing.zipkin.spans_dropped";
        counter listener_added = "listener_manager.listener_added";
        counter listener_modified = "listener_manager.listener_modified";
        counter listener_removed = "listener_manager.listener_removed";
        counter listener_create_failure = "listener_manager.listener_create_failure";
        counter lds_update_success = "listener_manager.lds.update_success";
        counter lds_update_rejected = "listener_manager.lds.update_rejected";
        gauge active_clusters = "cluster_manager.active_clusters";
        counter cluster_added = "cluster_manager.cluster_added";
        counter cluster_modified = "cluster_manager.cluster_modified";
        counter cluster_removed = "cluster_manager.cluster_removed";
        counter cds_update_success = "cluster_manager.cds.update_success";
        counter cds_update_rejected = "cluster_manager.cds.update_rejected";
        gauge control_plane_connected = "control_plane.connected_state";
    }
}
