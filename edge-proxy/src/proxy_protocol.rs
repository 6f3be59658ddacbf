//! The header by which a proxy says whose connection it hands on (PROXY protocol, versions 1 and 2).
//!
//! [`look`] tells a header from other bytes, [`text`] and [`binary`] read what it says, [`header`] writes one.
//! Pure: nothing here knows a socket.
//! Strict, because whoever gets round it chooses the address that rules and logs go by: a header is whole and right, or
//! its connection is closed.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// What a version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// The longest line there is, with its end.
pub(crate) const LONGEST_LINE: usize = 107;
/// The part of a version 2 that is always there; its last two bytes tell how much follows.
pub(crate) const FIXED: usize = 16;

/// Versions of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Bytes.
    V2,
}

/// The addresses of both ends of a connection, as its client sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Who has connected.
    pub client: SocketAddr,
    /// Where to.
    pub local: SocketAddr,
}

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// No header.
    Nothing,
    /// Perhaps one, when more bytes have come.
    Partial,
    /// A line of so many bytes.
    Line(usize),
    /// The fixed part of a version 2.
    Fixed,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The proxy speaks for itself, or doesn't know whom for.
    Nobody,
    /// The connection is that one.
    Behalf(Addresses),
}

/// The header is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Looks at the first bytes of a connection. A header of a version that isn't one of these is none.
pub(crate) fn look(bytes: &[u8], versions: &[Version]) -> Result<Look, Malformed> {
    let begins = |with: &[u8]| {
        let seen = bytes.len().min(with.len());
        bytes[..seen] == with[..seen]
    };
    if versions.contains(&Version::V2) && begins(&SIGNATURE) {
        return Ok(match bytes.len() {
            FIXED.. => Look::Fixed,
            _ => Look::Partial,
        });
    }
    if !versions.contains(&Version::V1) || !begins(WORD) {
        return Ok(Look::Nothing);
    }
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    match line.iter().position(|byte| !matches!(byte, b' '..=b'~')) {
        Some(end) if line[end..].starts_with(b"\r\n") => Ok(Look::Line(end + 2)),
        Some(end) if line[end..] == *b"\r" && line.len() < LONGEST_LINE => Ok(Look::Partial),
        None if line.len() < LONGEST_LINE => Ok(Look::Partial),
        _ => Err(Malformed),
    }
}

/// Reads a line, with its end.
pub(crate) fn text(line: &[u8]) -> Result<Said, Malformed> {
    let line = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_suffix("\r\n"));
    let words: Vec<&str> = line.ok_or(Malformed)?.split(' ').collect();
    let addresses = match *words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => return Ok(Said::Nobody),
        ["PROXY", "TCP4", from, to, from_port, to_port] => {
            let ip = |text: &str| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
            addresses((ip(from), from_port), (ip(to), to_port))
        }
        ["PROXY", "TCP6", from, to, from_port, to_port] => {
            let ip = |text: &str| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
            addresses((ip(from), from_port), (ip(to), to_port))
        }
        _ => None,
    };
    addresses.and_then(unicast).ok_or(Malformed)
}

fn addresses(from: (Option<IpAddr>, &str), to: (Option<IpAddr>, &str)) -> Option<Addresses> {
    // `parse` would take a sign.
    let port = |text: &str| text.parse::<u16>().ok().filter(|_| !text.starts_with('+'));
    Some(Addresses {
        client: SocketAddr::new(from.0?, port(from.1)?),
        local: SocketAddr::new(to.0?, port(to.1)?),
    })
}

/// A connection has one peer: nobody connects from many addresses, or from none. One of IPv4 is one in whichever family
/// it is written.
fn unicast(addresses: Addresses) -> Option<Said> {
    let is_one = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
    };
    (is_one(addresses.client.ip()) && is_one(addresses.local.ip())).then_some(Said::Behalf(addresses))
}

/// What the fixed part of a version 2 announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// How many bytes of addresses follow; none when the proxy speaks for itself.
    pub(crate) addresses: usize,
    /// How many bytes follow these.
    pub(crate) rest: usize,
}

/// Reads the fixed part.
pub(crate) fn fixed(bytes: &[u8; FIXED]) -> Result<Announced, Malformed> {
    let [.., kind, family, high, low] = *bytes;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let addresses = match (kind, family) {
        // LOCAL: whatever follows means nothing.
        (0x20, _) => 0,
        // PROXY, of streams or datagrams: as Envoy takes them.
        (0x21, 0x11 | 0x12) => 12,
        (0x21, 0x21 | 0x22) => 36,
        _ => return Err(Malformed),
    };
    let rest = length.checked_sub(addresses).ok_or(Malformed)?;
    Ok(Announced { addresses, rest })
}

/// Reads the addresses of a version 2.
pub(crate) fn binary(addresses: &[u8]) -> Result<Said, Malformed> {
    let (from, to, ports) = match addresses {
        [] => return Ok(Said::Nobody),
        [a, b, c, d, e, f, g, h, ports @ ..] if ports.len() == 4 => {
            (IpAddr::from([*a, *b, *c, *d]), IpAddr::from([*e, *f, *g, *h]), ports)
        }
        _ => {
            let (from, rest) = addresses.split_first_chunk::<16>().ok_or(Malformed)?;
            let (to, ports) = rest.split_first_chunk::<16>().ok_or(Malformed)?;
            (IpAddr::from(*from), IpAddr::from(*to), ports)
        }
    };
    let &[a, b, c, d] = ports else { return Err(Malformed) };
    let announced = Addresses {
        client: SocketAddr::new(from, u16::from_be_bytes([a, b])),
        local: SocketAddr::new(to, u16::from_be_bytes([c, d])),
    };
    unicast(announced).ok_or(Malformed)
}

/// Writes a header for a connection that is handed on. For one of the proxy's own there are no `ends`: a line then
/// names the connection itself, if it has addresses.
pub fn header(version: Version, addresses: Option<Addresses>, own: Option<Addresses>) -> Vec<u8> {
    match version {
        Version::V1 => {
            let Some(addresses) = addresses.or(own).map(of_one_family) else {
                return b"PROXY UNKNOWN\r\n".to_vec();
            };
            let Addresses { client, local } = addresses;
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (client.ip(), local.ip());
            format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), local.port()).into_bytes()
        }
        Version::V2 => {
            let mut bytes = SIGNATURE.to_vec();
            let Some(Addresses { client, local }) = addresses.map(of_one_family) else {
                bytes.extend([0x20, 0, 0, 0]);
                return bytes;
            };
            match (client.ip(), local.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    bytes.extend([0x21, 0x11, 0, 12]);
                    bytes.extend(from.octets());
                    bytes.extend(to.octets());
                }
                (from, to) => {
                    bytes.extend([0x21, 0x21, 0, 36]);
                    bytes.extend(as_v6(from).octets());
                    bytes.extend(as_v6(to).octets());
                }
            }
            bytes.extend(client.port().to_be_bytes());
            bytes.extend(local.port().to_be_bytes());
            bytes
        }
    }
}

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// A header has room for addresses of one family.
fn of_one_family(addresses: Addresses) -> Addresses {
    let (client, local) = (
        addresses.client.ip().to_canonical(),
        addresses.local.ip().to_canonical(),
    );
    let of_one = |ip: IpAddr| match client.is_ipv4() && local.is_ipv4() {
        true => ip,
        false => IpAddr::V6(as_v6(ip)),
    };
    Addresses {
        client: SocketAddr::new(of_one(client), addresses.client.port()),
        local: SocketAddr::new(of_one(local), addresses.local.port()),
    }
}
