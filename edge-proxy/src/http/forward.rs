//! The router: sends a request to a backend and brings the response.
//!
//! What: cluster, timeouts, edits and rewrites, mirrors; then attempts until one is good, none is left, or time is up.
//! Why the head moves into the request when no retry is configured: the usual request must not pay for a copy that
//! only retries need.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::HeaderName;
use http::{HeaderValue, Method, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use smallvec::SmallVec;

use crate::clock::Kind;
use crate::config::Snapshot;
use crate::config::cluster::ClusterEntry;
use crate::config::endpoint::HostId;
use crate::config::header::HeaderSteps;
use crate::config::route::{ClusterChoice, Forward, HostRewrite, RetryPolicy, Route};
use crate::config::tls::Sni;
use crate::downstream::connection::Connection;
use crate::fault::Fault;
use crate::http::body::{Arrival, RequestBody, ResponseBody};
use crate::http::edits::{self, Scene};
use crate::http::head::Head;
use crate::http::ingress::Notes;
use crate::http::replay::{Pull, SharedBody};
use crate::http::request::{self, Extras};
use crate::http::stream::Stream;
use crate::http::{audience, local_reply, mirror, respond, retry, rewrite};
use crate::upstream::connect::Speak;
use crate::upstream::{HostPool, Lease, RequestGuard};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// A request on its way.
pub(crate) struct Forwarding<'a> {
    /// The route's settings.
    pub(crate) settings: &'a Forward,
    /// The cluster.
    pub(crate) entry: &'a ClusterEntry,
    /// Edits of the response.
    pub(crate) response_edits: &'a HeaderSteps,
    /// The route's name.
    pub(crate) route_name: &'a str,
    /// The request as the connection manager counts it.
    pub(crate) stream: Stream,
    /// How far its body has arrived.
    pub(crate) arrival: Arrival,
    /// The stream idle timeout.
    pub(crate) idle: Option<Duration>,
    /// The protocol to switch to.
    pub(crate) upgrade: Option<Box<str>>,
    /// The HTTP/2 stream to switch.
    pub(crate) on_upgrade: Option<OnUpgrade>,
    host_rewrite: Option<&'a HostRewrite>,
    limits: Limits,
    te_trailers: bool,
    speak: Speak,
    tried: SmallVec<[HostId; 2]>,
}

/// Timeouts of this request.
#[derive(Clone, Copy)]
struct Limits {
    route: Option<Duration>,
    per_try: Option<Duration>,
}

/// A response whose head has arrived.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) lease: Lease,
    pub(crate) guard: RequestGuard,
    pub(crate) sent: Instant,
}

/// Where the body of the next attempt comes from.
enum Source {
    Empty,
    Once(Option<Incoming>),
    Shared(SharedBody),
}

/// Forwards a request by a route.
#[allow(clippy::too_many_arguments)]
pub(crate) async fn forward(
    snapshot: &Rc<Arc<Snapshot>>,
    route: &Route,
    settings: &Forward,
    stream: Stream,
    mut head: Head,
    notes: Notes,
    body: Incoming,
    on_upgrade: Option<OnUpgrade>,
) -> Response<ResponseBody> {
    let connection = Rc::clone(&stream.connection);
    let chosen = match choose(snapshot, route, settings, &head) {
        Ok(chosen) => chosen,
        Err(fault) => {
            connection.cells().no_cluster.inc();
            return local_reply::of_fault(fault, audience(&head));
        }
    };
    let mut speak = Speak::of(&chosen.entry.cluster, connection.protocol);
    if let Some(protocol) = &notes.upgrade {
        if !allows_upgrade(settings, &connection, protocol)
            || chosen.entry.cluster.protocol == crate::config::cluster::UpstreamProtocol::Http2
        {
            return local_reply::of_fault(Fault::UpgradeForbidden, audience(&head));
        }
        speak = Speak::Http1;
    }
    let limits = timeouts(settings, &connection, &mut head, &notes);
    let scene = Scene {
        connection: &connection,
        cluster: &chosen.entry.cluster.name,
        route: &route.name,
    };
    edits::edit_request(&mut head, chosen.request_edits, scene);
    let host_rewrite = chosen.host_rewrite.or(settings.host_rewrite.as_ref());
    rewrite_head(&mut head, route, settings, host_rewrite, &connection);
    let manager = connection.manager();
    let idle = settings.idle_timeout.unwrap_or(manager.timeouts.stream_idle);
    let arrival = start_clock(&stream, settings, limits, idle, &body);
    let source = body_source(body, &arrival, settings, chosen.entry);
    if !settings.mirrors.is_empty() {
        let shared = if let Source::Shared(shared) = &source {
            Some(shared)
        } else {
            None
        };
        let worker = &connection.worker;
        mirror::start(
            worker,
            snapshot,
            &settings.mirrors,
            &head,
            shared,
            connection.protocol,
            limits.route,
        );
    }
    let forwarding = Forwarding {
        settings,
        entry: chosen.entry,
        response_edits: chosen.response_edits,
        route_name: &route.name,
        stream,
        arrival,
        idle,
        upgrade: notes.upgrade,
        on_upgrade,
        host_rewrite,
        limits,
        te_trailers: notes.te_trailers,
        speak,
        tried: SmallVec::new(),
    };
    forwarding.run(head, source).await
}

