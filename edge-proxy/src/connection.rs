//! One client connection: what its requests need to know, and how it ends.
//!
//! Addresses, the certificate that was shown ([`peer`]), the settings that serve it ([`settings`]), how much it
//! may hold for its client ([`budget`]), and a small state of ends: idle, too long a head, too old, asked to leave. The
//! task that drives HTTP asks [`Connection::poll_command`] whenever it runs. It knows of no requests, and of its socket
//! only when it is to be closed: that is for [`crate::downstream`].

pub(crate) mod budget;
pub(crate) mod peer;
pub(crate) mod settings;

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::HeaderValue;
use tokio::sync::Notify;

use crate::clock::{Kind, Timer};
use crate::config::access::Facts;
use crate::config::http_manager::HttpManager;
use crate::config::listener::{FilterChain, Listener};
use crate::connection::budget::Budget;
use crate::connection::peer::{Agreed, PeerCertificate};
use crate::http1::buffers::LARGE_READ;
use crate::local::Local;
use crate::message::Protocol;
use crate::proxy_protocol::Addresses;
use crate::shared::Drain;
use crate::stats::{ConnectionManagerCells, HttpStats};
use crate::transport::Transport;
use crate::upstream::Upstreams;
use settings::ConnectionSettings;
pub(crate) use settings::Manager;

/// What the driving task is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Serve on.
    Serve,
    /// Finish what runs, take nothing new (in HTTP/2: tell the client first).
    Finish,
    /// The client has been told long enough: take nothing new, end as soon as nothing runs.
    Refuse,
    /// Close now.
    Close,
}

/// How far a connection is on its way out. Only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    No,
    /// The next response says so.
    AfterResponse,
    /// As soon as nothing runs.
    WhenIdle,
    /// The driver knows.
    Told,
}

/// A client connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The worker it lives on.
    pub(crate) worker: Rc<Local>,
    /// The connections to backends there.
    pub(crate) upstreams: Rc<Upstreams>,
    /// The chain that it was accepted by.
    chain: Arc<FilterChain>,
    /// What serves it.
    settings: RefCell<Rc<ConnectionSettings>>,
    /// The counters stay those that it was counted in first.
    stats: Arc<HttpStats>,
    /// The version of the configuration that was looked at last.
    followed: Cell<u64>,
    /// What serves it is no part of the configuration any more.
    left: Cell<bool>,
    /// Tells tunnels that.
    abandoned: Notify,
    accepted: Instant,
    /// The client's address: where a proxy hands the connection on, as its PROXY header says.
    pub(crate) client: SocketAddr,
    /// Its text, for headers.
    pub(crate) client_text: HeaderValue,
    /// The address that the client wanted, by the same header.
    pub(crate) local: SocketAddr,
    /// The addresses of the socket, whoever it is handed on for: its `client` is the peer.
    pub(crate) direct: Addresses,
    /// The server name of the client hello, lower case.
    pub(crate) server_name: Option<Arc<str>>,
    /// What is spoken.
    pub(crate) protocol: Protocol,
    /// What the client has shown of itself, and was accepted.
    pub(crate) certificate: Option<Rc<PeerCertificate>>,
    /// What was agreed on in TLS.
    pub(crate) agreed: Option<Agreed>,
    /// The transport, once HTTP/2 has let go of it.
    pub(crate) leftover: RefCell<Option<Transport>>,
    timer: Timer,
    active: Cell<u32>,
    requests: Cell<u32>,
    /// When the first part of a head came that isn't complete.
    head_since: Cell<Option<Instant>>,
    leaving: Cell<Leaving>,
    /// What its streams share in HTTP/2.
    budget: OnceCell<Rc<Budget>>,
    waker: RefCell<Option<Waker>>,
}

/// What is known when a connection starts to speak HTTP.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Since when there is a connection.
    pub(crate) since: Instant,
    pub(crate) listener: Arc<Listener>,
    pub(crate) chain: Arc<FilterChain>,
    pub(crate) http: Arc<HttpManager>,
    /// After the PROXY header.
    pub(crate) addresses: Addresses,
    /// Of the socket.
    pub(crate) direct: Addresses,
    pub(crate) server_name: Option<Arc<str>>,
    pub(crate) protocol: Protocol,
    pub(crate) certificate: Option<Rc<PeerCertificate>>,
    pub(crate) agreed: Option<Agreed>,
}

