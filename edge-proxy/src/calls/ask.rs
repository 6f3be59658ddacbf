//! Requests of the proxy's own: one to a cluster, and its whole reply.
//!
//! Filters that let a service decide ask it so. There is one attempt, or several where a policy says so, within a
//! time and up to a size; whoever asks decides what becomes of the request when no answer comes.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;

use crate::authority::Authority;
use crate::clock::{Kind, Timer};
use crate::config::cluster::ClusterEntry;
use crate::config::route::RetryPolicy;
use crate::config::{ClusterId, Snapshot};
use crate::fault::Fault;
use crate::http1::buffers::LARGE_READ;
use crate::message::Protocol;
use crate::message::body::{Arrival, RequestBody};
use crate::message::head::Head;
use crate::message::incoming::Incoming;
use crate::message::outgoing::{Extras, Outgoing};
use crate::message::whole::Whole;
use crate::upstream::balance::{Choice, Retrying};
use crate::upstream::connect::Speak;
use crate::upstream::limits::may_begin;
use crate::upstream::{Apart, Lease, RequestGuard, Upstreams, counters, retry};

/// An answer longer than this is none.
const MAX_ANSWER: usize = 1 << 20;

/// A connection that has rested longer isn't used for what can't be sent once more: servers that close idle connections
/// wait for a second at least.
pub(super) const RESTED: Duration = Duration::from_secs(1);

/// A request, and how it is made.
#[derive(Clone)]
pub(crate) struct ServiceRequest {
    /// Whom.
    pub(crate) cluster: ClusterId,
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    /// The answer comes in so long, or not at all.
    pub(crate) timeout: Option<Duration>,
    /// What is spoken with the service.
    pub(crate) protocol: ServiceProtocol,
}

/// What is spoken with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceProtocol {
    /// Calls of gRPC, which have trailers.
    Grpc,
    /// Requests of HTTP.
    Http,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct ServiceReply {
    pub(crate) status: StatusCode,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Asks, and again where the policy wants it.
pub(crate) async fn ask(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    request: ServiceRequest,
    retry: Option<&RetryPolicy>,
) -> Result<ServiceReply, Fault> {
    let timer = upstreams.worker.clock.timer();
    timer.set(Kind::Route, upstreams.worker.clock.now(), request.timeout);
    match retry {
        None => once(upstreams, snapshot, request, &timer).await,
        // Boxed: most never come here.
        Some(policy) => Box::pin(persist(upstreams, snapshot, request, policy, &timer)).await,
    }
}

async fn persist(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    request: ServiceRequest,
    policy: &RetryPolicy,
    timer: &Timer,
) -> Result<ServiceReply, Fault> {
    let mut attempt = 1;
    let mut retrying = None;
    loop {
        timer.set(Kind::PerTry, upstreams.worker.clock.now(), policy.per_try_timeout);
        let outcome = once(upstreams, snapshot, request.clone(), timer).await;
        timer.clear(Kind::PerTry);
        drop(retrying.take());
        let is_wanted = match &outcome {
            Ok(reply) => retry::wants_response(policy, reply.status, &reply.fields),
            Err(fault) => retry::wants_fault(policy, *fault),
        };
        retrying = snapshot
            .cluster(request.cluster)
            .filter(|_| is_wanted && attempt <= policy.max_retries)
            .and_then(|entry| begin_again(upstreams, entry));
        if retrying.is_none() {
            return outcome;
        }
        let mut pause = pin!(tokio::time::sleep(retry::pause(
            policy,
            attempt,
            &upstreams.worker.random
        )));
        let paused = poll_fn(|cx| match pause.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => expired(timer, cx).map(Err),
        });
        paused.await?;
        attempt += 1;
    }
}

/// A place among the retries of a cluster, which is counted; `None` when there is none left.
pub(super) fn begin_again(upstreams: &Upstreams, entry: &ClusterEntry) -> Option<Retrying> {
    let worker = &upstreams.worker;
    let retrying = upstreams.balancers.begin_retry(entry, worker.shared.workers)?;
    entry.cluster.stats.cells(worker.index).upstream_rq_retry.inc();
    Some(retrying)
}

/// Ready when the time of the request or of an attempt is over.
pub(super) fn expired(timer: &Timer, cx: &mut Context<'_>) -> Poll<Fault> {
    timer.poll_expired(cx).map(|kind| match kind {
        Kind::PerTry => Fault::PerTryTimeout,
        _ => Fault::RouteTimeout,
    })
}