/// A cluster and what comes with the choice.
struct Chosen<'a> {
    entry: &'a ClusterEntry,
    request_edits: &'a HeaderSteps,
    response_edits: &'a HeaderSteps,
    host_rewrite: Option<&'a HostRewrite>,
}

fn choose<'a>(
    snapshot: &'a Snapshot,
    route: &'a Route,
    settings: &'a Forward,
    head: &Head,
) -> Result<Chosen<'a>, Fault> {
    let missing = Fault::NoCluster(settings.cluster_not_found);
    let plain = |entry| Chosen {
        entry,
        request_edits: &route.request_headers,
        response_edits: &route.response_headers,
        host_rewrite: None,
    };
    match &settings.clusters {
        ClusterChoice::Single(id) => Ok(plain(snapshot.cluster(*id).ok_or(missing)?)),
        ClusterChoice::Weighted(weighted) => {
            // Other bits than a fraction on the same route looks at.
            let choice = weighted.pick(head.random.rotate_left(32)).ok_or(missing)?;
            Ok(Chosen {
                entry: snapshot.cluster(choice.cluster).ok_or(missing)?,
                request_edits: &choice.request_headers,
                response_edits: &choice.response_headers,
                host_rewrite: choice.host_rewrite.as_ref(),
            })
        }
        ClusterChoice::Header(name) => {
            let named = head.headers.get(name).and_then(|value| value.to_str().ok());
            Ok(plain(
                named.and_then(|name| snapshot.cluster_by_name(name)).ok_or(missing)?,
            ))
        }
    }
}

fn allows_upgrade(settings: &Forward, connection: &Connection, protocol: &str) -> bool {
    let own = settings.upgrades.iter().find(|upgrade| &*upgrade.protocol == protocol);
    own.or_else(|| {
        connection
            .manager()
            .upgrades
            .iter()
            .find(|upgrade| &*upgrade.protocol == protocol)
    })
    .is_some_and(|upgrade| upgrade.enabled)
}

/// The route's timeouts, which a trusted caller may override, and the header that tells the backend.
fn timeouts(settings: &Forward, connection: &Connection, head: &mut Head, notes: &Notes) -> Limits {
    let manager = connection.manager();
    let mut limits = Limits {
        route: settings.timeout,
        per_try: settings.retry.as_ref().and_then(|policy| policy.per_try_timeout),
    };
    let names = &manager.prefixed;
    if notes.prefixed {
        if let Some(timeout) = take_millis(head, &names.upstream_rq_timeout_ms) {
            limits.route = timeout;
        }
        if let Some(timeout) = take_millis(head, &names.upstream_rq_per_try_timeout_ms) {
            limits.per_try = timeout;
        }
    }
    if let (Some(per_try), Some(route)) = (limits.per_try, limits.route)
        && per_try >= route
    {
        limits.per_try = None;
    }
    if !manager.router.suppress_envoy_headers
        && let Some(expected) = limits.per_try.or(limits.route)
    {
        let millis = u64::try_from(expected.as_millis()).unwrap_or(u64::MAX);
        head.headers
            .insert(names.expected_rq_timeout_ms.clone(), HeaderValue::from(millis));
    }
    limits
}

/// `Some(None)` is "no timeout", written as 0.
fn take_millis(head: &mut Head, name: &HeaderName) -> Option<Option<Duration>> {
    let value = head.headers.remove(name)?;
    let millis: u64 = value.to_str().ok()?.parse().ok()?;
    Some((millis > 0).then(|| Duration::from_millis(millis)))
}

