//! Clusters whose hosts are those that requests ask for (Envoy's dynamic forward proxy).

use std::net::IpAddr;
use std::time::Duration;

use crate::config::address::AddressFilter;
use crate::config::endpoint::{Host, HostAddress};
use crate::config::route::HostRewrite;

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsFamily {
    /// IPv6 if there is any, else IPv4.
    PreferV6,
    /// IPv4 if there is any, else IPv6.
    PreferV4,
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
    /// Both.
    All,
}

impl DnsFamily {
    /// The wanted addresses, each once, in a stable order: rotating answers must not look like changes.
    pub fn choose(self, mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        let has = |addresses: &[IpAddr], v4: bool| addresses.iter().any(|address| address.is_ipv4() == v4);
        let keep = match self {
            Self::All => None,
            Self::V4 => Some(true),
            Self::V6 => Some(false),
            Self::PreferV4 => Some(has(&addresses, true)),
            Self::PreferV6 => Some(!has(&addresses, false)),
        };
        if let Some(v4) = keep {
            addresses.retain(|address| address.is_ipv4() == v4);
        }
        addresses.sort();
        addresses.dedup();
        addresses
    }
}

/// How names are resolved that requests ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Which addresses.
    pub family: DnsFamily,
    /// An answer is used for so long.
    pub refresh: Duration,
    /// A name that nobody asks for is forgotten after that.
    pub unused: Duration,
    /// So many names are known at once, to each worker.
    pub most: usize,
    /// An answer comes in this time, or none.
    pub timeout: Duration,
    /// Addresses that no name leads to, nor a request that says them itself.
    pub refused: AddressFilter,
}

impl Naming {
    /// Whether a host may be used that was found, perhaps when other addresses were refused.
    pub fn allows(&self, host: &Host) -> bool {
        matches!(host.address, HostAddress::Socket(at) if !self.refused.has(at.ip()))
    }
}

/// What a route says of names: the host of its requests is another.
#[derive(Debug, Clone)]
pub struct NamedOtherwise(pub HostRewrite);