async fn once(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    request: ServiceRequest,
    timer: &Timer,
) -> Result<ServiceReply, Fault> {
    let (protocol, te_trailers) = match request.protocol {
        ServiceProtocol::Grpc => (Protocol::Http2, true),
        ServiceProtocol::Http => (Protocol::Http1, false),
    };
    let body = match request.body.is_empty() {
        true => RequestBody::Empty,
        false => RequestBody::Stream(Incoming::Whole(Box::new(Whole::of(request.body))), Arrival::complete()),
    };
    let outgoing = Outgoing {
        head: Box::new(request.head),
        body,
        extras: Extras {
            upgrade: None,
            te_trailers,
        },
    };
    let (response, mut lease, guard) = deliver(upstreams, snapshot, request.cluster, outgoing, protocol, timer).await?;
    let (parts, ()) = response.into_parts();
    let (body, trailers) = read(&mut lease, timer).await?;
    lease.release(upstreams, guard.pool());
    Ok(ServiceReply {
        status: parts.status,
        fields: parts.headers,
        body,
        trailers,
    })
}

/// Sends a request of the proxy's own, and waits for the head of the response, which is counted. What is safe to send
/// twice (RFC 9110 §9.2.2) is, where a connection that has rested turns out to be closed.
pub(crate) async fn deliver(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    cluster: ClusterId,
    outgoing: Outgoing<'static>,
    protocol: Protocol,
    timer: &Timer,
) -> Result<(Response<()>, Lease, RequestGuard), Fault> {
    let is_safe_twice = outgoing.body.is_end_stream() && retry::is_safe_twice(&outgoing.head.method);
    let mut rested = if is_safe_twice { Duration::MAX } else { RESTED };
    let mut next = outgoing;
    loop {
        let whom = (cluster, next.head.authority_text(), protocol);
        let (mut lease, guard) = reach(upstreams, snapshot, whom, rested, timer).await?;
        let may_repeat = is_safe_twice && lease.may_be_stale(upstreams.worker.clock.recent());
        let (spare, extras) = (may_repeat.then(|| next.head.clone()), next.extras);
        let sent = lease
            .send(next, &upstreams.worker, || LARGE_READ, |cx| expired(timer, cx))
            .await;
        match (sent, spare) {
            (Ok(response), _) => {
                counters::count_response(guard.pool(), response.status());
                return Ok((response, lease, guard));
            }
            (Err(failure), Some(head)) if failure.fault == Fault::ConnectionTermination && !failure.heard => {
                guard.pool().drop_idle();
                rested = Duration::ZERO;
                next = Outgoing {
                    head,
                    body: RequestBody::Empty,
                    extras,
                };
            }
            (Err(failure), _) => return Err(failure.fault),
        }
    }
}

/// A connection for a request of the proxy's own to a cluster, under the name of an authority; one that has rested no
/// longer than this, or a new one.
pub(crate) async fn reach(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    (cluster, authority, protocol): (ClusterId, &str, Protocol),
    rested: Duration,
    timer: &Timer,
) -> Result<(Lease, RequestGuard), Fault> {
    let entry = snapshot
        .cluster(cluster)
        .ok_or(Fault::NoCluster(StatusCode::SERVICE_UNAVAILABLE))?;
    let workers = upstreams.worker.shared.workers;
    if !may_begin(&entry.cluster, upstreams.worker.index, workers) {
        return Err(Fault::Overflow);
    }
    let host = upstreams
        .balancers
        .pick(entry, &upstreams.worker.random, Choice::default());
    let host = host.ok_or(Fault::NoHealthyUpstream)?;
    let apart = Apart::of(&entry.cluster, authority, None);
    let pool = upstreams.pool(entry, host, apart);
    let speak = Speak::of(&entry.cluster, protocol);
    let now = upstreams.worker.clock.recent();
    let fresh = pool.checkout(speak, now).filter(|lease| lease.rested(now) <= rested);
    if let Some(lease) = fresh {
        return Ok((lease, RequestGuard::new(&pool)));
    }
    let mut opening = pin!(pool.acquire(upstreams, speak, Some(Authority::of(authority).host)));
    let opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Ready(opened) => Poll::Ready(opened),
        Poll::Pending => expired(timer, cx).map(Err),
    });
    let lease = opened.await?;
    match RequestGuard::after_waiting(&pool, workers) {
        Some(guard) => Ok((lease, guard)),
        None => {
            lease.release(upstreams, &pool);
            Err(Fault::Overflow)
        }
    }
}

/// The content of an answer, and its trailers.
async fn read(lease: &mut Lease, timer: &Timer) -> Result<(Bytes, Option<HeaderMap>), Fault> {
    let (mut body, mut trailers) = (BytesMut::new(), None);
    loop {
        let frame = poll_fn(|cx| match lease.poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => expired(timer, cx).map(Err),
        });
        let Some(frame) = frame.await? else {
            return Ok((body.freeze(), trailers));
        };
        match frame.map_err(|_| Fault::ConnectionTermination)?.into_data() {
            Ok(more) if body.len() + more.len() > MAX_ANSWER => return Err(Fault::ProtocolError),
            Ok(more) => body.extend_from_slice(&more),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
}