fn rewrite_head(
    head: &mut Head,
    route: &Route,
    settings: &Forward,
    host: Option<&HostRewrite>,
    connection: &Connection,
) {
    // The endpoint's name is known per attempt only.
    if let Some(rewrite) = host.filter(|rewrite| !matches!(rewrite, HostRewrite::Endpoint)) {
        let new = rewrite::host(rewrite, head, "");
        set_authority(head, new, settings);
    }
    if let Some(rewrite) = &settings.path_rewrite {
        let new = rewrite::path(rewrite, &route.path, head.target.as_str());
        let manager = connection.manager();
        if !manager.router.suppress_envoy_headers
            && let Ok(old) = HeaderValue::from_str(head.target.as_str())
        {
            head.headers.insert(manager.prefixed.original_path.clone(), old);
        }
        head.set_target(new.into());
    }
}

fn set_authority(head: &mut Head, new: Option<HeaderValue>, settings: &Forward) {
    let Some(new) = new else { return };
    let old = std::mem::replace(&mut head.authority, new);
    if settings.append_x_forwarded_host {
        let value = match head.headers.get(X_FORWARDED_HOST) {
            Some(there) => {
                let mut joined = there.as_bytes().to_vec();
                joined.push(b',');
                joined.extend_from_slice(old.as_bytes());
                HeaderValue::from_bytes(&joined).unwrap_or(old)
            }
            None => old,
        };
        head.headers.insert(X_FORWARDED_HOST, value);
    }
}

fn start_clock(
    stream: &Stream,
    settings: &Forward,
    limits: Limits,
    idle: Option<Duration>,
    body: &Incoming,
) -> Arrival {
    let (timer, now) = (&stream.timer, stream.started);
    let timeouts = &stream.connection.manager().timeouts;
    let arrival = Arrival::new(timer, idle, limits.route);
    timer.set(Kind::Idle, now, idle);
    timer.set(
        Kind::Lifetime,
        now,
        settings.max_stream_duration.unwrap_or(timeouts.max_stream_duration),
    );
    if http_body::Body::is_end_stream(body) {
        arrival.finish();
    } else {
        timer.set(Kind::Request, now, timeouts.request);
    }
    arrival
}

fn body_source(body: Incoming, arrival: &Arrival, settings: &Forward, entry: &ClusterEntry) -> Source {
    if arrival.is_done() {
        Source::Empty
    } else if settings.retry.is_some() || !settings.mirrors.is_empty() {
        Source::Shared(SharedBody::new(
            body,
            arrival.clone(),
            entry.cluster.per_connection_buffer_limit,
        ))
    } else {
        Source::Once(Some(body))
    }
}

impl Source {
    fn next(&mut self, arrival: &Arrival) -> RequestBody {
        match self {
            Self::Empty => RequestBody::Empty,
            Self::Once(body) => body
                .take()
                .map_or(RequestBody::Empty, |body| RequestBody::Stream(body, arrival.clone())),
            Self::Shared(shared) => RequestBody::Shared(shared.reader(Pull::Client)),
        }
    }

    /// Whether another attempt could send the same body.
    fn is_replayable(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Once(_) => false,
            Self::Shared(shared) => shared.is_replayable(),
        }
    }
}

impl<'a> Forwarding<'a> {
    async fn run(mut self, head: Head, mut source: Source) -> Response<ResponseBody> {
        let audience = audience(&head);
        let Some(policy) = self.settings.retry.as_deref().filter(|policy| policy.max_retries > 0) else {
            let keep = self.templates_need_head().then(|| head.clone());
            return match self.attempt(head, &mut source, 1).await {
                Ok(answer) => respond::respond(self, answer, keep.as_ref(), 1).await,
                Err(fault) => self.give_up(fault, audience),
            };
        };
        // Boxed: most requests never come here.
        Box::pin(self.run_with_retries(head, source, policy)).await
    }

