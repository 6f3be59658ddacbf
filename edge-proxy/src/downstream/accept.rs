//! Accepting: sockets, errors of `accept`, the limit on connections, the client hello, and the choice of a filter
//! chain.
//!
//! What: one task per listening socket. An error that belongs to one connection is skipped; when the process or the
//! system is out of resources the task pauses with growing, jittered back-off instead of spinning; anything else that
//! repeats is treated likewise. A socket that is taken away is emptied first, because connections in its queue would
//! be reset.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};
use tracing::{debug, warn};

use crate::access_log::stream::About;
use crate::access_log::{Spoken, StreamLog};
use crate::config::access::Facts;
use crate::config::connection_limit::ConnectionPermit;
use crate::config::listener::{Codec, FilterChain, Hello, HttpManager, Listener, Network};
use crate::config::tls::Uris;
use crate::connection::Accepted;
use crate::connection::peer::{self, Agreed, PeerCertificate};
use crate::downstream::recorded::Recorded;
use crate::downstream::tcp::Arrived;
use crate::downstream::{Clients, proxied, serve, tcp, udp};
use crate::local::Local;
use crate::message::Protocol;
use crate::proxy_protocol::Addresses;
use crate::shared::{BoundListener, Drain, FAREWELL, ListeningSockets};
use crate::stats::ListenerCells;
use crate::transport::Transport;

/// The accepting tasks of a worker.
#[derive(Debug, Default)]
pub(crate) struct Acceptors {
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    bound: Arc<BoundListener>,
    stop: Rc<tokio::sync::Notify>,
    _task: JoinHandle<()>,
}

impl Acceptors {
    /// Starts and stops tasks so that exactly these sockets are accepted on.
    pub(crate) fn follow(&mut self, clients: &Rc<Clients>, sockets: &[Arc<BoundListener>]) {
        self.running.retain(|running| {
            let stays = sockets.iter().any(|bound| Arc::ptr_eq(bound, &running.bound));
            if !stays {
                running.stop.notify_one();
            }
            stays
        });
        for bound in sockets {
            if self.running.iter().any(|running| Arc::ptr_eq(&running.bound, bound)) {
                continue;
            }
            match listen(bound, &clients.worker) {
                Ok(socket) => {
                    let stop = Rc::new(tokio::sync::Notify::new());
                    let (clients, name, stopped) = (Rc::clone(clients), Arc::clone(&bound.listener), Rc::clone(&stop));
                    let _task = match socket {
                        Listening::Tcp(socket) => tokio::task::spawn_local(accept(clients, name, socket, stopped)),
                        Listening::Udp(socket) => tokio::task::spawn_local(udp::serve(clients, name, socket, stopped)),
                    };
                    self.running.push(Running {
                        bound: Arc::clone(bound),
                        stop,
                        _task,
                    });
                }
                Err(error) => warn!(listener = %bound.listener, %error, "listening socket can't be used"),
            }
        }
    }

    /// Stops accepting connections. Datagrams are served on: nothing tells their senders to go elsewhere, so whoever
    /// still comes is better answered.
    pub(crate) fn stop_accepting(&mut self) {
        self.running.retain(|running| {
            let stays = matches!(running.bound.sockets, ListeningSockets::Udp(_));
            if !stays {
                running.stop.notify_one();
            }
            stays
        });
    }

    /// Stops everything.
    pub(crate) fn stop(&mut self) {
        for running in self.running.drain(..) {
            running.stop.notify_one();
        }
    }
}

/// This worker's socket, registered with its runtime.
enum Listening {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

fn listen(bound: &BoundListener, worker: &Local) -> io::Result<Listening> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no socket for this worker");
    match &bound.sockets {
        ListeningSockets::Tcp(sockets) => {
            let socket = sockets.get(worker.index.0).ok_or_else(missing)?.try_clone()?;
            TcpListener::from_std(socket).map(Listening::Tcp)
        }
        ListeningSockets::Udp(sockets) => {
            let socket = sockets.get(worker.index.0).ok_or_else(missing)?.try_clone()?;
            UdpSocket::from_std(socket).map(Listening::Udp)
        }
    }
}

async fn accept(clients: Rc<Clients>, name: Arc<str>, socket: TcpListener, stop: Rc<tokio::sync::Notify>) {
    let mut pause = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.notified() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = Duration::ZERO;
                begin(&clients, &name, stream, peer);
            }
            Err(error) if is_of_one_connection(&error) => debug!(listener = %name, %error, "connection lost in accept"),
            Err(error) => {
                pause = (pause * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
                warn!(listener = %name, %error, "accept fails, pausing");
                let jitter = clients.worker.random.below(pause.as_millis() as usize / 2 + 1) as u64;
                tokio::time::sleep(pause + Duration::from_millis(jitter)).await;
            }
        }
    }
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = socket.poll_accept(&mut cx) {
        begin(&clients, &name, stream, peer);
    }
}

