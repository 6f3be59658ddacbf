//! TLSRoute, TCPRoute and UDPRoute: backends by weight, nothing to match.

use super::{Compilation, Compiled, Effect, Rules, Stream, StreamTo, Use, backend, destination, standby};
use crate::{
    api::{Metadata, StreamRule},
    engine::reader::Reader,
    name::{RouteId, RouteKind},
    phase::{backends::set, origin},
    status::sentence,
};
use std::sync::Arc;

/// Compiles a stream route. What can't be resolved is closed for its share.
pub(super) fn rules<'a>(reader: &Reader<'a>, route: RouteId, metadata: &'a Metadata, rules: &'a [StreamRule]) -> Rules {
    let mut c = Compilation::new(reader, route, metadata);
    let stream = stream(&mut c, metadata, rules);
    c.finish(metadata, Compiled::Stream(stream))
}

fn stream<'a>(c: &mut Compilation<'a, '_>, metadata: &'a Metadata, rules: &'a [StreamRule]) -> Stream {
    let kind = c.kind.kind();
    let origin = origin::origin(kind, Arc::clone(&metadata.namespace), Arc::clone(&metadata.name));
    let mut stream = Stream {
        name: match rules {
            [rule] => rule.name.as_deref().map(|name| c.reader.sym(name)),
            _ => None,
        },
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
        c.rule.n_references = references.clone().count();
        destination::check_weights(c, references.clone());
        if !c.is_closed() {
            references.for_each(|reference| share(c, reference, &mut stream));
            let ranked: Vec<_> = stream.shares.iter().map(|to| (to.backend, to.priority)).collect();
            standby::check_backends(c, &ranked);
        }
    }
    stream
}

fn share(c: &mut Compilation<'_, '_>, reference: &crate::api::RouteBackendRef, stream: &mut Stream) {
    match backend::resolve(c, reference.target()) {
        Ok(resolved) => {
            if reference.weight > 0 {
                c.wanting.push((resolved.backend.port, Use::Destination));
                backend::note_port(c, "backendRefs", reference.target(), &resolved);
            }
            if let Some(problem) = &resolved.refused {
                c.note(Effect::BackendRefused, problem.reason, said(&problem.message));
            }
            stream.shares.push(StreamTo {
                backend: resolved.backend,
                weight: reference.weight,
                priority: set::priority(c.reader, resolved.backend.port),
            });
        }
        Err(problem) => {
            c.note(Effect::RefUnresolved, problem.reason, said(&problem.message));
            stream.invalid_weight = stream.invalid_weight.saturating_add(reference.weight);
        }
    }
}

fn said(message: &str) -> String {
    sentence(message).trim_end_matches('.').to_owned()
}
