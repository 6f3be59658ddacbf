//! Large virtual hosts in the form in which stock Envoy finds a route at once.
//!
//! Envoy tries the routes of a host one after the other, so that ten thousand of them cost a request a third of a
//! millisecond. Told as a matcher (`VirtualHost.matcher`), the same routes are entries of a trie of paths: the longest
//! of its prefixes that a path begins with leads to a list, and only the routes in that are tried, in their order.
//!
//! It means exactly the same, because a list holds every route that a path with this longest prefix can match: of
//! routes with a literal path those whose literal is the prefix or a beginning of it behind which the match allows what
//! follows there, and all routes without one (regular expressions, CONNECT). Each of them is still matched as a whole,
//! headers, method and all. Where lists would repeat too many routes, the host stays as it is.
//!
//! This is a matter of delivery: versions, parts, refusals and dumps know tables as lists, edge-proxy has an index of
//! its own and is sent the list, and so is whoever doesn't say that it is an Envoy that knows this form.

use crate::{
    snapshot::Body,
    wire::{MAP_KEY, MAP_VALUE, put_bytes, put_message, put_str},
};
use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{Node, node::UserAgentVersionType};
use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// A host with fewer routes is as fast as a list, for all that can be measured.
const LARGE: usize = 100;
/// Lists may hold so many times the routes of the host in all: a route for all paths is in each of them, and Envoy
/// keeps every copy.
const COPIES: usize = 3;
/// The oldest Envoy that is known to take it.
const SINCE: (u32, u32) = (1, 30);

/// `RouteConfiguration.virtual_hosts`.
const TABLE_HOSTS: u32 = 2;
/// `VirtualHost.routes`, `.matcher`.
const HOST_ROUTES: u32 = 3;
const HOST_MATCHER: u32 = 21;
/// `Route.match`.
const ROUTE_MATCH: u32 = 1;
/// Fields of `RouteMatch`.
mod condition {
    pub(super) const PREFIX: u32 = 1;
    pub(super) const PATH: u32 = 2;
    pub(super) const CASE_SENSITIVE: u32 = 4;
    pub(super) const SAFE_REGEX: u32 = 10;
    pub(super) const CONNECT_MATCHER: u32 = 12;
    pub(super) const PATH_SEPARATED_PREFIX: u32 = 14;
    pub(super) const PATH_MATCH_POLICY: u32 = 15;
}
/// Fields of `xds.type.matcher.v3.Matcher`, `.MatcherTree`, `.MatchMap`, `.OnMatch`.
mod matcher {
    pub(super) const TREE: u32 = 2;
    pub(super) const ON_NO_MATCH: u32 = 3;
    pub(super) const INPUT: u32 = 1;
    pub(super) const PREFIX_MAP: u32 = 3;
    pub(super) const MAP: u32 = 1;
    pub(super) const ACTION: u32 = 2;
}
/// Fields of `TypedExtensionConfig`, and of the `Any` in it.
mod extension {
    pub(super) const NAME: u32 = 1;
    pub(super) const TYPED_CONFIG: u32 = 2;
    pub(super) const TYPE_URL: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}
const HEADER_INPUT: &str = "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput";
/// `HttpRequestHeaderMatchInput.header_name`.
const HEADER_NAME: u32 = 1;
const ROUTE_LIST: &str = "type.googleapis.com/envoy.config.route.v3.RouteList";
/// `RouteList.routes`.
const LIST_ROUTES: u32 = 1;

/// How a proxy is told of large virtual hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostForm {
    /// As lists of routes.
    #[default]
    List,
    /// As matchers by path.
    Matcher,
}

impl HostForm {
    /// What is best for a proxy, by what it says of itself.
    pub(crate) fn of(node: &Node) -> Self {
        let version = match &node.user_agent_version_type {
            Some(UserAgentVersionType::UserAgentBuildVersion(build)) => build.version.as_ref(),
            Some(UserAgentVersionType::UserAgentVersion(_)) | None => None,
        };
        let is_known = version.is_some_and(|version| (version.major_number, version.minor_number) >= SINCE);
        match node.user_agent_name == "envoy" && is_known {
            true => Self::Matcher,
            false => Self::List,
        }
    }
}

/// A route table with its large hosts as matchers; as it is if it has none. What was patched stays as it was patched.
pub fn with_matchers(table: &Body) -> Bytes {
    let Body::Rope(rope) = table else {
        return table.contiguous();
    };
    let mut out = Vec::with_capacity(rope.len());
    for piece in rope.pieces() {
        match piece.with_matcher() {
            Some(bytes) => out.extend_from_slice(bytes),
            None => piece.copy_to(&mut out),
        }
    }
    out.into()
}

/// The same for a virtual host as it stands in its table; none if it stays as it is.
pub(crate) fn with_matcher(framed: &[u8]) -> Option<Bytes> {
    convert(framed, LARGE, COPIES)
}

fn convert(framed: &[u8], large: usize, copies: usize) -> Option<Bytes> {
    let mut rest = framed;
    let host = next_field(&mut rest).filter(|field| rest.is_empty() && field.number == TABLE_HOSTS)?;
    let mut fields = Vec::new();
    let mut rest = host.content;
    while !rest.is_empty() {
        fields.push(next_field(&mut rest)?);
    }
    let (routes, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|field| field.number == HOST_ROUTES);
    if routes.len() < large {
        return None;
    }
    let routes: Vec<&[u8]> = routes.iter().map(|field| field.content).collect();
    let lists = Lists::of(&routes, routes.len() * copies)?;
    let mut out = Vec::with_capacity(framed.len() * 3);
    put_message(&mut out, TABLE_HOSTS, |out| {
        others.iter().for_each(|field| out.extend_from_slice(field.whole));
        put_message(out, HOST_MATCHER, |out| lists.put(out, &routes));
    });
    Some(out.into())
}

