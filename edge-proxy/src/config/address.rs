//! Addresses: where a client's is told, and which count.

use std::net::IpAddr;

use http::{HeaderName, StatusCode};

/// How the client's address is found.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// Take the peer's address (and append it to `x-forwarded-for`) instead of trusting the header.
    pub use_remote_address: bool,
    /// How many entries at the right end of `x-forwarded-for` are trusted proxies.
    pub xff_trusted_hops: u32,
    /// Do not append the peer to `x-forwarded-for`.
    pub skip_xff_append: bool,
    /// Addresses that count as internal (`x-envoy-internal: true`).
    pub internal_ranges: Vec<AddressRange>,
    /// Where it is looked for instead, when the peer isn't taken.
    pub detection: Option<Detection>,
}

/// Places where a client's address is told.
#[derive(Clone, Debug)]
pub enum Detection {
    /// In `x-forwarded-for`, if the peer is a proxy of these networks: the last entry that isn't one.
    Networks {
        /// Where our proxies are.
        trusted: Vec<AddressRange>,
        /// Do not append such a peer to `x-forwarded-for`.
        skip_append: bool,
    },
    /// In a header.
    Header {
        /// Its name.
        name: HeaderName,
        /// What it says may make a request internal.
        is_trusted: bool,
        /// What requests are refused with that don't say it.
        missing: Option<StatusCode>,
    },
}

impl ClientAddress {
    /// Whether an address counts as internal.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        self.internal_ranges.iter().any(|range| range.contains(address))
    }
}

/// A network in CIDR form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Any address of the network.
    pub address: IpAddr,
    /// Number of leading bits that count.
    pub prefix_len: u8,
}

impl AddressRange {
    /// Whether the address lies in this network; an IPv4-mapped IPv6 address is looked at as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix_len.min(32));
                shift == 32 || u32::from(net) >> shift == u32::from(ip) >> shift
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix_len.min(128));
                shift == 128 || u128::from(net) >> shift == u128::from(ip) >> shift
            }
            _ => false,
        }
    }
}

/// Some of all addresses; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressFilter {
    /// In these networks.
    pub ranges: Box<[AddressRange]>,
    /// Whether it is the addresses in none of them.
    pub inverted: bool,
}

impl AddressFilter {
    /// Whether an address is one of these.
    pub fn has(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) != self.inverted
    }
}
