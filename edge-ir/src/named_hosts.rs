//! Hosts that clients name themselves.

use crate::AddressRange;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who may answer clients that say themselves by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NamedHosts {
    /// Whoever has the name or address.
    Any,
    /// Everybody but the proxy itself: its own loopback, where its admin interface is.
    Others,
}

impl NamedHosts {
    /// Addresses that are nobody's who may answer, by whatever name they are found.
    pub fn refused(self) -> &'static [AddressRange] {
        match self {
            Self::Any => &[],
            Self::Others => &OWN,
        }
    }
}

/// Addresses by which a host reaches itself: loopback (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3) and "this host" (the same
/// section, and §2.5.2), where a connection goes to loopback as well; those of IPv4 in the form of IPv6 too (§2.5.5.2).
const OWN: [AddressRange; 5] = [
    v4(127, 8),
    v4(0, 8),
    // `::` and `::1`.
    v6([0; 8], 127),
    v6([0, 0, 0, 0, 0, 0xffff, 127 << 8, 0], 104),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 104),
];

const fn v4(network: u8, bits: u8) -> AddressRange {
    AddressRange {
        address: IpAddr::V4(Ipv4Addr::new(network, 0, 0, 0)),
        bits,
    }
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], bits: u8) -> AddressRange {
    AddressRange {
        address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
        bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_itself_is_refused_by_each_of_its_addresses() {
        let is_refused = |text: &str, hosts: NamedHosts| {
            let address = text.parse().expect("an address");
            hosts.refused().iter().any(|range| range.contains(address))
        };
        for own in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:0.0.0.0",
        ] {
            assert!(is_refused(own, NamedHosts::Others), "{own}");
            assert!(!is_refused(own, NamedHosts::Any), "{own}");
        }
        for other in ["10.0.0.1", "128.0.0.1", "1.0.0.0", "::2", "fe80::1", "::ffff:10.0.0.1"] {
            assert!(!is_refused(other, NamedHosts::Others), "{other}");
        }
    }
}
