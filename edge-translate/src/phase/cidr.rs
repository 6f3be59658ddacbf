//! Networks as `10.0.0.0/8`.

use edge_ir::AddressRange;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads a network; if it isn't one, why. Bits of the address that the network leaves open count as none.
pub(crate) fn cidr(text: &str) -> Result<AddressRange, String> {
    let (address, bits) = text
        .split_once('/')
        .ok_or("it needs a prefix length, as in 10.0.0.0/8")?;
    let address: IpAddr = address.parse().map_err(|_| format!("{address} is no IP address"))?;
    let most = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    // A number in Rust may have a sign and zeros in front; API servers take neither.
    let is_plain = bits == "0" || bits.starts_with(|first| matches!(first, '1'..='9'));
    let bits = bits.parse::<u8>().ok().filter(|bits| is_plain && *bits <= most);
    let bits = bits.ok_or_else(|| format!("the prefix length must be from 0 to {most}"))?;
    let address = match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    };
    Ok(AddressRange { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_with_what_is_open_in_them_as_none() {
        for (text, address, bits) in [
            ("10.1.2.3/8", "10.0.0.0", 8),
            ("10.1.2.3/32", "10.1.2.3", 32),
            ("10.1.2.3/0", "0.0.0.0", 0),
            ("2001:db8::1/32", "2001:db8::", 32),
            ("::1/0", "::", 0),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(cidr(text), Ok(AddressRange { address, bits }), "{text}");
        }
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "a/8",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/00",
            "10.0.0.0/",
            "",
        ] {
            assert!(cidr(text).is_err(), "{text}");
        }
    }
}
