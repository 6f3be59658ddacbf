//! Tables that give every hash a host: Maglev and the ring.
//!
//! Made once for all workers when the hosts of a priority change. Keys, seeds and the order of filling are
//! Envoy's, so that both proxies send a hash to the same host, and a client finds its host again behind either.

use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use crate::config::endpoint::view::{Drawable, Hosts};
use crate::config::endpoint::{Host, HostAddress};

/// Which table a cluster wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashing {
    /// Its kind and size.
    pub shape: Shape,
    /// Hosts are known by their host names instead of their addresses.
    pub by_hostname: bool,
    /// Localities share the table by their weights.
    pub locality_weighted: bool,
}

/// Kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A table of so many places, a prime.
    Maglev {
        /// How many.
        size: u64,
    },
    /// A ring with at least and at most so many places.
    Ring {
        /// At least.
        min: u64,
        /// At most.
        max: u64,
    },
}

/// Hosts by hash.
#[derive(Debug)]
pub enum Table {
    /// A host for each remainder.
    Maglev(Box<[u32]>),
    /// Places on a ring with their hosts, sorted.
    Ring(Box<[(u64, u32)]>),
}

/// A host with its share of the table.
struct Share {
    key: String,
    host: u32,
    weight: f64,
}

impl Table {
    /// A table of those who may be drawn.
    pub fn new(hashing: &Hashing, hosts: &[Arc<Host>], drawable: &Drawable) -> Self {
        let mut shares = Vec::new();
        if hashing.locality_weighted && !drawable.localities.is_empty() {
            let sum: u64 = drawable.localities.iter().map(|one| u64::from(one.weight)).sum();
            for locality in &drawable.localities {
                let part = f64::from(locality.weight) / sum as f64;
                add(hashing, hosts, &locality.hosts, part, &mut shares);
            }
        } else {
            add(hashing, hosts, &drawable.all, 1.0, &mut shares);
        }
        match hashing.shape {
            Shape::Maglev { size } => Self::Maglev(maglev(shares, size)),
            Shape::Ring { min, max } => Self::Ring(ring(&shares, min, max)),
        }
    }

    /// The host for a hash, and another one for each further attempt; `None` when there is no host.
    pub fn host(&self, hash: u64, attempt: u32) -> Option<u32> {
        match self {
            Self::Maglev(places) => {
                let hash = match attempt {
                    0 => hash,
                    // Most bits change, so that attempts don't all end at one neighbour.
                    attempt => hash ^ (u64::MAX - u64::from(attempt) + 1),
                };
                let at = hash.checked_rem(places.len() as u64)?;
                places.get(at as usize).copied()
            }
            Self::Ring(places) => {
                let at = places.partition_point(|(place, _)| *place < hash);
                let at = (at % places.len().max(1)).wrapping_add(attempt as usize);
                Some(places.get(at % places.len().max(1))?.1)
            }
        }
    }
}

fn add(hashing: &Hashing, hosts: &[Arc<Host>], list: &Hosts, part: f64, shares: &mut Vec<Share>) {
    let members = || {
        list.indexes
            .iter()
            .filter_map(|at| Some((*at, hosts.get(*at as usize)?)))
    };
    let sum: u64 = members().map(|(_, host)| u64::from(host.weight)).sum();
    shares.extend(members().map(|(index, host)| Share {
        key: key(host, hashing.by_hostname),
        host: index,
        weight: f64::from(host.weight) * part / sum as f64,
    }));
}

/// What a host is known by.
fn key(host: &Host, by_hostname: bool) -> String {
    if by_hostname {
        return host.hostname.to_string();
    }
    match &host.address {
        HostAddress::Socket(address) => address.to_string(),
        HostAddress::Pipe(path) => path.to_string_lossy().into_owned(),
        HostAddress::Internal(name) => name.to_string(),
    }
}

/// The algorithm of "Maglev: A Fast and Reliable Software Network Load Balancer", §3.4, with weights: a host has its
/// turn in as many rounds as its weight is a part of the greatest.
fn maglev(mut shares: Vec<Share>, size: u64) -> Box<[u32]> {
    struct Turn {
        host: u32,
        offset: u64,
        skip: u64,
        weight: f64,
        target: f64,
        next: u64,
    }
    if shares.is_empty() || size < 2 {
        return Box::default();
    }
    // The order of hosts must not matter.
    shares.sort_by(|one, other| one.key.cmp(&other.key));
    let greatest = shares.iter().map(|share| share.weight).fold(0.0, f64::max);
    let mut turns: Vec<Turn> = shares
        .iter()
        .map(|share| Turn {
            host: share.host,
            offset: xxh64(share.key.as_bytes(), 0) % size,
            skip: xxh64(share.key.as_bytes(), 1) % (size - 1) + 1,
            weight: share.weight,
            target: 0.0,
            next: 0,
        })
        .collect();
    let mut places = vec![u32::MAX; size as usize];
    let mut filled = 0;
    for round in 1_u64.. {
        for turn in &mut turns {
            if (round as f64) * turn.weight < turn.target {
                continue;
            }
            turn.target += greatest;
            let mut place = (turn.offset + turn.skip * turn.next) % size;
            while places[place as usize] != u32::MAX {
                turn.next += 1;
                place = (turn.offset + turn.skip * turn.next) % size;
            }
            places[place as usize] = turn.host;
            turn.next += 1;
            filled += 1;
            if filled == size {
                return places.into();
            }
        }
    }
    places.into()
}

/// Places for each host in proportion to its weight, the lightest host with a whole number of them.
fn ring(shares: &[Share], min: u64, max: u64) -> Box<[(u64, u32)]> {
    let least = shares.iter().map(|share| share.weight).fold(1.0, f64::min);
    let scale = ((least * min as f64).ceil() / least).min(max as f64);
    let mut places = Vec::new();
    let mut target = 0.0;
    for share in shares {
        target += scale * share.weight;
        for number in 0_u64.. {
            if places.len() as f64 >= target {
                break;
            }
            places.push((xxh64(format!("{}_{number}", share.key).as_bytes(), 0), share.host));
        }
    }
    places.sort_by_key(|(place, _)| *place);
    places.into()
}

/// The hash of a value that a request carries.
pub fn hash(value: &[u8]) -> u64 {
    seeded(value, 0)
}

/// The hash of a value that comes behind others.
pub fn seeded(value: &[u8], seed: u64) -> u64 {
    xxh64(value, seed)
}
