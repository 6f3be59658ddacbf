//! Attempts: one connection, one request, one response, and again if the retry policy says so.
//!
//! Why the head moves into the request when no retry is configured: the usual request must not pay for a copy that
//! only retries need. Large futures that the usual request does not need are boxed for the same reason.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderValue, Response};

use crate::authority::Authority;
use crate::config::endpoint::HostId;
use crate::config::header::{HeaderStep, HeaderTemplate, TemplatePart};
use crate::config::route::{HostRewrite, RetryPolicy};
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::exchange::Ended;
use crate::http::forward::{Answer, Forwarding, Source, set_authority};
use crate::http::{local_reply, respond, rewrite};
use crate::message::body::RequestBody;
use crate::message::head::Head;
use crate::message::outgoing::{Extras, Outgoing};
use crate::upstream::balance::{Choice, Retrying};
use crate::upstream::limits::may_begin;
use crate::upstream::{Apart, HostPool, Lease, RequestGuard, SendFailure, counters, load, report, retry};

impl<'a> Forwarding<'a> {
    pub(super) async fn run(mut self, head: Box<Head>, mut source: Source) -> Response<ResponseBody> {
        let retry = self.settings.retry.as_deref();
        let Some(policy) = retry.filter(|policy| policy.max_retries > 0 && retry::covers(policy, &head)) else {
            let keep = self.templates_need_head().then(|| head.clone());
            let outcome = self.attempt(head, &mut source, 1).await;
            self.arrival.end_try(&self.exchange.timer);
            return match outcome {
                Ok(answer) => respond::respond(self, answer, keep.as_deref(), 1).await,
                Err(fault) => {
                    self.exchange.attempt_failed(fault);
                    self.give_up(fault, keep.as_deref(), 1)
                }
            };
        };
        // Boxed: most requests never come here.
        Box::pin(self.run_with_retries(head, source, policy)).await
    }

    async fn run_with_retries(
        mut self,
        head: Box<Head>,
        mut source: Source,
        policy: &RetryPolicy,
    ) -> Response<ResponseBody> {
        let mut attempt = 1;
        let mut retrying = None;
        loop {
            let outcome = self.attempt(head.clone(), &mut source, attempt).await;
            self.arrival.end_try(&self.exchange.timer);
            // A retry counts until it has come to something, not for its back-off alone: the limit is for backends that
            // take long. Only now may its place be taken by the next.
            drop(retrying.take());
            let wanted = match &outcome {
                Ok(answer) => retry::wants_response(policy, answer.response.status(), answer.response.headers()),
                Err(fault) => {
                    self.exchange.attempt_failed(*fault);
                    retry::wants_fault(policy, *fault)
                }
            };
            // When no retry is to be had, the client gets what there is.
            if wanted && self.may_retry(policy, attempt, &source) {
                retrying = self.begin_retry();
            }
            if retrying.is_some() {
                self.exchange.end_attempt(Ended::Answered);
                drop(outcome);
                match self.pause(policy, attempt).await {
                    Ok(()) => {
                        attempt += 1;
                        continue;
                    }
                    Err(fault) => return self.give_up(fault, Some(&head), attempt),
                }
            }
            return match outcome {
                Ok(answer) => {
                    if attempt > 1 && !wanted {
                        answer.guard.pool().cells().upstream_rq_retry_success.inc();
                    }
                    respond::respond(self, answer, Some(&head), attempt).await
                }
                Err(fault) => self.give_up(fault, Some(&head), attempt),
            };
        }
    }

    pub(super) fn may_retry(&self, policy: &RetryPolicy, attempt: u32, source: &Source) -> bool {
        let cells = self.entry.cluster.stats.cells(self.exchange.connection.worker.index);
        if attempt > policy.max_retries {
            cells.upstream_rq_retry_limit_exceeded.inc();
            self.exchange.note(|record| record.flag("URX"));
            return false;
        }
        source.is_replayable()
    }

