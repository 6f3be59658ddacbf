//! The router: sends a request to a backend and brings the response.
//!
//! Cluster, timeouts, edits and rewrites, mirrors; then attempts ([`attempt`]) until one is good, none is left,
//! or time is up.

mod attempt;
pub(super) mod connect;
mod override_host;
mod priorities;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::{self, HeaderName};
use http::{HeaderValue, Response};
use smallvec::SmallVec;

use crate::clock::Kind;
use crate::config::Snapshot;
use crate::config::cluster::{Cluster, ClusterEntry, LbPolicy};
use crate::config::endpoint::{Host, HostId};
use crate::config::header::HeaderSteps;
use crate::config::http_manager::{Connect, SchemeOverride, Upgrade};
use crate::config::route::{ClusterChoice, Forward, HostRewrite, Route};
use crate::connection::Connection;
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::edits::{self, Scene};
use crate::http::exchange::Exchange;
use crate::http::filters::session::Session;
use crate::http::hashing::Hashed;
use crate::http::ingress::Notes;
use crate::http::local_reply::Audience;
use crate::http::route::Destination;
use crate::http::{Arrived, hashing, local_reply, mirror, rewrite};
use crate::local::Pinned;
use crate::message::body::{Arrival, RequestBody};
use crate::message::head::{Head, NotATarget};
use crate::message::incoming::Incoming;
use crate::message::replay::{Pull, SharedBody};
use crate::upstream::connect::Speak;
use crate::upstream::{Lease, RequestGuard};

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
    /// The exchange that it is part of.
    pub(crate) exchange: Rc<Exchange>,
    /// How far its body has arrived.
    pub(crate) arrival: Arrival,
    /// The session that it is part of.
    pub(crate) session: Option<Box<Session<'a>>>,
    /// What clusters that balance by hash go by.
    pub(crate) hashed: Hashed,
    /// The protocol to switch to.
    pub(crate) upgrade: Option<Box<str>>,
    host_rewrite: Option<&'a HostRewrite>,
    limits: Limits,
    /// Since when the backend's time runs, where no content is waited for.
    since: Instant,
    te_trailers: bool,
    audience: Audience,
    speak: Speak,
    tried: SmallVec<[HostId; 2]>,
    priorities: priorities::Tried,
    /// Hosts that the request names, where the cluster asks.
    named: Option<Box<override_host::OverrideHosts>>,
    /// The host, where it is the one that the request asks for.
    resolved: Option<Arc<Host>>,
}

/// Timeouts of this request.
#[derive(Clone, Copy)]
struct Limits {
    route: Option<Duration>,
    per_try: Option<Duration>,
}

/// A response whose head has arrived. The lease holds its body.
pub(crate) struct Answer {
    pub(crate) response: Response<()>,
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
pub(crate) async fn forward(
    snapshot: &Rc<Pinned>,
    route: &Route,
    settings: &Forward,
    arrived: Arrived<'_>,
) -> Response<ResponseBody> {
    let Arrived {
        exchange,
        mut head,
        notes,
        body,
        session,
        delayed,
        audience,
        metadata,
        asks_for,
        ..
    } = arrived;
    let prepared = match prepare(snapshot, route, settings, &exchange, &mut head, &notes) {
        Ok(prepared) => prepared,
        Err(fault) => return refuse(snapshot, &exchange, route, fault, audience, &head),
    };
    let (chosen, limits) = (prepared.chosen, prepared.limits);
    let connection = &exchange.connection;
    let named = override_host::OverrideHosts::of(&chosen.entry.cluster.named, &head, &metadata);
    let hashed = hashed(chosen.entry, settings, connection, &head);
    // With all edits but those that know the endpoint.
    exchange.note(|record| record.request(&head));
    if notes.upgrade.is_some() {
        // Whoever sends it on asks for it in its own way, and a mirror doesn't.
        head.headers.remove(header::CONNECTION);
        head.headers.remove(header::UPGRADE);
    }
    let start = exchange.begin_routing(delayed);
    let arrival = start_clock(&exchange, start, settings, limits, &body);
    exchange.receives(&arrival);
    let resolved = match chosen.entry.cluster.naming {
        None => None,
        // Boxed: most requests ask for nobody.
        Some(_) => match Box::pin(resolve(&exchange, chosen.entry, &head, asks_for)).await {
            Ok(host) => Some(host),
            Err(fault) => return refuse(snapshot, &exchange, route, fault, audience, &head),
        },
    };
    let source = body_source(body, &arrival, settings, &exchange);
    let options = mirror::MirrorOptions {
        trace: exchange.trace(),
        route: limits.route,
        te_trailers: notes.te_trailers,
    };
    if notes.upgrade.as_deref() != Some(Upgrade::CONNECT) {
        mirror::start(connection, snapshot, &settings.mirrors, &head, source.shared(), options);
    }
    let forwarding = Forwarding {
        settings,
        entry: chosen.entry,
        response_edits: chosen.response_edits,
        route_name: &route.name,
        exchange,
        arrival,
        session,
        hashed,
        upgrade: notes.upgrade,
        host_rewrite: prepared.host_rewrite,
        limits,
        since: start,
        te_trailers: notes.te_trailers,
        audience,
        speak: prepared.speak,
        tried: SmallVec::new(),
        priorities: priorities::Tried::default(),
        named: named.map(Box::new),
        resolved,
    };
    if forwarding.upgrade.as_deref() == Some(Upgrade::CONNECT) && connect_ends(settings) == Connect::Here {
        // Boxed: most requests never come here.
        return Box::pin(forwarding.connect(head)).await;
    }
    forwarding.run(head, source).await
}

/// What is settled of a request before its clock starts.
struct Prepared<'a> {
    chosen: Chosen<'a>,
    speak: Speak,
    limits: Limits,
    host_rewrite: Option<&'a HostRewrite>,
}

