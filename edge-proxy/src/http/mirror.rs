//! Copies of requests, sent and forgotten.
//!
//! A mirror gets the head as the backend gets it and follows the body as it is kept. Its response is read and
//! thrown away; whatever goes wrong with it is nobody's business but its cluster's counters, and its span's.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::authority::Authority;
use crate::calls::ask::deliver;
use crate::clock::{Kind, Timer};
use crate::config::Snapshot;
use crate::config::endpoint::Host;
use crate::config::route::Mirror;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::local::Pinned;
use crate::message::Protocol;
use crate::message::body::RequestBody;
use crate::message::head::Head;
use crate::message::outgoing::{Extras, Outgoing};
use crate::message::replay::{Pull, SharedBody};
use crate::traces::{CopyOutcome, Trace};
use crate::upstream::Upstreams;

/// What a copy has in common with its request beside its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MirrorOptions<'a> {
    /// The trace that both are part of.
    pub(crate) trace: Option<&'a Trace>,
    /// How long it may take.
    pub(crate) route: Option<Duration>,
    /// The client takes trailers.
    pub(crate) te_trailers: bool,
}

/// Starts the mirrors whose share takes this request.
pub(crate) fn start(
    connection: &Connection,
    snapshot: &Rc<Pinned>,
    mirrors: &[Mirror],
    head: &Head,
    body: Option<&SharedBody>,
    options: MirrorOptions<'_>,
) {
    let (upstreams, downstream) = (&connection.upstreams, connection.protocol);
    for mirror in mirrors {
        if !mirror.fraction.takes(connection.worker.random.next()) {
            continue;
        }
        let mut head = Box::new(head.clone());
        if !mirror.keep_host {
            head.authority = shadow(&head.authority);
        }
        let worker = &connection.worker;
        let (wanted, now) = (mirror.is_sampled, worker.clock.now());
        let told = |trace: &Trace| trace.copied(wanted, &mut head.headers, &worker.random, now);
        let span = options.trace.and_then(told);
        let body = body.map_or(RequestBody::Empty, |body| RequestBody::Shared(body.reader(Pull::Kept)));
        let extras = Extras {
            upgrade: None,
            te_trailers: options.te_trailers,
        };
        let outgoing = Outgoing { head, body, extras };
        let time = options.route.or(Some(Duration::from_secs(15)));
        let (upstreams, snapshot, mirror) = (Rc::clone(upstreams), Rc::clone(snapshot), mirror.clone());
        tokio::task::spawn_local(async move {
            let worker = &upstreams.worker;
            let timer = worker.clock.timer();
            timer.set(Kind::Route, worker.clock.now(), time);
            let answer = send(&upstreams, &snapshot, &mirror, outgoing, downstream, &timer).await;
            // The result concerns nobody but who gathers spans.
            if let (Some(span), Some(entry)) = (span, snapshot.cluster(mirror.cluster)) {
                let answered = answer.as_ref().ok();
                let outcome = CopyOutcome {
                    cluster: &entry.cluster,
                    host: answered.map(|answered| (&*answered.host, answered.protocol)),
                    answer: answer.as_ref().map(|answered| answered.status).map_err(|fault| *fault),
                };
                span.report(worker, &outcome);
            }
        });
    }
}

/// `-shadow` behind the host (not the port), so that a backend can tell copies apart.
fn shadow(authority: &HeaderValue) -> HeaderValue {
    let text = authority.to_str().unwrap_or("");
    let host = Authority::of(text).host;
    let port = &text[host.len()..];
    HeaderValue::from_str(&format!("{host}-shadow{port}")).unwrap_or_else(|_| authority.clone())
}

/// What came back of a copy.
struct Answered {
    host: Arc<Host>,
    protocol: &'static str,
    status: StatusCode,
}

async fn send(
    upstreams: &Rc<Upstreams>,
    snapshot: &Snapshot,
    mirror: &Mirror,
    outgoing: Outgoing<'static>,
    downstream: Protocol,
    timer: &Timer,
) -> Result<Answered, Fault> {
    let (response, mut lease, guard) =
        deliver(upstreams, snapshot, mirror.cluster, outgoing, downstream, timer).await?;
    let complete = poll_fn(|cx| {
        loop {
            match lease.poll_frame(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Pending => return timer.poll_expired(cx).map(|_| false),
            }
        }
    })
    .await;
    let answered = Answered {
        host: Arc::clone(&guard.pool().host),
        protocol: lease.protocol(),
        status: response.status(),
    };
    if complete {
        lease.release(upstreams, guard.pool());
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_goes_behind_the_host() {
        let of = |text| shadow(&HeaderValue::from_static(text)).to_str().unwrap().to_owned();
        assert_eq!(of("a.example"), "a.example-shadow");
        assert_eq!(of("a.example:8080"), "a.example-shadow:8080");
    }
}
