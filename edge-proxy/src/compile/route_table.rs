//! RouteConfiguration → [`RouteTable`], at the cost of the virtual hosts that changed.
//!
//! A route configuration can hold tens of thousands of virtual hosts, and an edit touches one. So the encoded
//! message is cut at its virtual hosts ([`Cut`]) before anything is decoded; hosts whose bytes are those of the version
//! before are taken over as they are, the others are decoded and compiled one by one. That also bounds memory: a
//! decoded route takes two kilobytes, and never more than one host of them exists at a time. Our controller says itself
//! which hosts stay ([`edge_xds::parts`]), so that their bytes are neither sent nor compared.
//! Why this is allowed: repeated fields of a message are its elements in order, each with its length (Protocol Buffers,
//! "Encoding"), and a virtual host is compiled from its own bytes and the [`Outline`], nothing else.
//! Deliberately absent: what a virtual host is made of, which is [`crate::compile::route`]'s.

mod cluster_refs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::{Buf, Bytes};
use edge_xds::parts::RouteTableParts;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::config::route::v3::VirtualHost as ProtoVirtualHost;
use envoy_types::pb::envoy::config::route::v3::route_action::RequestMirrorPolicy;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field};
use prost::{DecodeError, Message};
use rustc_hash::FxHashMap;

pub use cluster_refs::unknown_cluster;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, Rejections, fields};
use crate::compile::filter;
use crate::compile::route::{Edits, edits_of, virtual_host};
use crate::config::filter::RouteFilters;
use crate::config::table::{HostTable, RouteTable, VirtualHost, WildcardHosts};

/// The field `virtual_hosts` of a RouteConfiguration.
const VIRTUAL_HOSTS: u32 = 2;

/// A route table, and what the next version of it can take over.
#[derive(Debug)]
pub struct CompiledTable {
    /// What serves.
    pub table: Arc<RouteTable>,
    /// All of the message but its virtual hosts.
    rest: Vec<u8>,
    /// The virtual hosts in the order of the message.
    hosts: Vec<Arc<CompiledHost>>,
}

impl CompiledTable {
    /// The message that says all this.
    pub fn body(&self) -> Vec<u8> {
        let mut out = self.rest.clone();
        for host in &self.hosts {
            encode_key(VIRTUAL_HOSTS, WireType::LengthDelimited, &mut out);
            encode_varint(host.bytes.len() as u64, &mut out);
            out.extend_from_slice(&host.bytes);
        }
        out
    }
}

/// A virtual host of a table: the bytes it was made from, and where it was entered.
#[derive(Debug)]
struct CompiledHost {
    bytes: Bytes,
    domains: Arc<[Domain]>,
}

/// A domain of a virtual host by what it is looked up with, in lower case.
#[derive(Debug)]
enum Domain {
    /// The whole name.
    Exact(Arc<str>),
    /// `*.example.com` without the star.
    Suffix(Arc<str>),
    /// `www.*` without the star.
    Prefix(Arc<str>),
    /// `*`
    Any,
}

/// What a route configuration says about all of its virtual hosts.
pub(super) struct Outline<'a> {
    name: &'a str,
    ignore_port: bool,
    /// Edits of headers around those of hosts and routes.
    pub(super) edits: Edits,
    /// The most specific edit wins.
    pub(super) specific_last: bool,
    /// Longest body of a direct response, in bytes.
    pub(super) max_body: usize,
    /// What it says of filters.
    pub(super) filters: RouteFilters,
    /// Mirrors of routes and hosts that name none.
    pub(super) mirrors: &'a [RequestMirrorPolicy],
}

/// Compiles a message that is decoded already: a table inside a listener.
pub fn inline(context: &mut Context, at: &At<'_>, message: &RouteConfiguration) -> Result<RouteTable, Rejections> {
    let outline = outline(context, at, message)?;
    let list = at.field("virtual_hosts");
    let mut hosts = HostTable::default();
    let mut bad = None;
    for (index, message) in message.virtual_hosts.iter().enumerate() {
        let at = list.index(index);
        let compiled = compile_host(context, &at, message, &outline);
        let entered = compiled.and_then(|(domains, host)| Ok(add(&at, &mut hosts, &domains, &host)?));
        entered.unwrap_or_else(|rejections| Rejections::collect(&mut bad, rejections));
    }
    bad.map_or_else(|| Ok(finish(&outline, hosts)), Err)
}