impl Connection {
    /// A connection that has just been accepted.
    pub(crate) fn new(upstreams: Rc<Upstreams>, accepted: Accepted) -> Rc<Self> {
        let Accepted {
            since,
            listener,
            chain,
            http,
            addresses,
            direct,
            server_name,
            protocol,
            certificate,
            agreed,
        } = accepted;
        let Addresses { client, local } = addresses;
        let worker = Rc::clone(&upstreams.worker);
        let client_text = client.ip().to_canonical().to_string();
        let timer = worker.clock.timer();
        let now = worker.clock.now();
        timer.set(Kind::Idle, now, http.timeouts.idle);
        timer.set(Kind::Lifetime, since, http.timeouts.max_connection_duration);
        let leaving = if worker.drain() == Drain::Serving {
            Leaving::No
        } else {
            Leaving::AfterResponse
        };
        Rc::new(Self {
            worker,
            upstreams,
            chain,
            stats: Arc::clone(&http.stats),
            settings: RefCell::new(Rc::new(ConnectionSettings { listener, http })),
            followed: Cell::new(0),
            left: Cell::new(false),
            abandoned: Notify::new(),
            accepted: since,
            client,
            client_text: HeaderValue::from_str(&client_text).unwrap_or_else(|_| HeaderValue::from_static("")),
            local,
            direct,
            server_name,
            protocol,
            certificate,
            agreed,
            leftover: RefCell::new(None),
            timer,
            active: Cell::new(0),
            requests: Cell::new(0),
            head_since: Cell::new(None),
            leaving: Cell::new(leaving),
            budget: OnceCell::new(),
            waker: RefCell::new(None),
        })
    }

    /// The settings of HTTP.
    pub(crate) fn manager(&self) -> Manager {
        Manager(Rc::clone(&self.settings.borrow()))
    }

    /// This worker's `http.<prefix>.` counters.
    pub(crate) fn cells(&self) -> &ConnectionManagerCells {
        self.stats.cells(self.worker.index)
    }

    /// The name of the chain that has accepted it.
    pub(crate) fn chain_name(&self) -> &str {
        &self.chain.name
    }

    /// How much its streams may hold for the client in HTTP/2.
    pub(crate) fn budget(&self) -> Rc<Budget> {
        let budget = || Budget::new(self.settings.borrow().listener.per_connection_buffer_limit);
        Rc::clone(self.budget.get_or_init(budget))
    }

    /// How much of a message may be kept.
    pub(crate) fn buffer_limit(&self) -> usize {
        self.settings.borrow().listener.per_connection_buffer_limit
    }

    /// How much should be read of a backend at a time.
    pub(crate) fn room(&self) -> usize {
        self.budget.get().map_or(LARGE_READ, |budget| budget.room())
    }

