//! Which chain takes a connection: by the server name that it asks for, then by the network that it comes from.

use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::address::AddressRange;
use crate::config::listener::FilterChain;

/// The chains of a listener.
#[derive(Debug)]
pub struct FilterChains<C = FilterChain> {
    /// By exact server names, lower case.
    exact: FxHashMap<Box<str>, Takers<C>>,
    /// By suffixes of wildcard names (`*.example.com` is kept as `.example.com`), lower case, no order needed: the
    /// longest one that fits is found by cutting the name at its dots.
    wildcard: FxHashMap<Box<str>, Takers<C>>,
    /// Those without server names.
    unnamed: Takers<C>,
    /// Those without server names that take TLS alone.
    unnamed_tls: Takers<C>,
    /// The default filter chain, which takes what no other does.
    pub fallback: Option<Arc<C>>,
}

impl<C> Default for FilterChains<C> {
    fn default() -> Self {
        Self {
            exact: FxHashMap::default(),
            wildcard: FxHashMap::default(),
            unnamed: Takers::default(),
            unnamed_tls: Takers::default(),
            fallback: None,
        }
    }
}

/// What a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello<'a> {
    /// Anything but TLS.
    Cleartext,
    /// TLS, with the server name that it asks for, in lower case.
    Tls(Option<&'a str>),
}

impl<C> FilterChains<C> {
    /// The chain for what a client begins with: of the exact name, else of the longest wildcard, else of those without
    /// names, where one for TLS alone comes before others. As in Envoy what is found is not left again: if none of its
    /// chains is for the client's network the default chain is next.
    pub fn find(&self, hello: Hello<'_>, client: IpAddr) -> Option<&Arc<C>> {
        let takers = match hello {
            Hello::Cleartext => &self.unnamed,
            Hello::Tls(name) => self.of_tls(name),
        };
        takers.find(client).or(self.fallback.as_ref())
    }

    fn of_tls(&self, server_name: Option<&str>) -> &Takers<C> {
        let unnamed = match self.unnamed_tls.is_empty() {
            true => &self.unnamed,
            false => &self.unnamed_tls,
        };
        let Some(name) = server_name else {
            return unnamed;
        };
        if let Some(takers) = self.exact.get(name) {
            return takers;
        }
        if !self.wildcard.is_empty() {
            let mut rest = name;
            while let Some(dot) = rest.get(1..).and_then(|tail| tail.find('.')) {
                rest = &rest[dot + 1..];
                if let Some(takers) = self.wildcard.get(rest) {
                    return takers;
                }
            }
        }
        unnamed
    }

    /// Enters a chain for a server name, or for connections that ask for none that others have, of all networks or of
    /// these. `false` if there is another one for the same.
    pub fn enter(&mut self, server_name: Option<&str>, networks: &[AddressRange], chain: &Arc<C>) -> bool {
        let takers = match server_name.map(|name| name.strip_prefix('*').ok_or(name)) {
            None => &mut self.unnamed,
            Some(Ok(suffix)) => self.wildcard.entry(suffix.into()).or_default(),
            Some(Err(name)) => self.exact.entry(name.into()).or_default(),
        };
        takers.enter(networks, chain)
    }

    /// Enters a chain for TLS that asks for no name which others have. `false` if there is another one for the same.
    pub fn enter_tls(&mut self, networks: &[AddressRange], chain: &Arc<C>) -> bool {
        self.unnamed_tls.enter(networks, chain)
    }

    /// Every chain, each once, in no particular order.
    pub fn all(&self) -> Vec<&Arc<C>> {
        let unnamed = [&self.unnamed, &self.unnamed_tls];
        let takers = self.exact.values().chain(self.wildcard.values()).chain(unnamed);
        let mut chains: Vec<&Arc<C>> = takers.flat_map(Takers::all).chain(&self.fallback).collect();
        chains.sort_by_key(|chain| Arc::as_ptr(chain) as usize);
        chains.dedup_by_key(|chain| Arc::as_ptr(chain) as usize);
        chains
    }
}

/// The chains of one server name.
#[derive(Debug)]
struct Takers<C> {
    /// For all networks that have none.
    others: Option<Arc<C>>,
    /// For some networks; most listeners ask for none.
    networks: Option<Box<Networks<C>>>,
}

/// Chains by network.
#[derive(Debug)]
struct Networks<C> {
    /// By the first address of a network, and its length.
    chains: FxHashMap<(IpAddr, u8), Arc<C>>,
    /// The lengths there are, the longest first.
    lengths: Vec<u8>,
}

impl<C> Default for Takers<C> {
    fn default() -> Self {
        Self {
            others: None,
            networks: None,
        }
    }
}

impl<C> Takers<C> {
    fn is_empty(&self) -> bool {
        self.others.is_none() && self.networks.is_none()
    }

    /// That of the smallest network which the client is in.
    fn find(&self, client: IpAddr) -> Option<&Arc<C>> {
        let of_network = self.networks.as_ref().and_then(|networks| networks.find(client));
        of_network.or(self.others.as_ref())
    }