/// A virtual host of a new version.
enum NextHost {
    /// That of the version before with this place.
    Kept(usize),
    /// One with these bytes.
    Sent(Bytes),
}

/// Compiles a received message; hosts that are in `before` with the same bytes are not compiled again. All that is
/// wrong with its hosts and routes is told, not only the first.
pub fn received(
    context: &mut Context,
    name: &str,
    body: &Bytes,
    before: Option<&CompiledTable>,
) -> Result<CompiledTable, Rejections> {
    let cut = Cut::new(body).map_err(|error| undecodable(&At::root(), &error))?;
    let mut known = HostsBefore::new(before.map_or(&[], |before| &before.hosts));
    let hosts = cut.hosts.into_iter().map(|bytes| known.find(bytes)).collect();
    build(context, name, cut.rest, hosts, before)
}

/// Compiles a version that is told by what differs from the one before.
pub fn changed(
    context: &mut Context,
    name: &str,
    told: &RouteTableParts,
    before: Option<&CompiledTable>,
) -> Result<CompiledTable, Rejections> {
    let at = At::root();
    let known = before.map_or(0, |before| before.hosts.len());
    let (mut rest, mut hosts) = (Vec::new(), Vec::new());
    for part in &told.parts {
        let (from, count) = (part.from as usize, part.count as usize);
        if from.checked_add(count).is_none_or(|end| end > known) {
            let reason = format!("keeps {count} virtual hosts from {from} on of {known}");
            return Err(at.error(reason).into());
        }
        hosts.extend((from..from + count).map(NextHost::Kept));
        let cut = Cut::new(&part.fields).map_err(|error| undecodable(&at, &error))?;
        rest.extend(cut.rest);
        hosts.extend(cut.hosts.into_iter().map(NextHost::Sent));
    }
    build(context, name, rest, hosts, before)
}

/// Compiles what is new, and enters it into the table before in the place of what has gone.
fn build(
    context: &mut Context,
    name: &str,
    rest: Vec<u8>,
    wanted: Vec<NextHost>,
    before: Option<&CompiledTable>,
) -> Result<CompiledTable, Rejections> {
    let at = At::root();
    let message = RouteConfiguration::decode(rest.as_slice()).map_err(|error| undecodable(&at, &error))?;
    if message.name != name && !message.name.is_empty() {
        let reason = format!("{:?} was sent as {name:?}", message.name);
        return Err(at.field("name").error(reason).into());
    }
    let outline = outline(context, &at, &message)?;
    let known = before.map_or(&[][..], |before| &before.hosts);
    let unchanged = before.filter(|before| before.rest == rest);
    let mut stays = vec![false; known.len()];
    let mut table = unchanged.map_or_else(HostTable::default, |before| before.table.hosts.clone());
    if unchanged.is_some() {
        for host in &wanted {
            if let NextHost::Kept(place) = host {
                stays[*place] = true;
            }
        }
        let gone = known.iter().zip(&stays).filter(|(_, stays)| !**stays);
        gone.for_each(|(host, _)| remove(&mut table, &host.domains));
    }
    let list = at.field("virtual_hosts");
    let mut hosts = Vec::with_capacity(wanted.len());
    let mut bad = None;
    for (index, wanted) in wanted.into_iter().enumerate() {
        let bytes = match wanted {
            // Twice the same one is one too many.
            NextHost::Kept(place) if std::mem::take(&mut stays[place]) => {
                hosts.push(Arc::clone(&known[place]));
                continue;
            }
            NextHost::Kept(place) => known[place].bytes.clone(),
            NextHost::Sent(bytes) => bytes,
        };
        let element = list.index(index);
        let entered = decode_host(context, &element, &bytes, &outline).and_then(|(domains, host)| {
            let at = if host.name.is_empty() { &element } else { &at };
            add(at, &mut table, &domains, &host)?;
            hosts.push(Arc::new(CompiledHost { bytes, domains }));
            Ok(())
        });
        entered.unwrap_or_else(|rejections| Rejections::collect(&mut bad, rejections));
    }
    match bad {
        Some(bad) => Err(bad),
        None => Ok(CompiledTable {
            table: Arc::new(finish(&outline, table)),
            rest,
            hosts,
        }),
    }
}