/// accept(2) passes on errors that were already pending on the new connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, PermissionDenied};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | PermissionDenied
    )
}

fn begin(clients: &Rc<Clients>, name: &Arc<str>, stream: TcpStream, peer: SocketAddr) {
    let snapshot = clients.worker.snapshot();
    // Between the removal of a listener and that of its sockets: nobody serves this connection.
    let Some(listener) = snapshot.listeners.get(name) else {
        return;
    };
    let listener = Arc::clone(listener);
    let clients = Rc::clone(clients);
    tokio::task::spawn_local(async move {
        let worker = &clients.worker;
        let cells = listener.stats.cells(worker.index);
        let admission = match listener.bypass_overload {
            true => None,
            false => match worker.shared.flags.admit() {
                Some(admission) => Some(admission),
                None => {
                    cells.downstream_global_cx_overflow.inc();
                    return;
                }
            },
        };
        cells.downstream_cx_total.inc();
        cells.downstream_cx_active.inc();
        worker.server_cells().total_connections.inc();
        if let Err(error) = connect(&clients, &listener, stream, peer).await {
            debug!(listener = %listener.name, %peer, %error, "connection ended");
        }
        // First: whoever sees the connection gone may count on its place.
        drop(admission);
        worker.server_cells().total_connections.dec();
        cells.downstream_cx_active.dec();
        cells.downstream_cx_destroy.inc();
    });
}

/// What is known of a connection before a byte of it was read.
#[derive(Clone, Copy)]
struct Arrival {
    /// The addresses of its socket.
    direct: Addresses,
    /// Since when it is there.
    accepted: Instant,
}

async fn connect(
    clients: &Rc<Clients>,
    listener: &Arc<Listener>,
    stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    let worker = &clients.worker;
    stream.set_nodelay(true)?;
    let arrival = Arrival {
        direct: Addresses {
            client: peer,
            local: stream.local_addr()?,
        },
        accepted: worker.clock.now(),
    };
    // Boxed: only needed until the connection speaks HTTP, and large.
    match Box::pin(open(worker, listener, stream, arrival)).await? {
        Some((chosen, addresses)) => serve_chosen(clients, listener, chosen, addresses, arrival).await,
        None => Ok(()),
    }
}

/// Serves a connection whose chain is known. The addresses are those after the PROXY header.
async fn serve_chosen(
    clients: &Rc<Clients>,
    listener: &Arc<Listener>,
    chosen: Chosen,
    addresses: Addresses,
    arrival: Arrival,
) -> io::Result<()> {
    let Arrival { direct, accepted } = arrival;
    let Chosen {
        chain,
        transport,
        hello,
        server_name,
        own,
    } = chosen;
    let (worker, peer) = (&clients.worker, direct.client);
    let agreed = Agreed::of(&transport);
    let certificate = PeerCertificate::of(&transport, own).map(Rc::new);
    let log = stream_log(worker, &chain, accepted, || About {
        listener: Arc::clone(listener),
        chain: Arc::clone(&chain.name),
        addresses,
        direct,
        server_name: server_name.clone(),
        certificate: certificate.clone(),
        agreed,
        spoken: Spoken::Stream,
    });
    let Some(_permit) = permit(&chain).await else {
        return Ok(());
    };
    if !chain.guards.is_empty() {
        let denied = chain.why_denied(&Facts {
            peer: peer.ip().to_canonical(),
            source: addresses.client.ip().to_canonical(),
            client: addresses.client.ip().to_canonical(),
            local: addresses.local,
            server_name: server_name.as_deref().unwrap_or_default(),
            certificate: &|| peer::names(agreed, certificate.as_deref()),
            request: None,
            attributes: None,
        });
        if let Some(why) = denied {
            debug!(listener = %listener.name, %peer, why, "connection refused by its rules");
            if let Some(log) = &log {
                tcp::note_refused(worker, &chain, log, why);
            }
            return Ok(());
        }
    }
    let http = match &chain.network {
        Network::Http(http) => Arc::clone(http),
        // Boxed: HTTP connections need not have room for it.
        Network::Tcp(proxy) | Network::Passthrough(proxy) => {
            let arrived = Arrived {
                hello,
                addresses,
                server_name,
                log,
            };
            return Box::pin(tcp::serve(clients, listener, &chain, proxy, transport, arrived)).await;
        }
    };
    let Some((protocol, replay, transport)) = spoken(worker, &http, transport, accepted).await? else {
        return Ok(());
    };
    let accepted = Accepted {
        since: accepted,
        listener: Arc::clone(listener),
        chain,
        http,
        addresses,
        direct,
        server_name,
        protocol,
        certificate,
        agreed,
    };
    serve::run(clients, accepted, transport, replay).await
}

