//! Handshakes of TLS 1.3, new ones and resumed ones, each on a connection of its own that then ends in good order.

use super::{Extent, Quota, Summary, since};
use anyhow::{Context, Result, ensure};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::Instant,
};

/// Handshakes at a time.
const AT_A_TIME: usize = 4;

/// What a client remembers of its last connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: every handshake is a new one.
    None,
    /// Its ticket: every handshake but the first is resumed.
    Tickets,
}

/// Shakes hands; the authority is what signed the server's certificate.
pub fn run(address: SocketAddr, host: &str, authority: &Path, memory: Memory, extent: Extent) -> Result<Summary> {
    let quota = Quota::of(extent);
    let name = ServerName::try_from(host.to_owned())?;
    let quota = &quota;
    let lists = thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                let (config, name) = (client(authority, memory), name.clone());
                scope.spawn(move || drive(address, &Arc::new(config?), &name, memory, quota))
            })
            .collect();
        let lists = threads.into_iter().map(|thread| thread.join());
        lists
            .map(|list| list.ok().context("a thread panicked")?)
            .collect::<Result<Vec<_>>>()
    })?;
    Summary::of(lists.concat(), 0, None)
}

fn client(authority: &Path, memory: Memory) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = match memory {
        Memory::None => Resumption::disabled(),
        Memory::Tickets => Resumption::in_memory_sessions(4),
    };
    Ok(config)
}

fn drive(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
    memory: Memory,
    quota: &Quota,
) -> Result<Vec<u32>> {
    let mut latencies = Vec::new();
    if memory == Memory::Tickets {
        // The first ticket.
        handshake(address, config, name)?;
    }
    let wanted = match memory {
        Memory::None => HandshakeKind::Full,
        Memory::Tickets => HandshakeKind::Resumed,
    };
    loop {
        let start = Instant::now();
        if !quota.take(start) {
            return Ok(latencies);
        }
        let kind = handshake(address, config, name)?;
        ensure!(kind == Some(wanted), "a handshake was {kind:?}, not {wanted:?}");
        latencies.push(since(start));
    }
}

/// One connection: the handshake, what tells the server that no request follows, and what it has to say until it ends.
fn handshake(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
) -> Result<Option<HandshakeKind>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut connection = ClientConnection::new(Arc::clone(config), name.clone())?;
    connection.complete_io(&mut stream)?;
    let kind = connection.handshake_kind();
    connection.send_close_notify();
    while connection.wants_write() {
        connection.write_tls(&mut stream)?;
    }
    stream.flush()?;
    stream.shutdown(Shutdown::Write)?;
    while connection.wants_read() {
        match connection.read_tls(&mut stream) {
            Ok(0) => break,
            Ok(_) => connection.process_new_packets()?,
            // The server doesn't wait for us.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error.into()),
        };
    }
    // To its end, so that the port is free for others.
    let _ = stream.read(&mut [0; 64]);
    Ok(kind)
}
