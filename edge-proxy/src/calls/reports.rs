//! Sends what a worker has observed to services.
//!
//! A task for each service that something waits for. It gathers entries for a while, takes what is there, and
//! sends it: on a stream that stays open, or by a call. Where that fails it waits, longer each time, and tries the same
//! again; meanwhile entries wait in their [`Outbox`], which bounds them. A task that has nothing to do for a while
//! ends.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, header};
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::calls::ask::{ServiceProtocol, ServiceRequest, ask};
use crate::calls::conversation::{Call, Conversation};
use crate::calls::grpc;
use crate::config::Snapshot;
use crate::config::collector::{Collector, Form};
use crate::local::Local;
use crate::message::head::Head;
use crate::outbox::{Entries, Outbox, counted};
use crate::upstream::Upstreams;

/// A service that nothing is sent to for so long is left.
const IDLE: Duration = Duration::from_secs(60);
/// The first wait after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A batch that no call has brought there in so many attempts is dropped.
const ATTEMPTS: u32 = 5;
/// How long a stream, and a worker, may take to end.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// Serves whatever services are named, as long as the worker runs.
pub(crate) async fn drive(upstreams: Rc<Upstreams>) {
    let outboxes = &upstreams.worker.outboxes;
    loop {
        outboxes.begun.notified().await;
        for outbox in outboxes.fresh() {
            tokio::task::spawn_local(serve(Rc::clone(&upstreams), outbox));
        }
    }
}

/// What waits at the end of the worker still goes, but nobody is waited for long.
pub(crate) async fn finish(worker: &Local) {
    let _ = tokio::time::timeout(FAREWELL, worker.outboxes.flush()).await;
}

async fn serve(upstreams: Rc<Upstreams>, outbox: Rc<Outbox>) {
    let mut talk = None;
    loop {
        let begun = tokio::time::timeout(IDLE, outbox.begun.notified());
        if begun.await.is_err() {
            if upstreams.worker.outboxes.close(&outbox) {
                return;
            }
            continue;
        }
        // Either way what is there is sent.
        let _ = tokio::time::timeout(outbox.collector.patience, outbox.full.notified()).await;
        let entries = outbox.take();
        if !entries.bytes.is_empty() {
            deliver(&upstreams, &outbox.collector, &mut talk, &entries).await;
        }
        outbox.settle();
    }
}

