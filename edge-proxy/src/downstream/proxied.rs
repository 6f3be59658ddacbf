//! Whose connection a proxy before this one hands on.
//!
//! Takes the header of the PROXY protocol off a connection, before anything else is read of it, and nothing
//! behind it. Where connections may come without, bytes are looked at and stay in the socket until they are known to be
//! one. Values that the header carries beside addresses are skipped. Deadlines are the caller's.

use std::io;
use std::net::TcpStream as StdStream;
use std::os::fd::AsFd;

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::TcpStream;

use crate::config::listener::ProxyProtocol;
use crate::proxy_protocol::{self, Addresses, FIXED, LONGEST_LINE, Look, Malformed, Said};

/// Reads the header; `None` when there is none, or when it says nothing of anybody.
pub(super) async fn read(stream: &mut TcpStream, expected: &ProxyProtocol) -> io::Result<Option<Addresses>> {
    let look = seen(stream, expected).await?;
    take(stream, look, expected).await
}

/// Reads the header at the front of all bytes of a connection, and takes it off them.
pub fn whole(bytes: &mut &[u8], expected: &ProxyProtocol) -> io::Result<Option<Addresses>> {
    let seen = &bytes[..bytes.len().min(LONGEST_LINE)];
    let look = proxy_protocol::look(seen, &expected.versions).map_err(|Malformed| malformed())?;
    // Nothing is waited for.
    let taken = take(bytes, look, expected).now_or_never();
    taken.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
}

/// Takes off a connection what it begins with.
async fn take(
    stream: &mut (impl AsyncRead + Unpin),
    look: Look,
    expected: &ProxyProtocol,
) -> io::Result<Option<Addresses>> {
    let said = match look {
        Look::Nothing if expected.optional => return Ok(None),
        Look::Line(length) => {
            let mut line = [0; LONGEST_LINE];
            let line = &mut line[..length];
            stream.read_exact(line).await?;
            proxy_protocol::text(line)
        }
        Look::Fixed => return binary(stream).await,
        Look::Nothing | Look::Partial => Err(Malformed),
    };
    of(said)
}

fn of(said: Result<Said, Malformed>) -> io::Result<Option<Addresses>> {
    match said {
        Ok(Said::Behalf(addresses)) => Ok(Some(addresses)),
        Ok(Said::Nobody) => Ok(None),
        Err(Malformed) => Err(malformed()),
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no PROXY header, or a malformed one")
}

/// Waits until it is clear what the connection begins with.
async fn seen(stream: &TcpStream, expected: &ProxyProtocol) -> io::Result<Look> {
    // Of the same socket; tokio's own way to peek would be ready again at once while a part is there.
    let twin = StdStream::from(stream.as_fd().try_clone_to_owned()?);
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let looked = stream.try_io(Interest::READABLE, || {
            let mut bytes = [0; LONGEST_LINE];
            let length = twin.peek(&mut bytes)?;
            match proxy_protocol::look(&bytes[..length], &expected.versions) {
                Ok(Look::Partial) if length == 0 || ready.is_read_closed() => Err(io::ErrorKind::UnexpectedEof.into()),
                // Not ready before more has come.
                Ok(Look::Partial) => Err(io::ErrorKind::WouldBlock.into()),
                Ok(look) => Ok(look),
                Err(Malformed) => Err(malformed()),
            }
        });
        match looked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            looked => return looked,
        }
    }
}

async fn binary(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Addresses>> {
    let mut head = [0; FIXED];
    stream.read_exact(&mut head).await?;
    let announced = proxy_protocol::fixed(&head).map_err(|Malformed| malformed())?;
    let mut addresses = [0; 36];
    let addresses = &mut addresses[..announced.addresses];
    stream.read_exact(addresses).await?;
    let said = of(proxy_protocol::binary(addresses))?;
    let mut rest = tokio::io::BufReader::with_capacity(512, stream.take(announced.rest as u64));
    match addresses {
        [] => skip(&mut rest, announced.rest).await?,
        _ => skip_values(&mut rest, announced.rest).await?,
    }
    Ok(said)
}

async fn skip(bytes: &mut (impl AsyncRead + Unpin), count: usize) -> io::Result<()> {
    let skipped = tokio::io::copy(&mut bytes.take(count as u64), &mut tokio::io::sink()).await?;
    match skipped == count as u64 {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Values of a type and a length, which must fill what was announced.
async fn skip_values(bytes: &mut (impl AsyncRead + Unpin), mut left: usize) -> io::Result<()> {
    while left > 0 {
        left = left.checked_sub(3).ok_or_else(malformed)?;
        let mut head = [0; 3];
        bytes.read_exact(&mut head).await?;
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        left = left.checked_sub(length).ok_or_else(malformed)?;
        skip(bytes, length).await?;
    }
    Ok(())
}