    /// What rules see of it.
    pub(crate) fn with_facts<T>(&self, judge: impl FnOnce(Facts<'_>) -> T) -> T {
        judge(Facts {
            peer: self.direct.client.ip().to_canonical(),
            source: self.client.ip().to_canonical(),
            client: self.client.ip().to_canonical(),
            local: self.local,
            server_name: self.server_name.as_deref().unwrap_or_default(),
            certificate: &|| peer::names(self.agreed, self.certificate.as_deref()),
            request: None,
            attributes: None,
        })
    }

    /// Client and local address, after the PROXY header.
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            client: self.client,
            local: self.local,
        }
    }

    /// True over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.chain.tls.is_some()
    }

    /// Other settings hold from now on: the deadlines that run do so by them.
    fn restart_clock(&self) {
        let timeouts = self.manager().timeouts;
        self.timer
            .set(Kind::Lifetime, self.accepted, timeouts.max_connection_duration);
        self.rest_from(self.worker.clock.now());
    }

    /// The connection is idle, unless there is a request: one is there from the first byte of its head on.
    fn rest_from(&self, now: Instant) {
        if self.active.get() == 0 && self.head_since.get().is_none() {
            self.timer.set(Kind::Idle, now, self.manager().timeouts.idle);
        }
    }

    /// A request begins.
    pub(crate) fn begin_request(&self) {
        self.active.set(self.active.get() + 1);
        self.requests.set(self.requests.get().saturating_add(1));
        self.timer.clear(Kind::Idle);
        self.timer.clear(Kind::Request);
        if self
            .manager()
            .max_requests_per_connection
            .is_some_and(|max| self.requests.get() >= max)
        {
            self.discourage();
        }
    }

    /// A request is over.
    pub(crate) fn end_request(&self) {
        let active = self.active.get().saturating_sub(1);
        self.active.set(active);
        if active == 0 {
            self.rest_from(self.worker.clock.recent());
            if self.leaving.get() >= Leaving::AfterResponse && self.protocol == Protocol::Http2 {
                self.wake();
            }
        }
    }

    /// A part of a head came in. The first one starts its deadline, and ends the connection's rest.
    pub(crate) fn bytes_arrived(&self) {
        if self.head_since.get().is_some() {
            return;
        }
        let now = self.worker.clock.now();
        self.head_since.set(Some(now));
        self.timer.clear(Kind::Idle);
        if let Some((limit, _)) = self.manager().timeouts.head() {
            self.timer.set(Kind::Request, now, Some(limit));
        }
    }

    /// Since when the head that is complete now has been coming in, where it didn't come at once. The next one is
    /// another.
    pub(crate) fn take_head_since(&self) -> Option<Instant> {
        self.head_since.take()
    }

    /// True when responses must tell the client to open a new connection.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.get() != Leaving::No || self.worker.shared.flags.health_failed()
    }

    /// Lets the connection end after its next response; HTTP/2 gets a GOAWAY at once, which is free of races.
    pub(crate) fn discourage(&self) {
        if self.leaving.get() < Leaving::AfterResponse {
            self.leaving.set(Leaving::AfterResponse);
            self.cells().downstream_cx_drain_close.inc();
            self.wake();
        }
    }

    /// Lets the connection end as soon as nothing runs on it.
    pub(crate) fn drain(&self) {
        if self.leaving.get() < Leaving::WhenIdle {
            self.leaving.set(Leaving::WhenIdle);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// What to do now. The task is woken when the answer changes.
    pub(crate) fn poll_command(&self, cx: &mut Context<'_>) -> Command {
        match self.leaving.get() {
            Leaving::AfterResponse if self.protocol == Protocol::Http2 => {
                return self.tell();
            }
            Leaving::WhenIdle => return self.tell(),
            _ => {}
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        drop(waker);
        loop {
            match self.timer.poll_expired(cx) {
                Poll::Pending => return Command::Serve,
                Poll::Ready(kind) => match self.expire(kind) {
                    // Another deadline may hold now.
                    Command::Serve => {}
                    command => return command,
                },
            }
        }
    }

    fn expire(&self, kind: Kind) -> Command {
        self.timer.clear(kind);
        let cells = self.cells();
        match kind {
            Kind::Lifetime => {
                cells.downstream_cx_max_duration_reached.inc();
                self.grow_old()
            }
            Kind::Drain if self.protocol != Protocol::Http2 => self.tell(),
            Kind::Drain => Command::Refuse,
            Kind::Request => Command::Close,
            _ => {
                cells.downstream_cx_idle_timeout.inc();
                self.tell()
            }
        }
    }

    /// A client of HTTP/1 hears of it with its next response, and where nobody waits for that it has the drain time for
    /// it.
    fn grow_old(&self) -> Command {
        // As in Envoy, who has said nothing yet has nothing on its way.
        let is_silent = self.requests.get() == 0 && self.head_since.get().is_none();
        if self.protocol == Protocol::Http2 || is_silent {
            return self.tell();
        }
        self.discourage();
        let manager = self.manager();
        if !manager.http1.aged_wait_for_response {
            let now = self.worker.clock.now();
            self.timer.set(Kind::Drain, now, Some(manager.timeouts.drain));
        }
        Command::Serve
    }

    /// The driver hears that the connection is to end. A client that is told so over HTTP/2 has the drain time to take
    /// it in.
    fn tell(&self) -> Command {
        if self.leaving.replace(Leaving::Told) != Leaving::Told && self.protocol == Protocol::Http2 {
            let now = self.worker.clock.now();
            self.timer.set(Kind::Drain, now, Some(self.manager().timeouts.drain));
        }
        Command::Finish
    }
}
