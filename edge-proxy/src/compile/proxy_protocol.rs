//! The PROXY protocol: what connections to a listener may begin with, and what those to a cluster do.

use envoy_types::pb::envoy::config::core::v3::proxy_protocol_config::Version as ProtoVersion;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::config::core::v3::{ProxyProtocolConfig, TransportSocket};
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3::ProxyProtocol as Filter;
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, unpack};
use crate::compile::tls::{self, HostUse, UpstreamTlsSpec};
use crate::config::listener::ProxyProtocol;
use crate::proxy_protocol::Version;

/// What a listener expects.
pub(super) fn listener(at: &At<'_>, config: &Any) -> Result<ProxyProtocol, Rejection> {
    let message: Filter = unpack(at, config)?;
    fields!(at, &message => Filter {
        allow_requests_without_proxy_protocol, disallowed_versions;
        // Where values would be kept, if any were.
        ignore stat_prefix, tlv_location;
        refuse rules, pass_through_tlvs
    });
    let list = at.field("disallowed_versions");
    let mut versions = vec![Version::V1, Version::V2];
    for (index, disallowed) in disallowed_versions.iter().enumerate() {
        let disallowed = version(&list.index(index), *disallowed)?;
        versions.retain(|version| *version != disallowed);
    }
    Ok(ProxyProtocol {
        optional: *allow_requests_without_proxy_protocol,
        versions: versions.into(),
    })
}

fn version(at: &At<'_>, value: i32) -> Result<Version, Rejection> {
    match ProtoVersion::try_from(value) {
        Ok(ProtoVersion::V1) => Ok(Version::V1),
        Ok(ProtoVersion::V2) => Ok(Version::V2),
        Err(_) => Err(at.error("is not a version of the PROXY protocol")),
    }
}

/// What connections to the hosts of a cluster begin with.
#[derive(Debug, Default)]
pub(super) struct UpstreamSocket {
    /// A header of this version.
    pub(super) proxy_protocol: Option<Version>,
    /// TLS, behind that header.
    pub(super) tls: Option<UpstreamTlsSpec>,
}

/// The transport socket of a cluster.
pub(super) fn upstream(
    context: &Context,
    at: &At<'_>,
    socket: &TransportSocket,
    of_host: HostUse,
) -> Result<UpstreamSocket, Rejection> {
    let config = match &socket.config_type {
        Some(ConfigType::TypedConfig(config)) if is::<ProxyProtocolUpstreamTransport>(config) => config,
        _ => {
            return Ok(UpstreamSocket {
                proxy_protocol: None,
                tls: tls::upstream(context, at, socket, of_host)?,
            });
        }
    };
    let at = at.field("typed_config");
    let message: ProxyProtocolUpstreamTransport = unpack(&at, config)?;
    fields!(at, &message => ProxyProtocolUpstreamTransport {
        config, transport_socket;
        // Envoy does nothing with them either.
        ignore allow_unspecified_address, tlv_as_pool_key;
        refuse
    });
    let default = ProxyProtocolConfig::default();
    let (at_config, config) = (at.field("config"), config.as_ref().unwrap_or(&default));
    fields!(at_config, config => ProxyProtocolConfig {
        version;
        ignore;
        refuse pass_through_tlvs, added_tlvs
    });
    let version = self::version(&at_config.field("version"), *version)?;
    let at_inner = at.field("transport_socket");
    let Some(inner) = transport_socket else {
        return Err(at_inner.error("is required"));
    };
    Ok(UpstreamSocket {
        proxy_protocol: Some(version),
        tls: tls::upstream(context, &at_inner, inner, of_host)?,
    })
}
