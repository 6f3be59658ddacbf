//! Listeners and their filter chains.

use super::{
    access_log,
    common::{CONNECTION_BUFFER, address, extension, number, secret_from_ads, socket, yes},
    datagram, manager,
    metadata::put_metadata,
    stream,
};
use crate::snapshot::{Body, Entry};
use edge_ir::{
    AccessLog, ClientCertificates, ClientValidation, DownstreamTls, FilterChain, FleetSettings, IpFamily, Listener,
    Network, ReadyListener, ServerNames, TlsVersion,
};
use envoy_types::{
    pb::envoy::{
        config::{
            accesslog::v3::{AccessLogFilter, ResponseFlagFilter, access_log_filter::FilterSpecifier},
            core::v3::{
                Address, TransportSocket, address::Address as AddressKind, socket_address::Protocol, transport_socket,
            },
            listener::v3::{self as pb, Filter, FilterChainMatch, ListenerFilter, filter, listener_filter},
        },
        extensions::{
            filters::{
                listener::tls_inspector::v3::TlsInspector, network::http_connection_manager::v3::HttpConnectionManager,
            },
            transport_sockets::tls::v3::{
                CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, TlsParameters,
                certificate_validation_context::TrustChainVerification,
                common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
                tls_parameters::TlsProtocol,
            },
        },
    },
    pb::google::protobuf::BoolValue,
    util::pack_any,
};
use prost::Message;

/// `Listener.metadata`.
const METADATA: u32 = 6;

/// Encodes a listener.
pub(super) fn encode_listener(listener: &Listener, settings: &FleetSettings) -> Entry {
    let mut message = pb::Listener {
        name: listener.name.to_string(),
        address: Some(any_address(listener.ip_family, listener.port)),
        filter_chains: listener
            .chains
            .iter()
            .map(|chain| lower_chain(chain, settings))
            .collect(),
        default_filter_chain: listener
            .default_chain
            .as_ref()
            .map(|chain| lower_chain(chain, settings)),
        per_connection_buffer_limit_bytes: number(CONNECTION_BUFFER),
        // Fairness between worker threads: each takes one connection and looks at its others again.
        max_connections_to_accept_per_socket_event: number(1),
        ..Default::default()
    };
    if !listener.chains.is_empty() {
        message.listener_filters = vec![tls_inspector()];
    }
    if let Some(udp) = &listener.udp {
        message.listener_filters = vec![datagram::proxy(udp)];
        message.udp_listener_config = Some(datagram::listener_config());
        if let Some(AddressKind::SocketAddress(socket)) = message.address.as_mut().and_then(|a| a.address.as_mut()) {
            socket.protocol = Protocol::Udp.into();
        }
    }
    if settings.access_log == AccessLog::DefaultJson && listener.default_chain.is_none() && listener.udp.is_none() {
        message.access_log = vec![unmatched_connections()];
    }
    let mut out = message.encode_to_vec();
    put_metadata(&mut out, METADATA, &listener.origins);
    Entry::new(
        listener.name.as_str(),
        Body::Whole(out.into()),
        listener.origins.clone(),
    )
}

/// Encodes the listener that tells whether the proxy is ready.
pub(super) fn encode_ready(ready: &ReadyListener) -> Entry {
    let name = format!("edge-gateway-proxy-ready-{}-{}", ready.address, ready.port);
    let mut own = socket(&*ready.address, ready.port);
    // A node asks at the pod's first address, whatever family clients come by.
    own.ipv4_compat = &*ready.address == "::";
    let message = pb::Listener {
        name: name.clone(),
        address: Some(address(own)),
        filter_chains: vec![pb::FilterChain {
            filters: vec![http(manager::ready())],
            ..Default::default()
        }],
        // An overloaded proxy must be able to say so.
        bypass_overload_manager: true,
        ..Default::default()
    };
    Entry::new(name, Body::Whole(message.encode_to_vec().into()), [].into())
}