/// What is wrong with a virtual host that has a name is told by that name, else by its place.
fn decode_host(
    context: &mut Context,
    at: &At<'_>,
    bytes: &Bytes,
    outline: &Outline<'_>,
) -> Result<(Arc<[Domain]>, Arc<VirtualHost>), Rejections> {
    let message = ProtoVirtualHost::decode(bytes.clone()).map_err(|error| undecodable(at, &error))?;
    let root = At::root();
    let at = if message.name.is_empty() { at } else { &root };
    compile_host(context, at, &message, outline)
}

fn undecodable(at: &At<'_>, error: &DecodeError) -> Rejection {
    at.error(format!("can't be decoded: {error}"))
}

/// An encoded RouteConfiguration in two parts.
struct Cut {
    /// All other fields, as they were.
    rest: Vec<u8>,
    /// The encoded virtual hosts in their order; they share the message's memory.
    hosts: Vec<Bytes>,
}

impl Cut {
    fn new(body: &Bytes) -> Result<Self, DecodeError> {
        let mut left = body.clone();
        let (mut rest, mut hosts) = (Vec::new(), Vec::new());
        while left.has_remaining() {
            let start = body.len() - left.remaining();
            let (field, wire) = decode_key(&mut left)?;
            let mut value = left.clone();
            skip_field(wire, field, &mut left, DecodeContext::default())?;
            if field == VIRTUAL_HOSTS && wire == WireType::LengthDelimited {
                value.truncate(value.len() - left.len());
                decode_varint(&mut value)?;
                hosts.push(value);
            } else {
                rest.extend_from_slice(&body[start..body.len() - left.len()]);
            }
        }
        Ok(Self { rest, hosts })
    }
}

/// Finds virtual hosts of the version before by their bytes.
struct HostsBefore<'a> {
    hosts: &'a [Arc<CompiledHost>],
    /// The host expected next: an edit leaves the others in their order.
    next: usize,
    /// By bytes, made when the order was left for the first time.
    by_bytes: Option<FxHashMap<&'a [u8], usize>>,
}

impl<'a> HostsBefore<'a> {
    fn new(hosts: &'a [Arc<CompiledHost>]) -> Self {
        Self {
            hosts,
            next: 0,
            by_bytes: None,
        }
    }

    fn find(&mut self, bytes: Bytes) -> NextHost {
        let (hosts, expected) = (self.hosts, self.next);
        self.next += 1;
        if hosts.get(expected).is_some_and(|host| host.bytes == bytes) {
            return NextHost::Kept(expected);
        }
        let by_bytes = self
            .by_bytes
            .get_or_insert_with(|| hosts.iter().enumerate().map(|(n, host)| (&*host.bytes, n)).collect());
        match by_bytes.get(&*bytes) {
            Some(place) => NextHost::Kept(*place),
            None => NextHost::Sent(bytes),
        }
    }
}

fn outline<'a>(context: &mut Context, at: &At<'_>, message: &'a RouteConfiguration) -> Result<Outline<'a>, Rejection> {
    fields!(at, message => RouteConfiguration {
        name, response_headers_to_add, response_headers_to_remove, request_headers_to_add,
        request_headers_to_remove, most_specific_header_mutations_wins, max_direct_response_body_size_bytes,
        ignore_port_in_host_matching, request_mirror_policies, typed_per_filter_config;
        // Virtual hosts are compiled one by one. Clusters come and go on their own, so validate_clusters counts in the
        // bootstrap's own listeners alone (`named`); internal_only_headers are removed with the edge-only ones.
        ignore virtual_hosts, validate_clusters, metadata;
        refuse vhds, internal_only_headers, cluster_specifier_plugins, vhost_header,
               ignore_path_parameters_in_path_matching, route_specifiers
    });
    Ok(Outline {
        name,
        ignore_port: *ignore_port_in_host_matching,
        edits: edits_of!(
            at,
            request_headers_to_add,
            request_headers_to_remove,
            response_headers_to_add,
            response_headers_to_remove
        ),
        specific_last: *most_specific_header_mutations_wins,
        max_body: max_direct_response_body_size_bytes
            .as_ref()
            .map_or(4096, |size| size.value as usize),
        filters: filter::of_level(at, typed_per_filter_config, context, &RouteFilters::default())?,
        mirrors: request_mirror_policies,
    })
}