/// Sends a batch until it has gone, or there is no hope left for it.
pub(crate) async fn deliver(
    upstreams: &Rc<Upstreams>,
    collector: &Collector,
    talk: &mut Option<Conversation>,
    entries: &Entries,
) {
    let worker = &upstreams.worker;
    let cells = counted(worker.server_cells(), &collector.form);
    let mut pause = PAUSES.0;
    for _ in 0..ATTEMPTS {
        if attempt(upstreams, collector, talk, &entries.bytes).await {
            cells.written.add(entries.count);
            return;
        }
        *talk = None;
        let half = pause / 2;
        let jitter = worker.random.below(half.as_millis() as usize + 1) as u64;
        tokio::time::sleep(half + Duration::from_millis(jitter)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
    tracing::warn!(cluster = %collector.cluster_name, entries = entries.count, "observations can't be delivered");
    cells.dropped.add(entries.count);
}

async fn attempt(
    upstreams: &Rc<Upstreams>,
    collector: &Collector,
    talk: &mut Option<Conversation>,
    entries: &[u8],
) -> bool {
    // The cluster's number may mean another one by now, which must not be told anything.
    let snapshot = upstreams.worker.snapshot();
    let is_there = snapshot
        .cluster(collector.cluster)
        .is_some_and(|entry| entry.cluster.name == collector.cluster_name);
    if !is_there {
        return false;
    }
    match &collector.form {
        Form::HttpLogs { identifier } => say(upstreams, collector, talk, identifier, 2, entries).await,
        Form::StreamLogs { identifier } => say(upstreams, collector, talk, identifier, 3, entries).await,
        Form::OtlpLogs { resource } => {
            let path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
            export(upstreams, &snapshot, collector, path, &otlp(resource, &[], entries)).await
        }
        Form::OtlpSpans { resource, scope } => {
            let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
            export(upstreams, &snapshot, collector, path, &otlp(resource, scope, entries)).await
        }
        Form::OtlpMetrics { resource } => {
            let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
            export(upstreams, &snapshot, collector, path, &otlp(resource, &[], entries)).await
        }
        Form::ZipkinSpans { target } => post(upstreams, &snapshot, collector, target, entries).await,
    }
}

/// Makes a call of one message.
async fn export(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    collector: &Collector,
    path: &'static str,
    message: &[u8],
) -> bool {
    let request = ServiceRequest {
        cluster: collector.cluster,
        head: head(collector, path),
        body: grpc::framed(message),
        timeout: Some(collector.timeout),
        protocol: ServiceProtocol::Grpc,
    };
    let reply = ask(upstreams, snapshot, request, None).await;
    reply.is_ok_and(|reply| grpc::is_ok(&reply))
}

/// Posts entries, each of which has a comma behind it, as a list in JSON.
async fn post(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    collector: &Collector,
    target: &PathAndQuery,
    entries: &[u8],
) -> bool {
    let mut head = Head {
        method: Method::POST,
        authority: collector.authority.clone(),
        target: target.clone(),
        ..Head::empty()
    };
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(header::CONTENT_TYPE, json);
    let mut body = BytesMut::with_capacity(entries.len() + 2);
    body.put_u8(b'[');
    body.put_slice(entries.strip_suffix(b",").unwrap_or(entries));
    body.put_u8(b']');
    let request = ServiceRequest {
        cluster: collector.cluster,
        head,
        body: body.freeze(),
        timeout: Some(collector.timeout),
        protocol: ServiceProtocol::Http,
    };
    let reply = ask(upstreams, snapshot, request, None).await;
    reply.is_ok_and(|reply| reply.status.is_success())
}

fn head(collector: &Collector, path: &'static str) -> Head {
    let mut head = grpc::head(path, &collector.authority);
    for (name, value) in &collector.metadata {
        head.headers.append(name.clone(), value.clone());
    }
    head
}

/// Says a batch on the stream; true once it is on its way.
async fn say(
    upstreams: &Rc<Upstreams>,
    collector: &Collector,
    talk: &mut Option<Conversation>,
    identifier: &Bytes,
    field: u32,
    entries: &[u8],
) -> bool {
    if talk.as_ref().is_some_and(has_ended) {
        *talk = None;
    }
    let mut message = BytesMut::with_capacity(entries.len() + identifier.len() + 16);
    let open = match talk {
        Some(open) => open,
        None => {
            message.extend_from_slice(identifier);
            let head = head(
                collector,
                "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
            );
            talk.insert(Conversation::begin(
                upstreams,
                Call {
                    cluster: collector.cluster,
                    head,
                    retry: None,
                },
                FAREWELL,
            ))
        }
    };
    put(field, entries, &mut message);
    open.say_encoded(&message);
    poll_fn(|cx| {
        // What a service says is of no interest, only that it has ended.
        while let Poll::Ready(heard) = open.poll_heard(cx) {
            if heard.is_err() {
                return Poll::Ready(false);
            }
        }
        match open.unsaid(cx) {
            0 => Poll::Ready(true),
            _ => Poll::Pending,
        }
    })
    .await
}

fn has_ended(talk: &Conversation) -> bool {
    let cx = std::task::Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(heard) = talk.poll_heard(&cx) {
        if heard.is_err() {
            return true;
        }
    }
    false
}

/// `ExportLogsServiceRequest` and its like: one resource, one scope, which may have no name, and entries that are
/// fields of it.
fn otlp(resource: &[u8], scope: &[u8], entries: &[u8]) -> BytesMut {
    let (mut scoped, mut of_resource, mut request) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
    if !scope.is_empty() {
        put(1, scope, &mut scoped);
    }
    scoped.extend_from_slice(entries);
    put(1, resource, &mut of_resource);
    put(2, &scoped, &mut of_resource);
    put(1, &of_resource, &mut request);
    request
}

/// Writes a field that has a length.
fn put(field: u32, content: &[u8], out: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.put_slice(content);
}