/// All addresses of a family.
pub(crate) fn any_address(family: IpFamily, port: u16) -> Address {
    let mut socket = socket(if family == IpFamily::V4 { "0.0.0.0" } else { "::" }, port);
    socket.ipv4_compat = family == IpFamily::DualStack;
    address(socket)
}

/// Logs connections that no chain is for: there is nobody else to log them.
fn unmatched_connections() -> envoy_types::pb::envoy::config::accesslog::v3::AccessLog {
    let mut log = access_log::default_json();
    let flags = ResponseFlagFilter {
        flags: vec!["NR".to_owned()],
    };
    log.filter = Some(AccessLogFilter {
        filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(flags)),
    });
    log
}

fn tls_inspector() -> ListenerFilter {
    let inspector = extension("envoy.filters.listener.tls_inspector", TlsInspector::default());
    ListenerFilter {
        name: inspector.name,
        config_type: inspector.typed_config.map(listener_filter::ConfigType::TypedConfig),
        ..Default::default()
    }
}

fn lower_chain(chain: &FilterChain, settings: &FleetSettings) -> pb::FilterChain {
    let server_names = match &chain.server_names {
        ServerNames::Any => None,
        ServerNames::Only(names) => Some(FilterChainMatch {
            server_names: names.iter().map(|name| name.to_string()).collect(),
            ..Default::default()
        }),
    };
    let filters = match &chain.network {
        Network::Http(http_manager) => vec![http(manager::lower_manager(http_manager, settings))],
        Network::Tcp(proxy) => stream::tcp(proxy),
    };
    pb::FilterChain {
        name: chain.name.to_string(),
        filter_chain_match: server_names,
        filters,
        transport_socket: chain.tls.as_ref().map(lower_tls),
        ..Default::default()
    }
}

/// The network filter that holds an HTTP connection manager.
pub(crate) fn http(manager: HttpConnectionManager) -> Filter {
    Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(manager))),
    }
}

fn lower_tls(tls: &DownstreamTls) -> TransportSocket {
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: lower_version(tls.min_version).into(),
                tls_maximum_protocol_version: lower_version(tls.max_version).into(),
                ..Default::default()
            }),
            alpn_protocols: tls.alpn.iter().map(|protocol| protocol.to_string()).collect(),
            tls_certificate_sds_secret_configs: tls.certificates.iter().map(secret_from_ads).collect(),
            validation_context_type: tls.clients.as_ref().map(validation_of),
            ..Default::default()
        }),
        require_client_certificate: tls.clients.as_ref().and_then(requirement_of),
        // A resumed session skips the choice of chain and certificate that the server name asks for.
        disable_stateful_session_resumption: true,
        session_ticket_keys_type: Some(
            envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType::DisableStatelessSessionResumption(true),
        ),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context))),
    }
}

/// Which certificates of clients are trusted. One that isn't asked to be is taken all the same.
fn validation_of(clients: &ClientValidation) -> ValidationContextType {
    let check = match clients.certificates {
        ClientCertificates::Verified => TrustChainVerification::VerifyTrustChain,
        ClientCertificates::Requested => TrustChainVerification::AcceptUntrusted,
    };
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(CertificateValidationContext {
            trust_chain_verification: check.into(),
            ..Default::default()
        }),
        validation_context_sds_secret_config: Some(secret_from_ads(&clients.authorities)),
        ..Default::default()
    })
}

fn requirement_of(clients: &ClientValidation) -> Option<BoolValue> {
    match clients.certificates {
        ClientCertificates::Verified => yes(),
        ClientCertificates::Requested => None,
    }
}

pub(super) fn lower_version(version: TlsVersion) -> TlsProtocol {
    match version {
        TlsVersion::V1_0 => TlsProtocol::TlSv10,
        TlsVersion::V1_1 => TlsProtocol::TlSv11,
        TlsVersion::V1_2 => TlsProtocol::TlSv12,
        TlsVersion::V1_3 => TlsProtocol::TlSv13,
    }
}
