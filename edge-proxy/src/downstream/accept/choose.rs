//! The choice of a filter chain: by the PROXY header, and by the client hello, within the times that a client has for
//! them.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout_at;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::access_log::stream::About;
use crate::access_log::{Spoken, StreamLog};
use crate::config::listener::{FilterChain, Hello, Listener, Network};
use crate::config::tls::Uris;
use crate::downstream::proxied;
use crate::downstream::recorded::Recorded;
use crate::local::Local;
use crate::proxy_protocol::Addresses;
use crate::stats::ListenerCells;
use crate::transport::Transport;

/// What is known of a connection before a byte of it was read.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// The addresses of its socket.
    pub(super) direct: Addresses,
    /// Since when it is there.
    pub(super) accepted: Instant,
}

/// A connection whose chain is known.
pub(super) struct Chosen {
    pub(super) chain: Arc<FilterChain>,
    pub(super) transport: Transport,
    /// What was read of a connection whose TLS stays closed; it comes before what the transport still holds.
    pub(super) hello: Bytes,
    pub(super) server_name: Option<Arc<str>>,
    /// Those in the certificate that the client was shown.
    pub(super) own: Uris,
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
pub(super) async fn open(
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
    let unmatched = match choose(listener, stream, addresses.client.ip(), &opening).await? {
        Match::Chain(chosen) => return Ok(Some((chosen, addresses))),
        Match::None(unmatched) => unmatched,
    };
    opening.cells.no_filter_chain_match.inc();
    if let Some(logs) = &listener.unmatched_logs {
        let about = About {
            listener: Arc::clone(listener),
            chain: "".into(),
            addresses,
            direct,
            server_name: unmatched.server_name,
            certificate: None,
            agreed: None,
            spoken: Spoken::Nothing,
        };
        StreamLog::new(worker, logs, about, accepted).note(|record| {
            record.flag("NR");
            record.details = "filter_chain_not_found".into();
        });
    }
    drop(unmatched.stream);
    Ok(None)
}

async fn choose(listener: &Listener, stream: TcpStream, client: IpAddr, opening: &Opening<'_>) -> io::Result<Match> {
    let plain = listener.chain_for(Hello::Cleartext, client);
    let speaks_tls = match plain {
        Some(chain) if !listener.inspects_tls => chain.tls.is_some(),
        // 22 is the record type of a handshake (RFC 8446 §5.1): what the TLS inspector looks for.
        _ => opening.inspect(peek_first(&stream)).await? == Some(22),
    };
    match speaks_tls {
        true => choose_by_hello(listener, plain, stream, client, opening).await,
        false => Ok(choose_cleartext(plain, stream)),
    }
}

/// Takes the chain for cleartext, if that is spoken there.
fn choose_cleartext(plain: Option<&Arc<FilterChain>>, stream: TcpStream) -> Match {
    let takes_cleartext =
        |chain: &&Arc<FilterChain>| chain.tls.is_none() && !matches!(chain.network, Network::Passthrough(_));
    match plain.filter(takes_cleartext) {
        Some(chain) => Match::Chain(Chosen {
            chain: Arc::clone(chain),
            transport: Transport::Tcp(stream),
            hello: Bytes::new(),
            server_name: None,
            own: Uris::default(),
        }),
        None => Match::None(Unmatched {
            server_name: None,
            stream,
        }),
    }
}

/// Reads the client hello, and shakes hands where the chain that it leads to ends TLS.
async fn choose_by_hello(
    listener: &Listener,
    plain: Option<&Arc<FilterChain>>,
    stream: TcpStream,
    client: IpAddr,
    opening: &Opening<'_>,
) -> io::Result<Match> {
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