    /// A place among the retries of the cluster, if there is one.
    pub(super) fn begin_retry(&self) -> Option<Retrying> {
        let worker = &self.exchange.connection.worker;
        let cells = self.entry.cluster.stats.cells(worker.index);
        let balancers = &self.exchange.connection.upstreams.balancers;
        let retrying = balancers.begin_retry(self.entry, worker.shared.workers);
        match retrying {
            Some(_) => cells.upstream_rq_retry.inc(),
            None => {
                cells.upstream_rq_retry_overflow.inc();
                self.exchange.note(|record| record.flag("UO"));
            }
        }
        retrying
    }

    /// Waits for the back-off.
    pub(super) async fn pause(&self, policy: &RetryPolicy, attempt: u32) -> Result<(), Fault> {
        let worker = &self.exchange.connection.worker;
        let pause = retry::pause(policy, attempt, &worker.random);
        self.within_limits(tokio::time::sleep(pause), None).await
    }

    /// Edits of the response that speak of the request need the head after it has been sent.
    fn templates_need_head(&self) -> bool {
        self.response_edits.iter().any(|step| match step {
            HeaderStep::Put {
                value: HeaderTemplate::Parts(parts),
                ..
            } => parts.iter().any(TemplatePart::reads_request),
            _ => false,
        })
    }

    async fn attempt(&mut self, mut head: Box<Head>, source: &mut Source, number: u32) -> Result<Answer, Fault> {
        let connection = Rc::clone(&self.exchange.connection);
        let worker = &connection.worker;
        self.exchange.note(|record| record.upstream.attempts = number);
        let pool = self.pick(&head, number)?;
        self.exchange
            .note(|record| record.upstream.host = Some(Arc::clone(&pool.host)));
        self.exchange.begin_attempt(&head, self.route_name, &pool);
        if let Some(HostRewrite::Endpoint) = self.host_rewrite {
            let new = rewrite::host(&HostRewrite::Endpoint, &head, &pool.host.hostname);
            set_authority(&mut head, new, self.settings, &connection);
        }
        if number > 1 {
            let since = self.arrival.read_at(self.since);
            let elapsed = since.map_or(Duration::ZERO, |since| {
                worker.clock.now().saturating_duration_since(since)
            });
            self.limits.tell(elapsed, &connection, &mut head);
        }
        if self.settings.attempt_count_in_request {
            head.headers.insert(
                connection.manager().prefixed.attempt_count.clone(),
                HeaderValue::from(number),
            );
        }
        if let Some(trace) = self.exchange.trace() {
            let now = worker.clock.now();
            trace.attempt(&mut head.headers, &pool.host, number, &worker.random, now);
        }
        let (mut lease, guard) = match pool.checkout(self.speak, worker.clock.recent()) {
            Some(lease) => (lease, RequestGuard::new(&pool)),
            None => {
                let lease = self.open(&pool, &head).await?;
                let Some(guard) = RequestGuard::after_waiting(&pool, worker.shared.workers) else {
                    lease.release(&connection.upstreams, &pool);
                    return Err(Fault::Overflow);
                };
                (lease, guard)
            }
        };
        let body = source.next(&self.arrival);
        // An idle connection may have been closed by the backend a moment ago. What is safe to send twice (RFC 9110
        // §9.2.2) is then sent once more on a new one.
        let spare =
            (self.is_safe_twice(&head, source) && lease.may_be_stale(self.exchange.started)).then(|| head.clone());
        let extras = Extras {
            upgrade: self.upgrade.as_deref(),
            te_trailers: self.te_trailers,
        };
        let outgoing = Outgoing { head, body, extras };
        let sent = worker.clock.recent();
        self.sent_on(&lease, sent);
        let sending = lease.send(
            outgoing,
            worker,
            || connection.room(),
            |cx| self.poll_limits(cx, Some(&pool)),
        );
        let failure = match sending.await {
            Ok(response) => return Ok(self.answered(response, lease, guard, sent)),
            Err(failure) => failure,
        };
        drop(lease);
        // Boxed: the usual request does not come here.
        let (response, lease) = Box::pin(self.send_again(failure, spare, extras, &pool)).await?;
        Ok(self.answered(response, lease, guard, sent))
    }