fn compile_host(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoVirtualHost,
    outline: &Outline<'_>,
) -> Result<(Arc<[Domain]>, Arc<VirtualHost>), Rejections> {
    let named = |rejection: Rejection| rejection.of_virtual_host(&message.name);
    let host = virtual_host(context, at, message, outline).map_err(|all| all.map(named))?;
    let at_domains = at.field("domains");
    if message.domains.is_empty() {
        return Err(named(at_domains.error("must name at least one domain")).into());
    }
    let domains = message.domains.iter().enumerate();
    let domains = domains
        .map(|(index, text)| domain(&at_domains.index(index), text))
        .collect::<Result<_, _>>();
    Ok((domains.map_err(named)?, Arc::new(host)))
}

fn domain(at: &At<'_>, text: &str) -> Result<Domain, Rejection> {
    let text = text.to_ascii_lowercase();
    if text.is_empty() {
        Err(at.error("must not be empty"))
    } else if text == "*" {
        Ok(Domain::Any)
    } else if let Some(suffix) = text.strip_prefix('*') {
        Ok(Domain::Suffix(suffix.into()))
    } else if let Some(prefix) = text.strip_suffix('*') {
        Ok(Domain::Prefix(prefix.into()))
    } else {
        Ok(Domain::Exact(text.into()))
    }
}

/// Enters a host under its domains; each may be used once in a table.
fn add(at: &At<'_>, table: &mut HostTable, domains: &[Domain], host: &Arc<VirtualHost>) -> Result<(), Rejection> {
    for (index, domain) in domains.iter().enumerate() {
        let previous = match domain {
            Domain::Exact(name) => table.exact.insert(name.clone(), host.clone()),
            Domain::Suffix(part) => add_wild(&mut table.suffixes, part, host),
            Domain::Prefix(part) => add_wild(&mut table.prefixes, part, host),
            Domain::Any => table.any.replace(host.clone()),
        };
        if let Some(other) = previous {
            let reason = format!("domain {domain} is also in virtual host {:?}", other.name);
            let rejection = at.field("domains").index(index).error(reason);
            return Err(rejection.of_virtual_host(&host.name));
        }
    }
    Ok(())
}

/// Takes out what a host was entered under.
fn remove(table: &mut HostTable, domains: &[Domain]) {
    for domain in domains {
        match domain {
            Domain::Exact(name) => drop(table.exact.remove(name)),
            Domain::Suffix(part) => remove_wild(&mut table.suffixes, part),
            Domain::Prefix(part) => remove_wild(&mut table.prefixes, part),
            Domain::Any => table.any = None,
        }
    }
}

fn remove_wild(list: &mut WildcardHosts, part: &Arc<str>) {
    for (_, hosts) in list.iter_mut().filter(|(len, _)| *len == part.len()) {
        hosts.remove(part);
    }
    list.retain(|(_, hosts)| !hosts.is_empty());
}

fn add_wild(list: &mut WildcardHosts, part: &Arc<str>, host: &Arc<VirtualHost>) -> Option<Arc<VirtualHost>> {
    let at = match list.iter().position(|(len, _)| *len == part.len()) {
        Some(at) => at,
        None => {
            list.push((part.len(), FxHashMap::default()));
            list.len() - 1
        }
    };
    list[at].1.insert(part.clone(), host.clone())
}

fn finish(outline: &Outline<'_>, mut hosts: HostTable) -> RouteTable {
    hosts.suffixes.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    hosts.prefixes.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    RouteTable {
        name: outline.name.into(),
        hosts,
        ignore_port: outline.ignore_port,
    }
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "\"{name}\""),
            Self::Suffix(part) => write!(f, "\"*{part}\""),
            Self::Prefix(part) => write!(f, "\"{part}*\""),
            Self::Any => f.write_str("\"*\""),
        }
    }
}
