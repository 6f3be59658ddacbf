//! Numbers and addresses in digits, written behind what is there already.
//!
//! Why not by `write!`: its machinery takes some hundred instructions for each of them, and a line has a dozen.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Writes a number.
pub(super) fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a number with `fill` before it where it has fewer digits than `width`.
pub(super) fn padded(out: &mut Vec<u8>, number: u64, width: usize, fill: u8) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    out.extend(std::iter::repeat_n(fill, width.saturating_sub(digits.len())));
    out.extend_from_slice(digits);
}

/// Writes an address.
pub(super) fn ip(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let mut text = [0; LONGEST];
            let end = octets(&mut text, address);
            out.extend_from_slice(&text[..end]);
        }
        IpAddr::V6(address) => shown(out, address),
    }
}

/// Writes an address and a port.
pub(super) fn socket(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            let mut text = [0; LONGEST];
            let mut end = octets(&mut text, *address.ip());
            text[end] = b':';
            end += 1;
            for digit in itoa::Buffer::new().format(address.port()).bytes() {
                text[end] = digit;
                end += 1;
            }
            out.extend_from_slice(&text[..end]);
        }
        SocketAddr::V6(address) => shown(out, address),
    }
}

/// Of `255.255.255.255:65535`.
const LONGEST: usize = 21;

/// Puts an address at the beginning of a text; how long it is.
fn octets(text: &mut [u8; LONGEST], address: Ipv4Addr) -> usize {
    let mut end = 0;
    for octet in address.octets() {
        if octet >= 100 {
            text[end] = b'0' + octet / 100;
            end += 1;
        }
        if octet >= 10 {
            text[end] = b'0' + octet / 10 % 10;
            end += 1;
        }
        text[end] = b'0' + octet % 10;
        text[end + 1] = b'.';
        end += 2;
    }
    end - 1
}

fn shown(out: &mut Vec<u8>, value: impl Display) {
    // Writing to memory can't fail.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"> ".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        for text in [
            "0.0.0.0:0",
            "127.0.0.1:65535",
            "255.10.9.100:80",
            "[::1]:443",
            "[2001:db8::7%3]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(written(|out| socket(out, address)), format!("> {address}"));
            assert_eq!(written(|out| ip(out, address.ip())), format!("> {}", address.ip()));
        }
    }

    #[test]
    fn numbers_are_filled_up_and_never_cut() {
        assert_eq!(written(|out| padded(out, 7, 3, b'0')), "> 007");
        assert_eq!(written(|out| padded(out, 7, 2, b' ')), ">  7");
        assert_eq!(written(|out| padded(out, 12_345, 4, b'0')), "> 12345");
        assert_eq!(written(|out| number(out, u64::MAX)), format!("> {}", u64::MAX));
    }
}
