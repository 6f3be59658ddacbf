//! HTTP/3 beside a port of HTTPS: the same listeners once more, carried by QUIC in datagrams of the same number.
//!
//! Clients come by TCP first and are told of it there (RFC 7838). Whom a listener asks for a certificate it doesn't
//! take this way: proxies don't verify those over QUIC.

use super::{SocketListener, downstream_tls, http, server_names};
use crate::{engine::reader::Reader, phase::policies::client::Http3};
use edge_ir::{Carrier, DownstreamTls, FilterChain, HeaderMutation, Listener, ServerNames, TlsVersion};
use std::sync::Arc;

/// What is offered in handshakes.
const ALPN: [&str; 1] = ["h3"];
/// Seconds for which clients may remember that there is HTTP/3.
const REMEMBERED: u32 = 86_400;

/// The listener of datagrams beside one of TCP; none where nobody offers HTTP/3.
pub(super) fn listener(reader: &Reader<'_>, served: &[SocketListener], beside: &Listener) -> Option<Listener> {
    let offers = served.iter().filter(|listener| listener.http3 == Http3::Offered);
    let chains = offers.map(|listener| (listener, chain(reader, listener, beside.port)));
    let (mut named, mut default_chain, mut origins) = (Vec::new(), None, Vec::new());
    for (listener, chain) in chains {
        origins.push(listener.origin.clone());
        match chain.server_names {
            ServerNames::Any => default_chain = Some(chain),
            ServerNames::Only(_) => named.push(chain),
        }
    }
    if origins.is_empty() {
        return None;
    }
    named.sort_by(|a, b| a.name.cmp(&b.name));
    Some(Listener {
        name: format!("udp-{}-quic", beside.external_port).into(),
        carrier: Carrier::Quic,
        chains: named,
        default_chain,
        origins: origins.into(),
        ..beside.clone()
    })
}

fn chain(reader: &Reader<'_>, listener: &SocketListener, bound: u16) -> FilterChain {
    let network = http(
        reader,
        format!("https-{bound}"),
        listener,
        std::slice::from_ref(listener),
        Carrier::Quic,
    );
    FilterChain {
        name: Arc::clone(&listener.full_name),
        server_names: server_names(vec![Arc::clone(&listener.hostname)]),
        tls: Some(tls(reader, listener)),
        connections: listener.traffic.connections,
        network,
        origins: Arc::new([listener.origin.clone()]),
    }
}

/// There is no QUIC with anything but TLS 1.3 (RFC 9001 §4.2), whose cipher suites nobody chooses.
fn tls(reader: &Reader<'_>, listener: &SocketListener) -> DownstreamTls {
    let offered = ALPN.iter().map(|protocol| Arc::from(*protocol));
    DownstreamTls {
        min_version: TlsVersion::V1_3,
        max_version: TlsVersion::V1_3,
        alpn: offered.collect(),
        ciphers: Vec::new(),
        ..downstream_tls(reader, listener, &ALPN)
    }
}

/// What those who came by TCP are told.
pub(super) fn alternative(listener: &SocketListener, carrier: Carrier) -> Option<HeaderMutation> {
    (listener.http3 == Http3::Offered && carrier == Carrier::Tcp).then(|| HeaderMutation::Set {
        name: "alt-svc".into(),
        value: format!("h3=\":{}\"; ma={REMEMBERED}", listener.port).into(),
    })
}