    /// Once more on a new connection, when the old one was closed before it took anything of the request, or when
    /// there is a spare.
    async fn send_again(
        &self,
        failure: SendFailure,
        spare: Option<Box<Head>>,
        extras: Extras<'_>,
        pool: &Rc<HostPool>,
    ) -> Result<(Response<()>, Lease), Fault> {
        let again = failure.unsent.map(|unsent| *unsent);
        // A backend that has begun to answer has taken the request for one.
        let spare = spare.filter(|_| !failure.heard);
        let again = again.or(spare.map(|head| (head, RequestBody::Empty)));
        let Some((head, body)) = again.filter(|_| failure.fault == Fault::ConnectionTermination) else {
            return Err(self.failed(failure.fault, pool));
        };
        pool.drop_idle();
        let mut lease = self.open(pool, &head).await?;
        let now = self.exchange.connection.worker.clock.recent();
        self.sent_on(&lease, now);
        let outgoing = Outgoing { head, body, extras };
        let worker = &self.exchange.connection.worker;
        let sent = lease
            .send(
                outgoing,
                worker,
                || self.exchange.connection.room(),
                |cx| self.poll_limits(cx, Some(pool)),
            )
            .await;
        let response = sent.map_err(|failure| self.failed(failure.fault, pool))?;
        Ok((response, lease))
    }

    /// The attempt has a connection. Its time begins when the client has sent everything, as in Envoy: neither a slow
    /// client nor connecting is the backend's answer that it bounds.
    fn sent_on(&self, lease: &Lease, now: Instant) {
        if self.limits.per_try.is_some() {
            self.arrival.begin_try(&self.exchange.timer, self.limits.per_try);
        }
        self.exchange.note(|record| record.sent_on(lease, now));
        self.exchange.attempt_sent(lease);
        if let Some(trace) = self.exchange.trace() {
            trace.sent(lease.protocol());
        }
    }

    fn is_safe_twice(&self, head: &Head, source: &Source) -> bool {
        matches!(source, Source::Empty) && retry::is_safe_twice(&head.method) && self.upgrade.is_none()
    }

    pub(super) fn pick(&mut self, head: &Head, number: u32) -> Result<Rc<HostPool>, Fault> {
        let worker = &self.exchange.connection.worker;
        let upstreams = &self.exchange.connection.upstreams;
        let (entry, cells) = (self.entry, self.entry.cluster.stats.cells(worker.index));
        if !may_begin(&entry.cluster, worker.index, worker.shared.workers) {
            return Err(Fault::Overflow);
        }
        let policy = self.settings.retry.as_deref();
        let (avoid, draws): (&[HostId], u32) = match policy {
            Some(policy) if policy.avoid_previous_hosts => (&self.tried, policy.host_selection_attempts),
            _ => (&[], 0),
        };
        let resolved = self.resolved.clone();
        let of_session = match &self.session {
            // As in Envoy, another attempt may go anywhere.
            Some(session) if number == 1 => session.host(entry),
            _ => Ok(None),
        };
        let per_priority = policy.and_then(|policy| policy.attempts_per_priority);
        let past = per_priority.map(|most| self.priorities.past(most, &entry.endpoints));
        let host = of_session.and_then(|host| {
            let choice = Choice {
                hash: self.hashed.hash,
                avoid,
                draws,
                past: past.unwrap_or_default(),
            };
            let named = resolved
                .as_ref()
                .or(host)
                .or_else(|| self.named.as_mut()?.next(&entry.endpoints));
            let balanced = || upstreams.balancers.pick(entry, &worker.random, choice);
            named.or_else(balanced).ok_or(Fault::NoHealthyUpstream)
        });
        let host = host.inspect_err(|_| cells.upstream_cx_none_healthy.inc())?;
        if policy.is_some() {
            self.tried.push(host.id);
        }
        if per_priority.is_some() {
            self.priorities.add(entry.endpoints.priority_of(host.id));
        }
        let addresses = self.exchange.connection.addresses();
        let apart = Apart::of(&entry.cluster, head.authority_text(), Some(addresses));
        Ok(upstreams.pool(entry, host, apart))
    }