/// Chooses the cluster, and makes of the head what every endpoint gets.
fn prepare<'a>(
    snapshot: &'a Snapshot,
    route: &'a Route,
    settings: &'a Forward,
    exchange: &Exchange,
    head: &mut Head,
    notes: &Notes,
) -> Result<Prepared<'a>, Fault> {
    let connection = &*exchange.connection;
    let chosen = choose(snapshot, route, settings, head).inspect_err(|_| connection.cells().no_cluster.inc())?;
    let cluster = &chosen.entry.cluster;
    exchange.note(|record| record.upstream.cluster = Some(Arc::clone(cluster)));
    let speak = speak(&chosen, settings, connection, notes.upgrade.as_deref())?;
    if connection.manager().scheme == SchemeOverride::MatchUpstream {
        head.scheme = match cluster.tls {
            Some(_) => "https",
            None => "http",
        };
    }
    let limits = timeouts(settings, connection, head, notes);
    let scene = Scene {
        connection,
        cluster: &cluster.name,
        route: &route.name,
    };
    edits::edit_request(head, chosen.request_edits, scene);
    let host_rewrite = chosen.host_rewrite.or(settings.host_rewrite.as_ref());
    rewrite_head(head, route, settings, host_rewrite, connection)?;
    Ok(Prepared {
        chosen,
        speak,
        limits,
        host_rewrite,
    })
}

/// What the request's host is chosen by, where that matters.
fn hashed(entry: &ClusterEntry, settings: &Forward, connection: &Connection, head: &Head) -> Hashed {
    match entry.cluster.balancing.policy {
        LbPolicy::Hash => hashing::of_request(&settings.hashing, connection, head),
        _ => Hashed::default(),
    }
}

/// The host that a request asks for. Only what the filter has allowed is resolved: a request that names somebody else
/// by now goes nowhere.
async fn resolve(
    exchange: &Exchange,
    entry: &ClusterEntry,
    head: &Head,
    allowed: Option<HeaderValue>,
) -> Result<Arc<Host>, Fault> {
    let asked = head.authority_text();
    let is_allowed = allowed.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(asked.as_bytes()));
    if !is_allowed {
        return Err(Fault::NoHealthyUpstream);
    }
    let mut resolving = pin!(exchange.connection.upstreams.names.host(entry, asked));
    poll_fn(|cx| match resolving.as_mut().poll(cx) {
        Poll::Ready(resolved) => Poll::Ready(resolved),
        Poll::Pending => {
            let passed = exchange.timer.poll_expired(cx);
            passed.map(|kind| Err(exchange.overdue(kind, None)))
        }
    })
    .await
}

fn refuse(
    snapshot: &Snapshot,
    exchange: &Exchange,
    route: &Route,
    fault: Fault,
    audience: Audience,
    head: &Head,
) -> Response<ResponseBody> {
    exchange.note(|record| record.fault(fault));
    let mut response = local_reply::of_fault(fault, audience);
    Destination::Route(route).edit_own(&mut response, snapshot, exchange, head);
    response
}

