//! Which addresses nobody can be reached at from outside of a machine, whatever a platform says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one to which no router forwards packets by the registries of RFC 6890: of this network, of the
/// machine, of the link, of a group, for documents, or kept back.
pub fn is_reserved(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_reserved_v4(address),
        IpAddr::V6(address) => is_reserved_v6(address),
    }
}

fn is_reserved_v4(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first == 0
        || first >= 240
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
}

fn is_reserved_v6(address: Ipv6Addr) -> bool {
    let is_documentation = matches!(address.segments(), [0x2001, 0xdb8, ..]);
    address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || is_documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_networks_are_not_reserved() {
        let is = |text: &str| text.parse().map(is_reserved);
        for reserved in [
            "0.0.0.0",
            "127.0.0.1",
            "169.254.9.9",
            "192.0.2.1",
            "203.0.113.7",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert_eq!(is(reserved), Ok(true), "{reserved}");
        }
        for reserved in ["::", "::1", "fe80::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1"] {
            assert_eq!(is(reserved), Ok(true), "{reserved}");
        }
        for open in [
            "10.0.0.1",
            "172.30.200.1",
            "192.168.1.1",
            "8.8.8.8",
            "fd00::1",
            "2001:db9::1",
        ] {
            assert_eq!(is(open), Ok(false), "{open}");
        }
    }
}
