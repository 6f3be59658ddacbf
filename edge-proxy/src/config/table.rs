//! Route tables: from host and path to the route.
//!
//! Envoy's semantics, first match in the order of the list, at a cost that does not grow with the list. Hosts
//! are looked up by hash (exact, then wildcards by length, then `*`). Paths are looked up in an index that names the
//! candidates of every kind of path condition: exact and separated prefixes by hashing the path as it is cut at each
//! `/`, plain prefixes by their lengths, and the few that need it one by one. A candidate keeps its place in the list,
//! and the lowest place whose other conditions hold wins, so the answer is the linear scan's.
//! Deliberately absent: building, which is [`crate::compile`]'s; conditions live in [`crate::config::header`].

use std::sync::Arc;

use http::{HeaderMap, Method};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::authority::Authority;
use crate::config::route::Route;

mod index;
mod matching;
#[cfg(test)]
mod tests;

pub use index::PathIndex;
pub use matching::{first_parameter, value_of};

/// A compiled RouteConfiguration.
#[derive(Debug)]
pub struct RouteTable {
    /// The RouteConfiguration's name.
    pub name: Arc<str>,
    /// Its virtual hosts.
    pub hosts: HostTable,
    /// Look at the host without its port.
    pub ignore_port: bool,
}

/// Virtual hosts by the constant part of a wildcard, grouped by its length.
pub type WildcardHosts = Vec<(usize, FxHashMap<Arc<str>, Arc<VirtualHost>>)>;

/// Virtual hosts by domain.
#[derive(Clone, Debug, Default)]
pub struct HostTable {
    /// `www.example.com`, lower case; with `:port` when the configuration says so.
    pub exact: FxHashMap<Arc<str>, Arc<VirtualHost>>,
    /// `*.example.com` and `*-a.example.com` without the star, by length, longest first.
    pub suffixes: WildcardHosts,
    /// `www.*` without the star, by length, longest first.
    pub prefixes: WildcardHosts,
    /// `*`
    pub any: Option<Arc<VirtualHost>>,
}

/// A virtual host.
#[derive(Debug)]
pub struct VirtualHost {
    /// Its name.
    pub name: Arc<str>,
    /// Its routes in the order of the list.
    pub routes: Box<[Route]>,
    /// Finds candidates by path.
    pub index: PathIndex,
    /// Redirect cleartext requests to `https`.
    pub require_tls: TlsRequirement,
}

/// Which cleartext requests a virtual host redirects to `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsRequirement {
    /// None.
    None,
    /// Those from external addresses.
    ExternalOnly,
    /// All.
    All,
}

/// What a lookup sees of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// `:method`
    pub method: &'a Method,
    /// `:scheme`
    pub scheme: &'a str,
    /// `:authority`, any case, with port if the client sent one.
    pub authority: &'a str,
    /// `:path` with query.
    pub path_and_query: &'a str,
    /// All other headers.
    pub headers: &'a HeaderMap,
    /// A random number; the same one for everything that is decided about this request's route.
    pub random: u64,
}

impl<'a> RequestView<'a> {
    /// The path without query and fragment.
    pub fn path(&self) -> &'a str {
        match self.path_and_query.find(['?', '#']) {
            Some(end) => &self.path_and_query[..end],
            None => self.path_and_query,
        }
    }

    /// The query without `?`, if there is one.
    pub fn query(&self) -> Option<&'a str> {
        let start = self.path_and_query.find('?')? + 1;
        let rest = &self.path_and_query[start..];
        Some(rest.split('#').next().unwrap_or(rest))
    }
}

impl RouteTable {
    /// The virtual host and the route for a request; `None` in either place answers 404.
    pub fn find<'a>(&'a self, request: &RequestView<'_>) -> Option<(&'a Arc<VirtualHost>, &'a Route)> {
        let host = self.virtual_host(request.authority)?;
        Some((host, host.find(request)?))
    }

    /// The virtual host for an authority.
    pub fn virtual_host(&self, authority: &str) -> Option<&Arc<VirtualHost>> {
        let host = if self.ignore_port {
            Authority::of(authority).host
        } else {
            authority
        };
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return self.hosts.find(&host.to_ascii_lowercase());
        }
        self.hosts.find(host)
    }
}

impl HostTable {
    /// The virtual host for a lower case host.
    pub fn find(&self, host: &str) -> Option<&Arc<VirtualHost>> {
        if let Some(found) = self.exact.get(host) {
            return Some(found);
        }
        for (len, table) in &self.suffixes {
            if *len < host.len()
                && let Some(found) = host.get(host.len() - len..).and_then(|tail| table.get(tail))
            {
                return Some(found);
            }
        }
        for (len, table) in &self.prefixes {
            if *len < host.len()
                && let Some(found) = host.get(..*len).and_then(|head| table.get(head))
            {
                return Some(found);
            }
        }
        self.any.as_ref()
    }
}

impl VirtualHost {
    /// The first route of the list that takes the request.
    pub fn find(&self, request: &RequestView<'_>) -> Option<&Route> {
        let path = request.path();
        let mut best: Option<u32> = None;
        self.index.candidates(path, &mut best, |place| {
            self.routes
                .get(place as usize)
                .is_some_and(|route| route.takes_indexed(request, path))
        });
        self.routes.get(best? as usize)
    }
}

/// Places in a list of routes, ascending.
pub type Places = SmallVec<[u32; 2]>;