    async fn open(&self, pool: &Rc<HostPool>, head: &Head) -> Result<Lease, Fault> {
        let upstreams = &self.exchange.connection.upstreams;
        let name = Authority::of(head.authority_text()).host;
        // Boxed: large, and the usual request finds a connection.
        let opening = Box::pin(pool.acquire(upstreams, self.speak, Some(name)));
        match self.within_limits(opening, Some(pool)).await {
            Ok(opened) => opened.map_err(|fault| self.failed(fault, pool)),
            Err(fault) => Err(self.failed(fault, pool)),
        }
    }

    fn answered(&self, response: Response<()>, lease: Lease, guard: RequestGuard, sent: Instant) -> Answer {
        self.exchange.note(|record| record.details = "via_upstream".into());
        self.exchange.attempt_answered(&response);
        if let Some(trace) = self.exchange.trace() {
            trace.answered(response.status().as_u16());
        }
        let pool = guard.pool();
        let (cluster, host, headers) = (&pool.cluster, &pool.host, response.headers());
        load::heard(cluster, host, headers);
        // Only hosts that are probed can be left out.
        if cluster.health.check.is_some() && self.exchange.asks_to_leave(headers) {
            report::asked_to_leave(cluster, host);
        }
        report::answered(cluster, host, response.status(), headers);
        Answer {
            response,
            lease,
            guard,
            sent,
        }
    }

    pub(super) fn failed(&self, fault: Fault, pool: &HostPool) -> Fault {
        report::failed(&pool.cluster, &pool.host, fault);
        if fault.verdict().source == crate::fault::Source::Upstream {
            pool.host.stats.rq_error.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(
            fault,
            Fault::RemoteReset | Fault::RefusedStream | Fault::ConnectionTermination
        ) {
            pool.cells().upstream_rq_rx_reset.inc();
        }
        fault
    }

    /// Ready when a deadline of the request has passed.
    fn poll_limits(&self, cx: &mut Context<'_>, pool: Option<&Rc<HostPool>>) -> Poll<Fault> {
        let passed = self.exchange.timer.poll_expired(cx);
        passed.map(|kind| self.exchange.overdue(kind, pool))
    }

    pub(super) async fn within_limits<F: Future>(
        &self,
        work: F,
        pool: Option<&Rc<HostPool>>,
    ) -> Result<F::Output, Fault> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll_limits(cx, pool).map(Err),
        })
        .await
    }

    /// The answer when no backend gives one. `head` is there when edits may speak of the request.
    pub(super) fn give_up(&self, fault: Fault, head: Option<&Head>, attempts: u32) -> Response<ResponseBody> {
        let connection = &self.exchange.connection;
        tracing::debug!(
            cluster = %self.entry.cluster.name,
            route = self.route_name,
            flag = fault.verdict().flag,
            ?fault,
            "no response from upstream"
        );
        self.exchange.note(|record| record.fault(fault));
        if fault.is_of_cluster() {
            let cells = self.entry.cluster.stats.cells(connection.worker.index);
            counters::count_status(cells, fault.verdict().status);
        }
        let mut response = local_reply::of_fault(fault, self.audience);
        let manager = connection.manager();
        if fault == Fault::Overflow && !manager.router.suppress_envoy_headers {
            response
                .headers_mut()
                .insert(manager.prefixed.overloaded.clone(), HeaderValue::from_static("true"));
        }
        respond::dress_own(&mut response, self, head, attempts);
        response
    }
}