/// What is spoken, with what was read to find that out; `None` when nothing has been asked before it is time to leave.
async fn spoken(
    worker: &Local,
    http: &HttpManager,
    transport: Transport,
    accepted: Instant,
) -> io::Result<Option<(Protocol, Bytes, Transport)>> {
    if let Some(protocol) = protocol_of(http, &transport) {
        return Ok(Some((protocol, Bytes::new(), transport)));
    }
    let mut drain = worker.shared.drain.clone();
    let has_parted = async {
        let _ = drain.wait_for(|drain| *drain >= Drain::Draining).await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        sniffed = serve::sniff(transport) => sniffed,
        () = silent_too_long(worker, http, accepted) => Ok(None),
        () = has_parted => Ok(None),
    }
}

/// Ready when a connection on which nothing is said has had its time.
async fn silent_too_long(worker: &Local, http: &HttpManager, accepted: Instant) {
    let cells = http.stats.cells(worker.index);
    let idle = (http.timeouts.idle, &cells.downstream_cx_idle_timeout);
    let old = (
        http.timeouts.max_connection_duration,
        &cells.downstream_cx_max_duration_reached,
    );
    let limits = [idle, old]
        .into_iter()
        .filter_map(|(limit, count)| Some((limit?, count)));
    match limits.min_by_key(|(limit, _)| *limit) {
        Some((limit, count)) => {
            tokio::time::sleep(limit.saturating_sub(worker.clock.now().saturating_duration_since(accepted))).await;
            count.inc();
        }
        None => std::future::pending().await,
    }
}

/// What is written of a connection whose bytes are handed on, if anything.
fn stream_log(
    worker: &Rc<Local>,
    chain: &FilterChain,
    accepted: Instant,
    about: impl FnOnce() -> About,
) -> Option<Box<StreamLog>> {
    let logs = match &chain.network {
        Network::Http(_) => None,
        Network::Tcp(proxy) | Network::Passthrough(proxy) => proxy.access_logs.as_ref(),
    };
    logs.map(|logs| Box::new(StreamLog::new(worker, logs, about(), accepted)))
}

/// A place within the limits of a chain; `None`, once a client has waited long enough, when there is none.
async fn permit(chain: &FilterChain) -> Option<ConnectionPermit> {
    match ConnectionPermit::take(&chain.limits) {
        Ok(permit) => Some(permit),
        Err(delay) => {
            debug!(chain = %chain.name, "connection refused by a limit");
            tokio::time::sleep(delay).await;
            None
        }
    }
}

/// The times that a client has until its connection is served.
struct Opening<'a> {
    cells: &'a ListenerCells,
    inspected_until: Instant,
}

