//! How the hosts of a cluster are spoken to: by its usual socket, or by one that is for some of them alone.

use envoy_types::pb::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use envoy_types::pb::envoy::config::core::v3::TransportSocket;
use envoy_types::pb::google::protobuf::Struct;
use envoy_types::pb::google::protobuf::value::Kind;

use super::{Discovery, names::Vouching};
use crate::compile::Context;
use crate::compile::endpoint::SocketMatch;
use crate::compile::field::{At, Rejection, fields};
use crate::compile::proxy_protocol::{self, UpstreamSocket};
use crate::compile::tls::{HostUse, UpstreamTlsSpec};

/// How hosts are spoken to.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) usual: UpstreamSocket,
    /// Which hosts have sockets of their own.
    pub(super) matches: Box<[SocketMatch]>,
    /// These, in the same order.
    pub(super) own: Box<[Option<UpstreamTlsSpec>]>,
}

/// Compiles them.
pub(super) fn sockets(
    context: &Context,
    at: &At<'_>,
    usual: Option<&TransportSocket>,
    matches: &[TransportSocketMatch],
    discovery: &Discovery,
    of_host: HostUse,
) -> Result<Sockets, Rejection> {
    let usual = socket(context, at, usual, discovery, of_host)?;
    let list = at.field("transport_socket_matches");
    if !matches.is_empty() && matches!(discovery, Discovery::Requests(..)) {
        return Err(list.error("hosts that requests name have no metadata"));
    }
    let compiled = matches.iter().enumerate().map(|(index, message)| {
        let at = list.index(index);
        fields!(at, message => TransportSocketMatch {
            r#match, transport_socket;
            ignore name;
            refuse
        });
        let wanted = socket_match(&at.field("match"), r#match.as_ref())?;
        let socket = socket(context, &at, transport_socket.as_ref(), discovery, of_host)?;
        match socket.proxy_protocol == usual.proxy_protocol {
            true => Ok((wanted, socket.tls)),
            false => Err(at
                .field("transport_socket")
                .error("a header of the PROXY protocol is for all hosts of a cluster or for none in this proxy")),
        }
    });
    let (matches, own): (Vec<_>, Vec<_>) = compiled.collect::<Result<Vec<_>, Rejection>>()?.into_iter().unzip();
    Ok(Sockets {
        usual,
        matches: matches.into(),
        own: own.into(),
    })
}

fn socket_match(at: &At<'_>, wanted: Option<&Struct>) -> Result<SocketMatch, Rejection> {
    let mut texts = Vec::new();
    for (name, value) in wanted.iter().flat_map(|wanted| &wanted.fields) {
        match &value.kind {
            Some(Kind::StringValue(text)) => texts.push((name.clone(), text.clone())),
            _ => return Err(at.field(name).error("only texts are compared by this proxy")),
        }
    }
    texts.sort();
    Ok(SocketMatch(texts))
}

fn socket(
    context: &Context,
    at: &At<'_>,
    message: Option<&TransportSocket>,
    discovery: &Discovery,
    of_host: HostUse,
) -> Result<UpstreamSocket, Rejection> {
    let Some(message) = message else {
        return Ok(UpstreamSocket::default());
    };
    let at = at.field("transport_socket");
    let socket = proxy_protocol::upstream(context, &at, message, of_host)?;
    // As Envoy demands: whoever a client names has to prove that it is who is named.
    match discovery {
        Discovery::Requests(_, Vouching::Demanded) if socket.tls.is_some() && of_host != HostUse::Verified => Err(at
            .error(
                "of hosts that requests name needs auto_sni and auto_san_validation, or allow_insecure_cluster_options",
            )),
        _ => Ok(socket),
    }
}
