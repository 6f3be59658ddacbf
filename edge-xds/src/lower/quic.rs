//! HTTP/3: what a listener, its chains and their managers have that are carried by QUIC (RFC 9114).

use super::{datagram, downstream_tls};
use edge_ir::DownstreamTls;
use envoy_types::{
    pb::envoy::{
        config::{
            core::v3::{Http3ProtocolOptions, TransportSocket, transport_socket::ConfigType},
            listener::v3::{self as pb, QuicProtocolOptions, UdpListenerConfig, listener::DrainType},
        },
        extensions::{
            filters::network::http_connection_manager::v3::{
                HttpConnectionManager, http_connection_manager::CodecType,
            },
            transport_sockets::quic::v3::QuicDownstreamTransport,
        },
    },
    util::pack_any,
};

/// Makes a listener take QUIC.
pub(super) fn put(listener: &mut pb::Listener) {
    listener.udp_listener_config = Some(UdpListenerConfig {
        quic_options: Some(QuicProtocolOptions::default()),
        ..datagram::listener_config()
    });
    // These are options of TCP.
    listener.socket_options = Vec::new();
    listener.max_connections_to_accept_per_socket_event = None;
    listener.drain_type = DrainType::ModifyOnly.into();
}

/// TLS as QUIC has it.
pub(super) fn transport_socket(tls: &DownstreamTls) -> TransportSocket {
    let transport = QuicDownstreamTransport {
        downstream_tls_context: Some(downstream_tls::context(tls)),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.quic".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack_any(transport))),
    }
}

/// A manager that speaks HTTP/3, and nothing else.
pub(super) fn manager(usual: HttpConnectionManager) -> HttpConnectionManager {
    HttpConnectionManager {
        codec_type: CodecType::Http3.into(),
        http3_protocol_options: Some(Http3ProtocolOptions::default()),
        ..usual
    }
}
