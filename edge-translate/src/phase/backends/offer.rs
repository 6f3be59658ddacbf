//! What is offered to backends inside TLS (ALPN, RFC 7301): of what a Backend or an EdgeProxy lists, that which their
//! cluster will speak. A server takes an offer at its word, and ends a connection in which it reads anything else.

use super::backend_tls::{Speech, Trust};
use crate::phase::tls::TlsPreferences;
use edge_ir::{AppProtocol, EndpointSocket, HttpVersion, Inside, UpstreamTls};
use std::sync::Arc;

const HTTP2: &str = "h2";

/// What one backend of a cluster is offered.
pub(super) struct Offer {
    /// The list, which may be empty.
    pub(super) alpn: Vec<Arc<str>>,
    /// What is spoken where that is.
    pub(super) inside: Inside,
}

/// What a backend is offered by itself. `asked` is what it says of handshakes with what its fleet adds.
pub(super) fn offer(protocol: AppProtocol, version: HttpVersion, trust: &Trust, asked: &TlsPreferences) -> Offer {
    let of_cluster = |alpn| Offer {
        alpn,
        inside: Inside::OfCluster,
    };
    match (version, protocol, &asked.alpn) {
        // Each request is sent in the version of its client, and a proxy offers that by itself.
        (HttpVersion::Client, ..) => of_cluster(Vec::new()),
        (HttpVersion::Backend, AppProtocol::Http2, _) => of_cluster(vec![HTTP2.into()]),
        // HTTP/1.1 and bare streams share a cluster, and a stream has no protocol to offer.
        (HttpVersion::Backend, AppProtocol::Http1, None) => Offer {
            alpn: Vec::new(),
            inside: trust.tls.inside,
        },
        // A WebSocket is an upgrade of HTTP/1.1. What a fleet lists for all of its backends doesn't change that.
        (HttpVersion::Backend, AppProtocol::Http1, Some(list))
            if trust.speech == Speech::WebSocket && trust.asked.alpn.is_none() =>
        {
            of_cluster(without_http2(list))
        }
        (HttpVersion::Backend, AppProtocol::Http1, Some(list)) => of_cluster(list.clone()),
    }
}

/// Takes HTTP/2 out of what the backends of a set are offered, unless each of them is: a cluster speaks one version,
/// and where one of them hasn't TLS, or wasn't offered HTTP/2, that is HTTP/1.1.
pub(super) fn level(protocol: AppProtocol, sockets: &mut [EndpointSocket]) {
    let mut offers = sockets.iter().map(|socket| socket.tls.as_ref());
    let is_one = offers.all(|tls| tls.is_some_and(UpstreamTls::offers_http2));
    if protocol == AppProtocol::Http2 || is_one {
        return;
    }
    for tls in sockets.iter_mut().filter_map(|socket| socket.tls.as_mut()) {
        tls.alpn = without_http2(&tls.alpn);
        tls.inside = Inside::OfCluster;
    }
}

fn without_http2(list: &[Arc<str>]) -> Vec<Arc<str>> {
    list.iter().filter(|name| &***name != HTTP2).cloned().collect()
}