    fn enter(&mut self, networks: &[AddressRange], chain: &Arc<C>) -> bool {
        if networks.is_empty() {
            return self.others.replace(Arc::clone(chain)).is_none();
        }
        let own = self.networks.get_or_insert_with(|| {
            Box::new(Networks {
                chains: FxHashMap::default(),
                lengths: Vec::new(),
            })
        });
        networks.iter().all(|range| own.enter(*range, chain))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<C>> {
        let networks = self.networks.iter().flat_map(|networks| networks.chains.values());
        networks.chain(&self.others)
    }
}

impl<C> Networks<C> {
    fn find(&self, client: IpAddr) -> Option<&Arc<C>> {
        let client = client.to_canonical();
        let bits = if client.is_ipv4() { 32 } else { 128 };
        let lengths = self.lengths.iter().filter(|length| **length <= bits);
        let networks = lengths.map(|length| (first_of(client, *length), *length));
        networks.filter_map(|network| self.chains.get(&network)).next()
    }

    fn enter(&mut self, range: AddressRange, chain: &Arc<C>) -> bool {
        let AddressRange { address, prefix_len } = range;
        if !self.lengths.contains(&prefix_len) {
            self.lengths.push(prefix_len);
            self.lengths.sort_unstable_by(|a, b| b.cmp(a));
        }
        let network = (first_of(address, prefix_len), prefix_len);
        let before = self.chains.insert(network, Arc::clone(chain));
        // A network may be named twice, in two ways.
        before.is_none_or(|before| Arc::ptr_eq(&before, chain))
    }
}

/// The first address of the network of this length that an address is in.
fn first_of(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        let (address, length) = text.split_once('/').expect("a network");
        AddressRange {
            address: address.parse().expect("an address"),
            prefix_len: length.parse().expect("a length"),
        }
    }

    #[test]
    fn a_name_comes_first_and_then_the_smallest_network() {
        let mut chains = FilterChains::default();
        let enter = |chains: &mut FilterChains<&'static str>, name, networks: &[&str], chain| {
            let networks: Vec<_> = networks.iter().map(|text| range(text)).collect();
            chains.enter(name, &networks, &Arc::new(chain))
        };
        assert!(enter(&mut chains, None, &["10.0.0.0/8", "::/0"], "inside"));
        assert!(enter(&mut chains, None, &["10.1.0.9/16", "0.0.0.0/0"], "outside"));
        assert!(enter(&mut chains, Some("a.example"), &[], "a"));
        assert!(enter(&mut chains, Some("*.b.example"), &["10.0.0.0/8"], "b"));
        chains.fallback = Some(Arc::new("default"));
        let find = |name: Option<&str>, client: &str| {
            let client = client.parse().expect("an address");
            chains.find(Hello::Tls(name), client).map(|chain| **chain)
        };
        for (name, client, chain) in [
            (None, "10.2.0.1", "inside"),
            (None, "::ffff:10.2.0.1", "inside"),
            (None, "2001:db8::1", "inside"),
            (None, "10.1.255.1", "outside"),
            (None, "192.0.2.1", "outside"),
            (Some("c.example"), "192.0.2.1", "outside"),
            (Some("a.example"), "192.0.2.1", "a"),
            (Some("x.b.example"), "10.1.0.1", "b"),
            (Some("x.b.example"), "192.0.2.1", "default"),
        ] {
            assert_eq!(find(name, client), Some(chain), "{name:?} {client}");
        }
        assert!(!enter(&mut chains, None, &["10.0.0.5/8"], "again"));
        assert!(!enter(&mut chains, Some("a.example"), &[], "again"));
    }

    /// As by Envoy's order of `filter_chain_match`: the transport comes behind the name and before networks.
    #[test]
    fn cleartext_is_for_no_chain_that_takes_tls_alone() {
        let mut chains = FilterChains::default();
        let find = |chains: &FilterChains<&'static str>, hello, client: &str| {
            let client = client.parse().expect("an address");
            chains.find(hello, client).map(|chain| **chain)
        };
        let outside = "192.0.2.1";
        assert!(chains.enter_tls(&[], &Arc::new("tls")));
        assert_eq!(find(&chains, Hello::Cleartext, outside), None);
        assert_eq!(find(&chains, Hello::Tls(None), outside), Some("tls"));
        assert!(chains.enter(None, &[], &Arc::new("any")));
        assert_eq!(find(&chains, Hello::Cleartext, outside), Some("any"));
        assert_eq!(find(&chains, Hello::Tls(Some("a.example")), outside), Some("tls"));
        assert_eq!(chains.all().len(), 2);
        assert!(!chains.enter_tls(&[], &Arc::new("again")));

        let mut chains = FilterChains::default();
        assert!(chains.enter_tls(&[range("10.0.0.0/8")], &Arc::new("tls of some")));
        assert!(chains.enter(None, &[], &Arc::new("any")));
        chains.fallback = Some(Arc::new("default"));
        assert_eq!(find(&chains, Hello::Tls(None), "10.1.2.3"), Some("tls of some"));
        assert_eq!(find(&chains, Hello::Tls(None), outside), Some("default"));
        assert_eq!(find(&chains, Hello::Cleartext, "10.1.2.3"), Some("any"));
    }
}