impl Opening<'_> {
    /// A part of looking for whom a connection is for.
    async fn inspect<T>(&self, part: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        // It holds the connection: a client that sees the end finds it counted.
        let mut part = pin!(part);
        self.cells.downstream_pre_cx_active.inc();
        let done = timeout_at(self.inspected_until.into(), part.as_mut()).await;
        self.cells.downstream_pre_cx_active.dec();
        done.unwrap_or_else(|_| {
            self.cells.downstream_pre_cx_timeout.inc();
            Err(io::ErrorKind::TimedOut.into())
        })
    }

    /// A part of a TLS handshake.
    async fn shake_hands<T>(&self, until: Instant, part: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut part = pin!(part);
        match timeout_at(until.into(), part.as_mut()).await {
            Ok(done) => done.inspect_err(|_| self.cells.ssl_connection_error.inc()),
            Err(_) => {
                self.cells.downstream_cx_transport_socket_connect_timeout.inc();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

/// Reads what comes before HTTP and other bytes: whom the connection is for, and whose chain it takes.
async fn open(
    worker: &Rc<Local>,
    listener: &Arc<Listener>,
    mut stream: TcpStream,
    arrival: Arrival,
) -> io::Result<Option<(Chosen, Addresses)>> {
    let Arrival { direct, accepted } = arrival;
    let opening = Opening {
        cells: listener.stats.cells(worker.index),
        inspected_until: Instant::now() + listener.inspection_timeout,
    };
    let addresses = match &listener.proxy_protocol {
        None => direct,
        Some(expected) => {
            let reading = async {
                let said = proxied::read(&mut stream, expected).await;
                said.inspect_err(|_| opening.cells.proxy_protocol_error.inc())
            };
            opening.inspect(reading).await?.unwrap_or(direct)
        }
    };
    match choose(listener, stream, addresses.client.ip(), &opening).await? {
        Match::Chain(chosen) => Ok(Some((chosen, addresses))),
        Match::None(Unmatched { server_name, stream }) => {
            listener.stats.cells(worker.index).no_filter_chain_match.inc();
            if let Some(logs) = &listener.unmatched_logs {
                let about = About {
                    listener: Arc::clone(listener),
                    chain: "".into(),
                    addresses,
                    direct,
                    server_name,
                    certificate: None,
                    agreed: None,
                    spoken: Spoken::Nothing,
                };
                StreamLog::new(worker, logs, about, accepted).note(|record| {
                    record.flag("NR");
                    record.details = "filter_chain_not_found".into();
                });
            }
            drop(stream);
            Ok(None)
        }
    }
}

/// Which chain a connection takes.
enum Match {
    Chain(Chosen),
    None(Unmatched),
}

/// No chain is for a connection.
struct Unmatched {
    server_name: Option<Arc<str>>,
    /// Open until this is counted and written down: a client that saw the end finds it told.
    stream: TcpStream,
}

/// A connection whose chain is known.
struct Chosen {
    chain: Arc<FilterChain>,
    transport: Transport,
    /// What was read of a connection whose TLS stays closed; it comes before what the transport still holds.
    hello: Bytes,
    server_name: Option<Arc<str>>,
    /// Those in the certificate that the client was shown.
    own: Uris,
}

/// What is spoken, if that is known already: by configuration or ALPN. Otherwise the preface decides.
fn protocol_of(http: &HttpManager, transport: &Transport) -> Option<Protocol> {
    let alpn = match transport {
        Transport::ServerTls(stream) => stream.get_ref().1.alpn_protocol(),
        _ => None,
    };
    match (http.codec, alpn) {
        (Codec::Http1, _) => Some(Protocol::Http1),
        (Codec::Http2, _) | (Codec::Auto, Some(b"h2")) => Some(Protocol::Http2),
        (Codec::Auto, Some(_)) => Some(Protocol::Http1),
        (Codec::Auto, None) => None,
    }
}

async fn choose(
    listener: &Arc<Listener>,
    stream: TcpStream,
    client: IpAddr,
    opening: &Opening<'_>,
) -> io::Result<Match> {
    let plain = listener.chain_for(Hello::Cleartext, client);
    let speaks_tls = match plain {
        Some(chain) if !listener.inspects_tls => chain.tls.is_some(),
        // 22 is the record type of a handshake (RFC 8446 §5.1): what the TLS inspector looks for.
        _ => opening.inspect(peek_first(&stream)).await? == Some(22),
    };
    if !speaks_tls {
        let takes_cleartext =
            |chain: &&Arc<FilterChain>| chain.tls.is_none() && !matches!(chain.network, Network::Passthrough(_));
        let Some(chain) = plain.filter(takes_cleartext) else {
            return Ok(Match::None(Unmatched {
                server_name: None,
                stream,
            }));
        };
        let chain = Arc::clone(chain);
        return Ok(Match::Chain(Chosen {
            chain,
            transport: Transport::Tcp(stream),
            hello: Bytes::new(),
            server_name: None,
            own: Uris::default(),
        }));
    }
    let accepting = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), Recorded::new(stream));
    let mut began = Instant::now();
    let start = match plain.filter(|_| !listener.inspects_tls) {
        Some(chain) => opening.shake_hands(began + chain.handshake_timeout, accepting).await?,
        None => {
            let hello = async {
                accepting
                    .await
                    .inspect_err(|_| opening.cells.ssl_connection_error.inc())
            };
            let start = opening.inspect(hello).await?;
            began = Instant::now();
            start
        }
    };
    let server_name: Option<Arc<str>> = start
        .client_hello()
        .server_name()
        .map(|name| Arc::from(name.to_ascii_lowercase()));
    let Some(chain) = listener.chain_for(Hello::Tls(server_name.as_deref()), client).cloned() else {
        let stream = start.io.into_stream();
        return Ok(Match::None(Unmatched { server_name, stream }));
    };
    let (transport, hello, own) = match (&chain.tls, &chain.network) {
        (Some(tls), _) => {
            let (config, showing) = tls.for_client(&start.client_hello());
            let shaking = StartHandshake::from_parts(start.accepted, start.io.into_stream()).into_stream(config);
            let stream = opening.shake_hands(began + chain.handshake_timeout, shaking).await?;
            opening.cells.ssl_handshake.inc();
            (Transport::ServerTls(Box::new(stream)), Bytes::new(), showing.uris())
        }
        (None, Network::Tcp(_) | Network::Passthrough(_)) => {
            let (stream, seen) = start.io.into_parts();
            (Transport::Tcp(stream), seen, Uris::default())
        }
        (None, Network::Http(_)) => {
            let stream = start.io.into_stream();
            return Ok(Match::None(Unmatched { server_name, stream }));
        }
    };
    Ok(Match::Chain(Chosen {
        chain,
        transport,
        hello,
        server_name,
        own,
    }))
}

async fn peek_first(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((stream.peek(&mut byte).await? > 0).then_some(byte[0]))
}
