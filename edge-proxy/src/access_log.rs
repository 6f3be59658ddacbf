//! Access logs: a line for each exchange, stream and session that is over.
//!
//! An exchange whose listener has logs keeps a [`Record`]; when it ends, each log whose filter takes it renders a
//! line into a buffer of the worker, and a thread of its own writes what has gathered there ([`crate::log_files`]).
//! Streams and sessions keep theirs in a [`StreamLog`]. What a service gathers waits in an outbox of the worker
//! ([`crate::outbox`]) for the task that sends it.
//! A request on a listener without logs costs one comparison.
//! Deliberately absent: any wait of a worker for a file. What the writer can't take is dropped and counted.

mod call;
pub(crate) mod client;
mod digits;
mod expression;
mod filter;
mod otlp;
pub(crate) mod record;
mod render;
mod service;
pub(crate) mod stream;
mod time;
mod value;

pub(crate) use client::{Client, Spoken};
pub(crate) use record::{Course, Heads, Record, Values, values, whole};
pub(crate) use stream::StreamLog;
pub(crate) use value::{Entry, Fields, Stage};

use http::{HeaderMap, StatusCode, Version};
use prost::encoding::message;

use crate::config::access_log::{Absent, BodyFormat, Piece, Sink};
use crate::local::Local;
use crate::message::head::Head;

/// Writes what its logs say of something that is over.
pub(crate) fn write(worker: &Local, client: Client<'_>, record: &Record) {
    let entry = Entry::of(client, record, Stage::Over);
    for log in record.logs.iter().flat_map(|logs| &logs.logs) {
        if filter::takes(&log.filter, &entry) {
            tell(worker, &log.sink, &entry);
        }
    }
}

fn tell(worker: &Local, sink: &Sink, entry: &Entry<'_>) {
    // Entries of Envoy's service are field 1 of a message, records of OTLP field 2.
    match sink {
        Sink::File { format, file } => worker.log(file, |line| render::line(format, entry, line)),
        Sink::HttpService { entries, collector } => worker.report(collector, |out| {
            message::encode(1, &service::http(entries, entry), out);
        }),
        Sink::StreamService { collector } => worker.report(collector, |out| {
            message::encode(1, &service::stream(entry), out);
        }),
        Sink::OpenTelemetry { format, collector } => worker.report(collector, |out| {
            message::encode(2, &otlp::record(format, entry), out);
        }),
    }
}

/// A text about something that is over; what isn't there is left out.
pub(crate) fn text(pieces: &[Piece], entry: &Entry<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    render::text(pieces, Absent::Omitted, entry, &mut text);
    text
}

/// Writes the content of a response; where it takes the place of another one, status and fields of that are told.
pub(crate) fn body(
    body: &BodyFormat,
    client: Client<'_>,
    head: &Head,
    course: Course,
    instead_of: Option<(StatusCode, &HeaderMap)>,
) -> Vec<u8> {
    let mut record = Record::of(std::sync::Arc::clone(&body.logs), course, head.random);
    record.request(head);
    if let Some((status, fields)) = instead_of {
        record.response(status, fields);
    }
    if client.spoken == Spoken::Http1 {
        record.version = Some(Version::HTTP_11);
    }
    record.client = head.client;
    let mut content = Vec::new();
    let entry = Entry::of(client, &record, Stage::Open);
    // A document ends with its line, as in Envoy.
    render::line(&body.format, &entry, &mut content);
    content
}