    async fn run_with_retries(
        mut self,
        head: Head,
        mut source: Source,
        policy: &RetryPolicy,
    ) -> Response<ResponseBody> {
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(head.clone(), &mut source, attempt).await;
            let wanted = match &outcome {
                Ok(answer) => retry::wants_response(policy, answer.response.status(), answer.response.headers()),
                Err(fault) => retry::wants_fault(policy, *fault),
            };
            if wanted && self.may_retry(policy, attempt, &source) {
                drop(outcome);
                match self.pause(policy, attempt).await {
                    Ok(()) => {
                        attempt += 1;
                        continue;
                    }
                    Err(fault) => return self.give_up(fault, audience(&head)),
                }
            }
            return match outcome {
                Ok(answer) => {
                    if attempt > 1 && !wanted {
                        answer.guard.pool().cells().upstream_rq_retry_success.inc();
                    }
                    respond::respond(self, answer, Some(&head), attempt).await
                }
                Err(fault) => self.give_up(fault, audience(&head)),
            };
        }
    }

    fn may_retry(&self, policy: &RetryPolicy, attempt: u32, source: &Source) -> bool {
        let cells = self.entry.cluster.stats.cells(self.stream.connection.worker.index);
        if attempt > policy.max_retries {
            cells.upstream_rq_retry_limit_exceeded.inc();
            return false;
        }
        source.is_replayable()
    }

    /// Waits for the back-off, counted against the cluster's limit on retries.
    async fn pause(&self, policy: &RetryPolicy, attempt: u32) -> Result<(), Fault> {
        let worker = &self.stream.connection.worker;
        let cells = self.entry.cluster.stats.cells(worker.index);
        let Some(_retrying) = worker
            .upstreams
            .balancers
            .begin_retry(self.entry, worker.shared.workers)
        else {
            cells.upstream_rq_retry_overflow.inc();
            return Err(Fault::Overflow);
        };
        cells.upstream_rq_retry.inc();
        let pause = retry::pause(policy, attempt, &worker.random);
        self.within_limits(tokio::time::sleep(pause), None).await
    }

    /// Edits of the response that speak of the request need the head after it has been sent.
    fn templates_need_head(&self) -> bool {
        use crate::config::header::{HeaderStep, HeaderTemplate};
        self.response_edits.iter().any(|step| {
            matches!(
                step,
                HeaderStep::Put {
                    value: HeaderTemplate::Parts(_),
                    ..
                }
            )
        })
    }

    async fn attempt(&mut self, mut head: Head, source: &mut Source, number: u32) -> Result<Answer, Fault> {
        let connection = Rc::clone(&self.stream.connection);
        let worker = &connection.worker;
        let pool = self.pick(&head)?;
        if self.limits.per_try.is_some() {
            self.stream
                .timer
                .set(Kind::PerTry, worker.clock.now(), self.limits.per_try);
        }
        if let Some(HostRewrite::Endpoint) = self.host_rewrite {
            let new = rewrite::host(&HostRewrite::Endpoint, &head, &pool.host.hostname);
            set_authority(&mut head, new, self.settings);
        }
        if self.settings.attempt_count_in_request {
            head.headers.insert(
                connection.manager().prefixed.attempt_count.clone(),
                HeaderValue::from(number),
            );
        }
        let mut lease = match pool.checkout(self.speak, self.stream.started) {
            Some(lease) => lease,
            None => self.open(&pool, &head).await?,
        };
        let guard = RequestGuard::new(&pool);
        let body = source.next(&self.arrival);
        // An idle connection may have been closed by the backend a moment ago. What is safe to send twice (RFC 9110
        // §9.2.2) is then sent once more on a new one.
        let spare =
            (self.is_safe_twice(&head, source) && lease.may_be_stale(self.stream.started)).then(|| head.clone());
        let extras = Extras {
            upgrade: self.upgrade.as_deref(),
            te_trailers: self.te_trailers,
        };
        let request = request::build(head, body, extras, &lease)?;
        let sent = worker.clock.recent();
        let failure = match lease.send(request, |cx| self.poll_limits(cx, Some(&pool))).await {
            Ok(response) => {
                return Ok(self.answered(Answer {
                    response,
                    lease,
                    guard,
                    sent,
                }));
            }
            Err(failure) => failure,
        };
        drop(lease);
        let request = match (failure.unsent, spare) {
            (Some(request), _) if failure.fault == Fault::ConnectionTermination => *request,
            (None, Some(head)) if failure.fault == Fault::ConnectionTermination => {
                let mut lease = self.reopen(&pool, &head).await?;
                let request = request::build(head, RequestBody::Empty, extras, &lease)?;
                return self.second_send(&mut lease, request, &pool).await.map(|response| {
                    self.answered(Answer {
                        response,
                        lease,
                        guard,
                        sent,
                    })
                });
            }
            _ => return Err(self.failed(failure.fault, &pool)),
        };
        let mut lease = self.reopen_for(&pool, &request).await?;
        let response = self.second_send(&mut lease, request, &pool).await?;
        Ok(self.answered(Answer {
            response,
            lease,
            guard,
            sent,
        }))
    }

    fn is_safe_twice(&self, head: &Head, source: &Source) -> bool {
        matches!(source, Source::Empty)
            && matches!(
                head.method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
            )
            && self.upgrade.is_none()
    }

    fn pick(&mut self, head: &Head) -> Result<Rc<HostPool>, Fault> {
        let worker = &self.stream.connection.worker;
        let (entry, cells) = (self.entry, self.entry.cluster.stats.cells(worker.index));
        let workers = worker.shared.workers;
        let limit = entry.cluster.limits.max_requests;
        if !crate::upstream::limits::below(&entry.cluster, worker.index, workers, limit, |cells| {
            &cells.upstream_rq_active
        }) {
            cells.upstream_rq_pending_overflow.inc();
            return Err(Fault::Overflow);
        }
        let policy = self.settings.retry.as_deref();
        let (avoid, draws): (&[HostId], u32) = match policy {
            Some(policy) if policy.avoid_previous_hosts => (&self.tried, policy.host_selection_attempts),
            _ => (&[], 0),
        };
        let Some(host) = worker.upstreams.balancers.pick(entry, &worker.random, avoid, draws) else {
            cells.upstream_cx_none_healthy.inc();
            return Err(Fault::NoHealthyUpstream);
        };
        if policy.is_some() {
            self.tried.push(host.id);
        }
        Ok(worker.upstreams.pool(worker.index, entry, host, self.name_key(head)))
    }

    /// Connections whose TLS server name follows the request are kept apart by that name.
    fn name_key(&self, head: &Head) -> u64 {
        match &self.entry.cluster.tls {
            Some(tls) if tls.sni == Sni::Authority => {
                xxhash_rust::xxh3::xxh3_64(crate::config::table::without_port(head.authority_text()).as_bytes()).max(1)
            }
            _ => 0,
        }
    }

    async fn open(&self, pool: &Rc<HostPool>, head: &Head) -> Result<Lease, Fault> {
        let worker = &self.stream.connection.worker;
        let name = crate::config::table::without_port(head.authority_text());
        // Boxed: large, and the usual request finds a connection.
        let opening = Box::pin(pool.acquire(worker, self.speak, Some(name)));
        match self.within_limits(opening, Some(pool)).await {
            Ok(opened) => opened.map_err(|fault| self.failed(fault, pool)),
            Err(fault) => Err(self.failed(fault, pool)),
        }
    }

    async fn reopen(&self, pool: &Rc<HostPool>, head: &Head) -> Result<Lease, Fault> {
        pool.drop_idle();
        self.open(pool, head).await
    }

    async fn reopen_for(&self, pool: &Rc<HostPool>, request: &http::Request<RequestBody>) -> Result<Lease, Fault> {
        pool.drop_idle();
        let worker = &self.stream.connection.worker;
        let host = request
            .headers()
            .get(http::header::HOST)
            .and_then(|value| value.to_str().ok());
        let name = request.uri().host().or(host).map(crate::config::table::without_port);
        let opening = Box::pin(pool.acquire(worker, self.speak, name));
        self.within_limits(opening, Some(pool))
            .await?
            .map_err(|fault| self.failed(fault, pool))
    }

    async fn second_send(
        &self,
        lease: &mut Lease,
        request: http::Request<RequestBody>,
        pool: &Rc<HostPool>,
    ) -> Result<Response<Incoming>, Fault> {
        let sending = Box::pin(lease.send(request, |cx| self.poll_limits(cx, Some(pool))));
        sending.await.map_err(|failure| self.failed(failure.fault, pool))
    }

    fn answered(&self, answer: Answer) -> Answer {
        self.stream.timer.clear(Kind::PerTry);
        answer
    }

    fn failed(&self, fault: Fault, pool: &HostPool) -> Fault {
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
        self.stream.timer.poll_expired(cx).map(|kind| {
            self.stream.timer.clear(kind);
            self.stream.count_expired(kind, pool);
            Stream::fault_of(kind, self.arrival.is_done())
        })
    }

    async fn within_limits<F: Future>(&self, work: F, pool: Option<&Rc<HostPool>>) -> Result<F::Output, Fault> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll_limits(cx, pool).map(Err),
        })
        .await
    }

    fn give_up(&self, fault: Fault, audience: local_reply::Audience) -> Response<ResponseBody> {
        let connection = &self.stream.connection;
        tracing::debug!(
            cluster = %self.entry.cluster.name,
            route = self.route_name,
            flag = fault.verdict().flag,
            ?fault,
            "no response from upstream"
        );
        let mut response = local_reply::of_fault(fault, audience);
        let manager = connection.manager();
        if fault == Fault::Overflow && !manager.router.suppress_envoy_headers {
            response
                .headers_mut()
                .insert(manager.prefixed.overloaded.clone(), HeaderValue::from_static("true"));
        }
        response
    }
}
