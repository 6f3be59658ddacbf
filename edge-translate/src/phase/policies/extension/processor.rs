//! Services that see requests and responses, and may change them.

use super::{EntryPosition, Read};
use crate::{
    api::{
        Kind, Text,
        extension::{BodyMode, ExtProc, ProcessedMessage},
    },
    engine::reader::Reader,
    phase::policies::{
        services::{self, ServiceLookup},
        traffic::Problems,
    },
};
use edge_ir::{
    AppProtocol, ExternalProcessor, FilterId, FilterInstance, FilterKind, FilterSettings, Processed, ProcessedBody,
    ProcessorAnswers, Timeout, Undecided,
};
use serde_json::Value;
use std::sync::Arc;

const AREA: &str = "ExtProc";
/// Longest wait for an answer where nothing is said.
const TIMEOUT: Timeout = Timeout(200);
/// Longest wait that a proxy takes.
const LONGEST: Timeout = Timeout(3_600_000);
/// Status of a request that fails where nothing is said.
const INTERNAL_ERROR: u16 = 500;
/// What the names of attributes begin with.
const ATTRIBUTES: [&str; 7] = [
    "connection.",
    "source.",
    "destination.",
    "request.",
    "response.",
    "upstream.",
    "xds.route_",
];
/// Most namespaces that a service may write.
const MOST_WRITABLE: usize = 8;

pub(super) fn read(reader: &Reader<'_>, place: EntryPosition<'_>, entry: &Value) -> Result<Read, Arc<str>> {
    let spec: ExtProc = place.parse(entry)?;
    place.checked(|problems| processor(reader, place, &spec, problems))
}

fn processor(reader: &Reader<'_>, place: EntryPosition<'_>, spec: &ExtProc, problems: &mut Problems) -> Option<Read> {
    let services = spec.services();
    services::refuse_older(AREA, &services, problems);
    let timeout = problems.positive(AREA, "MessageTimeout", spec.message_timeout.as_ref());
    if timeout.is_some_and(|timeout| timeout.0 > LONGEST.0) {
        problems.add(AREA, "messageTimeout must not be longer than 1h");
    }
    let timeout = timeout.unwrap_or(TIMEOUT);
    let status = services::status_on_error(AREA, spec.status_on_error, INTERNAL_ERROR, problems);
    let mode = spec.processing_mode.clone().unwrap_or_default();
    let request = mode.request.as_ref().map(|seen| processed(seen, problems));
    let response = mode.response.as_ref().map(|seen| processed(seen, problems));
    check_bodies(spec, [&request, &response], problems);
    let metadata = spec.metadata.clone().unwrap_or_default();
    check_writable(&metadata.writable_namespaces, problems);
    let names = |names: &[Text]| names.iter().map(|name| (&**name).into()).collect();
    let asked = ServiceLookup {
        by: Kind::EdgeExtensionPolicy,
        area: AREA,
        protocol: AppProtocol::Http2,
        services,
        wait: Some(timeout),
    };
    let service = services::service(reader, asked, problems)?;
    let processor = ExternalProcessor {
        cluster: reader.cluster_name(service.backend),
        authority: service.authority,
        retry: service.retry,
        message_timeout: timeout,
        undecided: match spec.fail_open {
            Some(true) => Undecided::Allowed,
            Some(false) | None => Undecided::Refused(status),
        },
        request,
        response,
        answers: match (spec.shadow_mode, mode.allow_mode_override) {
            (Some(true), _) => ProcessorAnswers::Ignored,
            (_, Some(true)) => ProcessorAnswers::Steering,
            _ => ProcessorAnswers::Followed,
        },
        readable: names(&metadata.accessible_namespaces),
        writable: names(&metadata.writable_namespaces),
    };
    Some(Read::Processor {
        instance: FilterInstance {
            id: FilterId {
                kind: FilterKind::ExtProc,
                owner: place.owner(),
            },
            settings: FilterSettings::Processor(Arc::new(processor)),
        },
        backend: service.backend,
    })
}

/// Ways to show bodies that don't go with other settings.
fn check_bodies(spec: &ExtProc, seen: [&Option<Processed>; 2], problems: &mut Problems) {
    let bodies = seen.map(|seen| seen.as_ref().map(|seen| seen.body).unwrap_or_default());
    if spec.fail_open == Some(true) && bodies.contains(&ProcessedBody::FullDuplexStreamed) {
        problems.add(
            AREA,
            "If FullDuplexStreamed body processing mode is used, FailOpen must be false",
        );
    }
    let is_watched = |body: &ProcessedBody| matches!(body, ProcessedBody::Hidden | ProcessedBody::Streamed);
    if spec.shadow_mode == Some(true) && !bodies.iter().all(is_watched) {
        problems.add(
            AREA,
            "If shadowMode is enabled, body processing mode must be Streamed or unset",
        );
    }
}

/// Namespaces that a service must not write: filters of the proxy take what stands there for their own.
fn check_writable(names: &[Text], problems: &mut Problems) {
    if let Some(name) = names.iter().find(|name| name.starts_with("envoy.filters.http")) {
        problems.add(
            AREA,
            format_args!("writableNamespaces cannot contain well-known Envoy HTTP filter namespaces, such as {name}"),
        );
    }
    if names.len() > MOST_WRITABLE {
        problems.add(
            AREA,
            format_args!("writableNamespaces may name at most {MOST_WRITABLE}"),
        );
    }
}

fn processed(seen: &ProcessedMessage, problems: &mut Problems) -> Processed {
    let is_known = |name: &str| {
        let is_part = |b: u8| b.is_ascii_lowercase() || matches!(b, b'_' | b'1'..=b'9');
        ATTRIBUTES.iter().any(|prefix| {
            let Some(rest) = name.strip_prefix(prefix).filter(|rest| rest.bytes().all(is_part)) else {
                return false;
            };
            // What stands behind a dot is a name, as expressions have them.
            let is_name = rest.starts_with(|first: char| !first.is_ascii_digit());
            !prefix.ends_with('.') || (is_name && !["true", "false", "null", "in"].contains(&rest))
        })
    };
    if let Some(unknown) = seen.attributes.iter().find(|name| !is_known(name)) {
        problems.add(AREA, format_args!("{unknown:?} is not the name of an attribute"));
    }
    Processed {
        body: match &seen.body {
            None => ProcessedBody::Hidden,
            Some(BodyMode::Streamed) => ProcessedBody::Streamed,
            Some(BodyMode::Buffered) => ProcessedBody::Buffered,
            Some(BodyMode::BufferedPartial) => ProcessedBody::BufferedPartial,
            Some(BodyMode::FullDuplexStreamed) => ProcessedBody::FullDuplexStreamed,
            Some(BodyMode::Other(other)) => {
                problems.add(
                    AREA,
                    format_args!("body {other:?} is not Streamed, Buffered, BufferedPartial or FullDuplexStreamed"),
                );
                ProcessedBody::Hidden
            }
        },
        attributes: seen.attributes.iter().map(|name| (&**name).into()).collect(),
    }
}
