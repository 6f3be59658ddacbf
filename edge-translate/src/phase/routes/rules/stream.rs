//! TLSRoute, TCPRoute and UDPRoute: backends by weight, nothing to match.

use super::{Compilation, Compiled, Effect, Rules, Sealed, Streams, Use, backend, destination};
use crate::{
    api::{Metadata, StreamRule},
    engine::reader::Reader,
    name::{Encryption, RouteId, RouteKind},
    phase::origin,
    status::sentence,
};
use edge_ir::{StreamProxy, StreamShare};
use std::sync::Arc;

/// Compiles a stream route. What can't be resolved is closed for its share.
pub(super) fn rules<'a>(reader: &Reader<'a>, route: RouteId, metadata: &'a Metadata, rules: &'a [StreamRule]) -> Rules {
    let mut c = Compilation::new(reader, route, metadata);
    let open = stream(&mut c, metadata, rules);
    // Only a TLSRoute may stand on listeners that pass TLS through.
    let sealed = (route.kind == RouteKind::Tls).then(|| sealed(reader, route, metadata, rules));
    let sealed = sealed.filter(|sealed| sealed.stream != open);
    c.finish(
        metadata,
        Compiled::Stream(Streams {
            open,
            sealed: sealed.map(Box::new),
        }),
    )
}

/// The route once more, for bytes that the client encrypts.
fn sealed<'a>(reader: &Reader<'a>, route: RouteId, metadata: &'a Metadata, rules: &'a [StreamRule]) -> Sealed {
    let mut c = Compilation::new(reader, route, metadata);
    c.encryption = Encryption::Client;
    let stream = stream(&mut c, metadata, rules);
    c.backends.sort_unstable();
    c.backends.dedup();
    Sealed {
        stream,
        backends: c.backends,
        findings: c.findings,
    }
}

fn stream<'a>(c: &mut Compilation<'a, '_>, metadata: &'a Metadata, rules: &'a [StreamRule]) -> StreamProxy {
    let kind = c.kind.kind();
    let origin = origin::origin(kind, Arc::clone(&metadata.namespace), Arc::clone(&metadata.name));
    let mut stream = StreamProxy {
        stat_prefix: Arc::default(),
        shares: Vec::new(),
        invalid_weight: 0,
        origins: Arc::new([origin]),
    };
    // The CRD allows one rule for each of these kinds. Those of a TLSRoute that comes from a file add up, as deployed
    // files rely on.
    if rules.is_empty() || (rules.len() > 1 && c.kind != RouteKind::Tls) {
        c.fail("InvalidRule", "One and only one rule is supported");
    } else {
        let references = rules.iter().flat_map(|rule| &rule.backend_refs);
        c.n_references = references.clone().count();
        destination::check_weights(c, references.clone());
        if !c.is_closed() {
            references.for_each(|reference| share(c, reference, &mut stream));
        }
    }
    if c.kind == RouteKind::Udp && stream.shares.len() + usize::from(stream.invalid_weight > 0) > 1 {
        // Datagrams have one destination; a union of endpoints by weight is the way to several.
        c.fail(
            "UnsupportedValue",
            "Several weighted backends are not supported for UDPRoute by this version.",
        );
        stream.shares.clear();
    }
    if stream.shares.is_empty() {
        // Nothing goes to the backends of a rule that only closes, so the fleet needn't know them.
        c.backends.clear();
    }
    stream
}

fn share(c: &mut Compilation<'_, '_>, reference: &crate::api::RouteBackendRef, stream: &mut StreamProxy) {
    match backend::resolve(c, reference.target()) {
        Ok(backend) => {
            c.backends.push(backend);
            c.wanting.push((backend.port, Use::Destination));
            if reference.weight > 0 {
                stream.shares.push(StreamShare {
                    cluster: c.reader.cluster_name(backend),
                    weight: reference.weight,
                });
            }
        }
        Err(problem) => {
            let message = sentence(&problem.message).trim_end_matches('.').to_owned();
            c.note(Effect::RefUnresolved, problem.reason, message);
            stream.invalid_weight = stream.invalid_weight.saturating_add(reference.weight);
        }
    }
}