/// The cluster that a request goes to by a route.
pub(super) fn cluster(snapshot: &Snapshot, route: &Route, settings: &Forward, head: &Head) -> Option<Arc<Cluster>> {
    let chosen = choose(snapshot, route, settings, head).ok()?;
    Some(Arc::clone(&chosen.entry.cluster))
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
            let choice = weighted.entry(head.random).ok_or(missing)?;
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

/// What to speak to the backend; an upgrade needs a route that allows it.
fn speak(
    chosen: &Chosen<'_>,
    settings: &Forward,
    connection: &Connection,
    upgrade: Option<&str>,
) -> Result<Speak, Fault> {
    let usual = Speak::of(&chosen.entry.cluster, connection.protocol);
    match upgrade {
        None => Ok(usual),
        Some(protocol) if !allows_upgrade(settings, connection, protocol) => Err(Fault::UpgradeForbidden),
        // The connection isn't spoken on at all.
        Some(Upgrade::CONNECT) if connect_ends(settings) == Connect::Here => Ok(Speak::Http1),
        // Whether a backend that speaks both takes extended CONNECT isn't known before; HTTP/1.1 always has upgrades.
        Some(_) => Ok(match usual {
            Speak::Http1 | Speak::Negotiate => Speak::Http1,
            Speak::Http2 => Speak::Http2,
        }),
    }
}

/// Where a CONNECT of the route ends.
fn connect_ends(settings: &Forward) -> Connect {
    let mut upgrades = settings.upgrades.iter();
    let found = upgrades.find(|upgrade| &*upgrade.protocol == Upgrade::CONNECT);
    found.map(|upgrade| upgrade.connect).unwrap_or_default()
}

fn allows_upgrade(settings: &Forward, connection: &Connection, protocol: &str) -> bool {
    let manager = connection.manager();
    let of = |upgrades: &[Upgrade]| {
        let found = upgrades.iter().find(|upgrade| &*upgrade.protocol == protocol);
        found.map(|upgrade| upgrade.enabled)
    };
    of(&settings.upgrades)
        .or_else(|| of(&manager.upgrades))
        .unwrap_or(false)
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
        for name in &names.consumed {
            head.headers.remove(name);
        }
    }
    if let (Some(per_try), Some(route)) = (limits.per_try, limits.route)
        && per_try >= route
    {
        limits.per_try = None;
    }
    limits.tell(Duration::ZERO, connection, head);
    limits
}

impl Limits {
    /// Tells the backend how long it has, when so much of the route's time is gone.
    fn tell(self, elapsed: Duration, connection: &Connection, head: &mut Head) {
        let manager = connection.manager();
        let Some(time) = self.per_try.or(self.route) else {
            return;
        };
        if manager.router.suppress_envoy_headers {
            return;
        }
        // Not none at all, which would mean without end.
        let left = self
            .route
            .map(|route| route.saturating_sub(elapsed).max(Duration::from_millis(1)));
        let time = left.map_or(time, |left| left.min(time));
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let value = connection.worker.numbers.value(millis);
        head.headers
            .insert(manager.prefixed.expected_rq_timeout_ms.clone(), value);
    }
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
) -> Result<(), Fault> {
    // The endpoint's name is known per attempt only.
    if let Some(rewrite) = host.filter(|rewrite| !matches!(rewrite, HostRewrite::Endpoint)) {
        let new = rewrite::host(rewrite, head, "");
        set_authority(head, new, settings, connection);
    }
    if let Some(rewrite) = &settings.path_rewrite {
        let new = rewrite::path(rewrite, &route.path, head.target.as_str());
        let manager = connection.manager();
        if !manager.router.suppress_envoy_headers
            && let Ok(old) = HeaderValue::from_str(head.target.as_str())
        {
            head.headers.insert(manager.prefixed.original_path.clone(), old);
        }
        // A path that was to be replaced must not reach the backend.
        head.set_target(&new).map_err(|NotATarget| Fault::BadRewrite)?;
    }
    Ok(())
}

fn set_authority(head: &mut Head, new: Option<HeaderValue>, settings: &Forward, connection: &Connection) {
    let Some(new) = new else { return };
    let old = std::mem::replace(&mut head.authority, new);
    let manager = connection.manager();
    if !manager.router.suppress_envoy_headers {
        let name = manager.prefixed.original_host.clone();
        head.headers.insert(name, old.clone());
    }
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

fn start_clock(exchange: &Exchange, start: Instant, settings: &Forward, limits: Limits, body: &Incoming) -> Arrival {
    let (timer, begun) = (&exchange.timer, exchange.asked_since);
    let timeouts = &exchange.connection.manager().timeouts;
    let idle = settings.idle_timeout.unwrap_or(timeouts.stream_idle);
    exchange.set_idle(start, idle);
    timer.set(
        Kind::Lifetime,
        begun,
        settings.max_stream_duration.unwrap_or(timeouts.max_stream_duration),
    );
    if http_body::Body::is_end_stream(body) {
        timer.set(Kind::Route, start, limits.route);
        return Arrival::complete();
    }
    timer.set(Kind::Request, begun, timeouts.request);
    Arrival::new(timer, idle, limits.route)
}

fn body_source(body: Incoming, arrival: &Arrival, settings: &Forward, exchange: &Exchange) -> Source {
    if arrival.is_done() {
        Source::Empty
    } else if settings.retry.is_some() || !settings.mirrors.is_empty() {
        let most = settings
            .body_limit
            .unwrap_or_else(|| exchange.connection.buffer_limit());
        Source::Shared(SharedBody::new(body, arrival.clone(), most))
    } else {
        Source::Once(Some(body))
    }
}

impl Source {
    fn shared(&self) -> Option<&SharedBody> {
        match self {
            Self::Shared(shared) => Some(shared),
            Self::Empty | Self::Once(_) => None,
        }
    }

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
