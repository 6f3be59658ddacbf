//! Access logs: a line for each exchange that is over.
//!
//! What: an exchange whose listener has logs keeps a [`Record`]; when it ends, each log whose filter takes it renders a
//! line into a buffer of the worker, and a thread of its own writes what has gathered there ([`crate::log_files`]).
//! A request on a listener without logs costs one comparison.
//! Deliberately absent: any wait of a worker for a file. What the writer can't take is dropped and counted.

mod filter;
pub(crate) mod record;
mod render;
mod time;
mod value;

pub(crate) use record::Record;

use http::{HeaderMap, StatusCode, Version};

use crate::access_log::value::Entry;
use crate::config::access_log::BodyFormat;
use crate::connection::Connection;
use crate::message::Protocol;
use crate::message::head::Head;

/// Writes what the logs of an exchange's listener say of it.
pub(crate) fn write(connection: &Connection, record: &Record) {
    let entry = Entry { connection, record };
    for log in &record.logs.logs {
        if filter::takes(&log.filter, &entry) {
            let worker = &connection.worker;
            worker.log(&log.file, |line| render::line(&log.format, &entry, line));
        }
    }
}

/// Writes the content of a response that takes the place of another one, of which status and fields are told.
pub(crate) fn body(
    body: &BodyFormat,
    connection: &Connection,
    head: &Head,
    status: StatusCode,
    fields: &HeaderMap,
) -> Vec<u8> {
    let now = connection.worker.clock.now();
    let mut record = Record::new(std::sync::Arc::clone(&body.logs), now, head.random);
    record.request(head);
    record.response(status, fields);
    if connection.protocol == Protocol::Http1 {
        record.version = Some(Version::HTTP_11);
    }
    record.client = head.client;
    let mut content = Vec::new();
    let entry = Entry {
        connection,
        record: &record,
    };
    render::content(&body.format, &entry, &mut content);
    content
}