/// Which routes are tried for which paths; routes by their place in the host.
#[derive(Debug)]
struct Lists<'a> {
    /// By the longest prefix that a path begins with.
    by_prefix: Vec<(&'a str, Vec<usize>)>,
    /// For what begins with none of them.
    others: Vec<usize>,
}

impl<'a> Lists<'a> {
    /// None if there is nothing to gain, or if the lists were to hold more than so many routes in all.
    fn of(routes: &[&'a [u8]], most: usize) -> Option<Self> {
        let mut own: BTreeMap<&str, Vec<(usize, Behind)>> = BTreeMap::new();
        let mut others = Vec::new();
        for (place, route) in routes.iter().enumerate() {
            match literal(route) {
                Some((path, behind)) => own.entry(path).or_default().push((place, behind)),
                None => others.push(place),
            }
        }
        let mut count = others.len();
        let mut by_prefix = Vec::with_capacity(own.len());
        // In their order a prefix comes before all that begin with it.
        let mut shorter: Vec<&str> = Vec::new();
        for (path, routes) in &own {
            while shorter.last().is_some_and(|prefix| !path.starts_with(prefix)) {
                shorter.pop();
            }
            let mut list: Vec<usize> = others.clone();
            list.extend(routes.iter().map(|(place, _)| place));
            for prefix in &shorter {
                let next = path.as_bytes().get(prefix.len());
                let allowed = own[prefix].iter().filter(|(_, behind)| behind.allows(next));
                list.extend(allowed.map(|(place, _)| place));
            }
            list.sort_unstable();
            count += list.len();
            if count > most {
                return None;
            }
            by_prefix.push((*path, list));
            shorter.push(path);
        }
        (!by_prefix.is_empty()).then_some(Self { by_prefix, others })
    }

    fn put(&self, out: &mut Vec<u8>, routes: &[&[u8]]) {
        put_message(out, matcher::TREE, |out| {
            put_message(out, matcher::INPUT, |out| {
                put_extension(out, "path", HEADER_INPUT, |out| put_str(out, HEADER_NAME, ":path"));
            });
            put_message(out, matcher::PREFIX_MAP, |out| {
                for (prefix, list) in &self.by_prefix {
                    put_message(out, matcher::MAP, |out| {
                        put_str(out, MAP_KEY, prefix);
                        put_message(out, MAP_VALUE, |out| put_list(out, list, routes));
                    });
                }
            });
        });
        if !self.others.is_empty() {
            put_message(out, matcher::ON_NO_MATCH, |out| put_list(out, &self.others, routes));
        }
    }
}

/// Writes an `OnMatch` that tries routes in their order.
fn put_list(out: &mut Vec<u8>, list: &[usize], routes: &[&[u8]]) {
    put_message(out, matcher::ACTION, |out| {
        put_extension(out, "routes", ROUTE_LIST, |out| {
            for place in list {
                put_bytes(out, LIST_ROUTES, routes[*place]);
            }
        });
    });
}

fn put_extension(out: &mut Vec<u8>, name: &str, url: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_str(out, extension::NAME, name);
    put_message(out, extension::TYPED_CONFIG, |out| {
        put_str(out, extension::TYPE_URL, url);
        put_message(out, extension::VALUE, value);
    });
}

/// What may follow a literal in a path that the match is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Whatever there is.
    Anything,
    /// Another segment.
    Segment,
    /// No more path.
    Nothing,
}

impl Behind {
    /// Whether a path may go on like this. A query or fragment ends it for the match, and stands in the header.
    fn allows(self, next: Option<&u8>) -> bool {
        match (self, next) {
            (Self::Anything, _) | (_, None | Some(b'?' | b'#')) => true,
            (Self::Segment, Some(b'/')) => true,
            (Self::Segment | Self::Nothing, Some(_)) => false,
        }
    }
}

/// What each path that a route is for begins with.
fn literal(route: &[u8]) -> Option<(&str, Behind)> {
    let mut rest = route;
    let mut found = None;
    while !rest.is_empty() {
        let field = next_field(&mut rest)?;
        if field.number == ROUTE_MATCH {
            if found.is_some() {
                return None;
            }
            found = Some(field.content);
        }
    }
    let mut rest = found?;
    let mut literal = None;
    while !rest.is_empty() {
        let field = next_field(&mut rest)?;
        let behind = match field.number {
            condition::PREFIX => Behind::Anything,
            condition::PATH => Behind::Nothing,
            condition::PATH_SEPARATED_PREFIX => Behind::Segment,
            // Another spelling may match, or there is no literal.
            condition::CASE_SENSITIVE
            | condition::SAFE_REGEX
            | condition::CONNECT_MATCHER
            | condition::PATH_MATCH_POLICY => return None,
            _ => continue,
        };
        literal = Some((std::str::from_utf8(field.content).ok()?, behind));
    }
    literal.filter(|(path, _)| !path.is_empty())
}

/// A field of an encoded message.
struct Field<'a> {
    number: u32,
    /// What it holds, if that has a length.
    content: &'a [u8],
    /// All of its bytes.
    whole: &'a [u8],
}

/// Takes the next field off a message; none if that is no message.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let begin = *rest;
    let (number, kind) = decode_key(rest).ok()?;
    let length = match kind {
        WireType::LengthDelimited => usize::try_from(decode_varint(rest).ok()?).ok()?,
        WireType::Varint => {
            decode_varint(rest).ok()?;
            0
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Field {
        number,
        content,
        whole: &begin[..begin.len() - after.len()],
    })
}
