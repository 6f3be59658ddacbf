//! The status of a call of gRPC.

use http::HeaderValue;

use crate::access_log::value::Entry;
use crate::config::access_log::{CallFields, GrpcForm};

/// By their numbers, in both spellings.
const NAMES: [(&str, &str); 17] = [
    ("OK", "OK"),
    ("Canceled", "CANCELLED"),
    ("Unknown", "UNKNOWN"),
    ("InvalidArgument", "INVALID_ARGUMENT"),
    ("DeadlineExceeded", "DEADLINE_EXCEEDED"),
    ("NotFound", "NOT_FOUND"),
    ("AlreadyExists", "ALREADY_EXISTS"),
    ("PermissionDenied", "PERMISSION_DENIED"),
    ("ResourceExhausted", "RESOURCE_EXHAUSTED"),
    ("FailedPrecondition", "FAILED_PRECONDITION"),
    ("Aborted", "ABORTED"),
    ("OutOfRange", "OUT_OF_RANGE"),
    ("Unimplemented", "UNIMPLEMENTED"),
    ("Internal", "INTERNAL"),
    ("Unavailable", "UNAVAILABLE"),
    ("DataLoss", "DATA_LOSS"),
    ("Unauthenticated", "UNAUTHENTICATED"),
];

const UNKNOWN: u32 = 2;

/// The status of an exchange: what trailers say, what the response says, or what its status means for a call.
pub(super) fn status(fields: &CallFields, entry: &Entry<'_>) -> u32 {
    let said = |values: &[Option<HeaderValue>], at: usize| {
        let value = values.get(at)?.as_ref()?;
        // What is no number is no status that there is.
        Some(
            value
                .to_str()
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(u32::MAX),
        )
    };
    said(entry.fields.trailers, fields.trailers)
        .or_else(|| said(entry.fields.response, fields.response))
        .unwrap_or(match entry.status {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => 14,
            _ => UNKNOWN,
        })
}

/// Writes the status of a call; nothing of what isn't one.
pub(super) fn write(form: GrpcForm, fields: &CallFields, entry: &Entry<'_>, out: &mut Vec<u8>) -> Option<()> {
    let kind = entry.fields.request.get(fields.content_type)?.as_ref()?.as_bytes();
    let rest = kind.strip_prefix(b"application/grpc")?;
    if !matches!(rest.first(), None | Some(b'+' | b';')) {
        return None;
    }
    let status = status(fields, entry);
    let names = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    match (form, names) {
        (GrpcForm::Camel, Some((camel, _))) => out.extend_from_slice(camel.as_bytes()),
        (GrpcForm::Snake, Some((_, snake))) => out.extend_from_slice(snake.as_bytes()),
        // As in Envoy: -1 is what isn't a number.
        _ if status == u32::MAX => out.extend_from_slice(b"-1"),
        _ => out.extend_from_slice(status.to_string().as_bytes()),
    }
    Some(())
}
