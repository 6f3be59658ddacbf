//! Letting connections in: the limits and guards of a chain, and what serves what it lets in.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::debug;

use super::choose::{Arrival, Chosen, open};
use crate::access_log::stream::About;
use crate::access_log::{Spoken, StreamLog};
use crate::config::access::Facts;
use crate::config::connection_limit::ConnectionPermit;
use crate::config::http_manager::{Codec, HttpManager};
use crate::config::listener::{FilterChain, Listener, Network};
use crate::connection::Accepted;
use crate::connection::peer::{self, Agreed, PeerCertificate};
use crate::downstream::tcp::Arrived;
use crate::downstream::{Clients, serve, tcp};
use crate::local::Local;
use crate::message::Protocol;
use crate::proxy_protocol::Addresses;
use crate::shared::{Drain, FAREWELL};
use crate::transport::Transport;

/// Serves a connection that has just come in, on a task of its own.
pub(super) fn begin(clients: &Rc<Clients>, name: &Arc<str>, stream: TcpStream, peer: SocketAddr) {
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

/// A connection whose chain is known, and who is at its other end.
struct Identified<'a> {
    listener: &'a Arc<Listener>,
    chain: Arc<FilterChain>,
    /// After the PROXY header.
    addresses: Addresses,
    arrival: Arrival,
    server_name: Option<Arc<str>>,
    certificate: Option<Rc<PeerCertificate>>,
    agreed: Option<Agreed>,
}

/// Serves a connection whose chain is known, if that lets it in. The addresses are those after the PROXY header.
async fn serve_chosen(
    clients: &Rc<Clients>,
    listener: &Arc<Listener>,
    chosen: Chosen,
    addresses: Addresses,
    arrival: Arrival,
) -> io::Result<()> {
    let Chosen {
        chain,
        transport,
        hello,
        server_name,
        own,
    } = chosen;
    let client = Identified {
        listener,
        addresses,
        arrival,
        server_name,
        certificate: PeerCertificate::of(&transport, own).map(Rc::new),
        agreed: Agreed::of(&transport),
        chain,
    };
    let log = client.stream_log(&clients.worker);
    let Some(_permit) = permit(&client.chain).await else {
        return Ok(());
    };
    if let Some(why) = client.why_denied() {
        debug!(listener = %listener.name, peer = %arrival.direct.client, why, "connection refused by its rules");
        if let Some(log) = &log {
            tcp::note_refused(&clients.worker, &client.chain, log, why);
        }
        return Ok(());
    }
    match &client.chain.network {
        Network::Http(http) => {
            let http = Arc::clone(http);
            client.serve_http(clients, http, transport).await
        }
        // Boxed: HTTP connections need not have room for it.
        Network::Tcp(proxy) | Network::Passthrough(proxy) => {
            let arrived = Arrived {
                hello,
                addresses,
                server_name: client.server_name,
                log,
            };
            Box::pin(tcp::serve(clients, listener, &client.chain, proxy, transport, arrived)).await
        }
    }
}

impl Identified<'_> {
    /// What is written of a connection whose bytes are handed on, if anything.
    fn stream_log(&self, worker: &Rc<Local>) -> Option<Box<StreamLog>> {
        let logs = match &self.chain.network {
            Network::Http(_) => None,
            Network::Tcp(proxy) | Network::Passthrough(proxy) => proxy.access_logs.as_ref(),
        }?;
        let about = About {
            listener: Arc::clone(self.listener),
            chain: Arc::clone(&self.chain.name),
            addresses: self.addresses,
            direct: self.arrival.direct,
            server_name: self.server_name.clone(),
            certificate: self.certificate.clone(),
            agreed: self.agreed,
            spoken: Spoken::Stream,
        };
        Some(Box::new(StreamLog::new(worker, logs, about, self.arrival.accepted)))
    }

    /// Why the guards of its chain don't let it in, if they don't.
    fn why_denied(&self) -> Option<String> {
        if self.chain.guards.is_empty() {
            return None;
        }
        let Addresses { client, local } = self.addresses;
        self.chain.why_denied(&Facts {
            peer: self.arrival.direct.client.ip().to_canonical(),
            source: client.ip().to_canonical(),
            client: client.ip().to_canonical(),
            local,
            server_name: self.server_name.as_deref().unwrap_or_default(),
            certificate: &|| peer::names(self.agreed, self.certificate.as_deref()),
            request: None,
            attributes: None,
        })
    }

    /// Speaks HTTP with it, in the version that is found.
    async fn serve_http(self, clients: &Rc<Clients>, http: Arc<HttpManager>, transport: Transport) -> io::Result<()> {
        let Arrival { direct, accepted } = self.arrival;
        let Some((protocol, replay, transport)) = spoken(&clients.worker, &http, transport, accepted).await? else {
            return Ok(());
        };
        let accepted = Accepted {
            since: accepted,
            listener: Arc::clone(self.listener),
            chain: self.chain,
            http,
            addresses: self.addresses,
            direct,
            server_name: self.server_name,
            protocol,
            certificate: self.certificate,
            agreed: self.agreed,
        };
        serve::run(clients, accepted, transport, replay).await
    }
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
