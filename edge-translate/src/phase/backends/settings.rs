//! The settings of a cluster: what its backend says of itself, and what a context changes in that.
//!
//! A backend's own settings hold for whoever sends to it: its protocol, and the TLS that a BackendTLSPolicy on it asks
//! for. What a context changes (that the client encrypts already, what a policy asks of connections) is a [`Variant`],
//! which gets a cluster of its own.

use super::{
    backend_tls::{BackendTls, Trust},
    endpoints::Readiness,
    set,
};
use crate::{
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, Encryption, Variant, VariantId},
};
use edge_ir::{AppProtocol, Http1Upstream, HttpVersion, LoadBalancing, UpstreamSettings};
use std::sync::Arc;

/// How a cluster speaks to its backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterSettings<'a> {
    /// TLS towards it; none is spoken to in clear, or in what the client says.
    pub(crate) tls: Option<&'a Trust>,
    /// How its endpoints are chosen.
    pub(crate) load_balancing: LoadBalancing,
    /// What policies ask of the connections to it.
    pub(crate) upstream: Arc<UpstreamSettings>,
}

/// The backend's own settings can't be honoured, and nothing may go there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Whether a backend's own settings can be honoured. Every rule that leads there has asked for its readiness already.
pub(crate) fn is_usable(reader: &Reader<'_>, port: BackendPort) -> bool {
    match port.target.kind {
        BackendKind::Set => set::refusal(reader, port).is_none(),
        _ => reader.readiness(port) != Readiness::Untrusted,
    }
}

/// The settings of a backend's cluster.
pub(crate) fn settings<'a>(
    reader: &Reader<'a>,
    port: BackendPort,
    variant: &Variant,
) -> Result<ClusterSettings<'a>, Refused> {
    if port.target.kind == BackendKind::Set && !is_usable(reader, port) {
        return Err(Refused);
    }
    let tls = match variant.encryption {
        Encryption::Client => None,
        Encryption::Nobody if wants_tls(reader, port) => return Err(Refused),
        Encryption::Nobody => None,
        Encryption::Proxy => match reader.backend_tls(port) {
            Some(BackendTls::Tls(trust)) => Some(&**trust),
            Some(BackendTls::Refused(_)) => return Err(Refused),
            Some(BackendTls::Clear) | None => None,
        },
    };
    Ok(ClusterSettings {
        tls,
        load_balancing: variant.load_balancing.clone(),
        upstream: Arc::clone(&variant.upstream),
    })
}

/// Whether a backend, or one of a set, wants TLS.
pub(crate) fn wants_tls(reader: &Reader<'_>, port: BackendPort) -> bool {
    let mut ports = reader.backends_behind(port).into_iter();
    ports.any(|port| {
        matches!(
            reader.backend_tls(port),
            Some(BackendTls::Tls(_) | BackendTls::Refused(_))
        )
    })
}

/// The backend as a context has it; none where nothing may go there. What changes none of its settings is the backend
/// itself: one cluster, with one set of connections.
pub(crate) fn in_context(reader: &Reader<'_>, backend: BackendId, variant: VariantId) -> Option<BackendId> {
    let variant = heeded(reader, backend.protocol, variant);
    if variant == VariantId::OWN {
        return is_usable(reader, backend.port).then_some(backend);
    }
    let asked = reader.variant(variant);
    let changed = settings(reader, backend.port, &asked).ok()?;
    if asked.encryption == Encryption::default() {
        return Some(BackendId { variant, ..backend });
    }
    // Who encrypts makes no difference to a backend that is spoken to in clear.
    let plain = Variant {
        encryption: Encryption::default(),
        ..Variant::clone(&asked)
    };
    let depends = reader
        .set_behind(backend.port)
        .is_some_and(|set| set::has_sockets(reader, &set));
    let variant = match settings(reader, backend.port, &plain) {
        Ok(own) if own == changed && !depends => reader.variant_id(plain),
        _ => variant,
    };
    Some(BackendId { variant, ..backend })
}

/// What a backend heeds of what a context asks: of HTTP/1 nothing, where HTTP/2 alone is spoken.
fn heeded(reader: &Reader<'_>, protocol: AppProtocol, variant: VariantId) -> VariantId {
    if variant == VariantId::OWN || protocol != AppProtocol::Http2 {
        return variant;
    }
    let asked = reader.variant(variant);
    if asked.upstream.http_version != HttpVersion::Backend || asked.upstream.http1 == Http1Upstream::default() {
        return variant;
    }
    reader.variant_id(Variant {
        upstream: UpstreamSettings::with_http1(&asked.upstream, Http1Upstream::default()),
        ..Variant::clone(&asked)
    })
}
