//! Backends that are whoever a client asks for: where they are, and who is none of them. In a pod, names and addresses of
//! loopback are the proxy's own, with its admin interface: nobody may have requests sent there, as no Backend may name them
//! (`own_host`). On a machine somebody else may be meant.
//!
//! A name that a resolver knows as such an address isn't found out.

use super::{Due, RankedRoute, unresolved};
use crate::{
    engine::reader::Reader,
    phase::{
        backends::endpoints::is_of_request,
        precedence::Position,
        routes::{
            route_names::RouteNames,
            rules::{Action, RankedMatch, Rule},
        },
    },
    settings::Platform,
};
use edge_ir::{HostRewrite, Route, RouteEffect, RouteMatch, ValueMatch, ValueMatcher};
use std::sync::Arc;

/// A server name has no port: servers of TLS are found at that of HTTPS (RFC 9110 §4.2.2).
pub(super) const PORT: u16 = 443;

/// Server names that are the proxy's own (RFC 6761 §6.3; the others stand in files of hosts), and addresses, which no server
/// name is (RFC 6066 §3): a resolver reads some that don't look like one, such as `127.1`.
const OWN_NAMES: &str =
    r"(?i)((.*\.)?localhost(\.localdomain)?|ip6-localhost|ip6-loopback|(.*\.)?([0-9]+|0x[0-9a-f]*))\.?|.*:.*";

/// Hosts of requests that are the proxy's own, with or without a port. Other addresses may be asked for.
const OWN_HOSTS: &str = r"(?i)(((.*\.)?localhost(\.localdomain)?|ip6-localhost|ip6-loopback|(127|0[0-9]*)(\.(0x[0-9a-f]+|[0-9]+))*|[0-9]+|0x[0-9a-f]+(\.(0x[0-9a-f]+|[0-9]+))*)\.?|\[[0:]*(1|(ffff:)?(127\.[0-9.]*|0\.0\.0\.0|7f[0-9a-f]*:[0-9a-f]*)|ffff:0{1,4}:[0-9a-f]*)?\])(:[0-9]*)?";

/// Server names that nobody may ask for.
pub(super) fn refused_names(platform: Platform) -> Vec<ValueMatcher> {
    match platform {
        Platform::Cluster => vec![ValueMatcher::Regex(OWN_NAMES.into())],
        Platform::Host => Vec::new(),
    }
}

/// Requests of a rule that nobody may have answered by whom they ask for.
pub(super) struct Refused {
    host: ValueMatch,
    effect: Arc<RouteEffect>,
}

/// Which those are. What is rewritten to a name that the route says is sent there.
pub(super) fn refused(reader: &Reader<'_>, rule: &Rule, due: &Due<'_>) -> Vec<Refused> {
    let hosts = own_hosts(reader, &rule.action);
    if hosts.is_empty() {
        return Vec::new();
    }
    let effect = Arc::new(RouteEffect::new(unresolved::forbidden(due), Arc::clone(&rule.origins)));
    let refused = hosts.into_iter().map(|host| Refused {
        host,
        effect: Arc::clone(&effect),
    });
    refused.collect()
}

fn own_hosts(reader: &Reader<'_>, action: &Action) -> Vec<ValueMatch> {
    let Action::Forward(forwarding) = action else {
        return Vec::new();
    };
    let mut resolved = forwarding.shares.iter();
    let Some(share) = resolved.find(|share| share.weight > 0 && is_of_request(reader, share.backend.port)) else {
        return Vec::new();
    };
    if reader.settings().platform == Platform::Host || share.host_rewrite.is_some() {
        return Vec::new();
    }
    let own = |header: &str| ValueMatch {
        name: header.into(),
        value: ValueMatcher::Regex(OWN_HOSTS.into()),
    };
    match &forwarding.rewrite.host {
        Some(HostRewrite::Literal(_)) => Vec::new(),
        // Where it isn't there, the request's own host is asked for.
        Some(HostRewrite::Header(header)) => vec![own(&header.to_ascii_lowercase()), own(":authority")],
        Some(HostRewrite::Endpoint | HostRewrite::Path(_)) | None => vec![own(":authority")],
    }
}

/// Routes in front of those of a rule, of which each match takes `step` places.
pub(super) fn refusals(
    refused: &[Refused],
    matches: &[RankedMatch],
    (rule, step): (usize, usize),
    names: &mut RouteNames,
) -> Vec<RankedRoute> {
    let mut routes = Vec::with_capacity(refused.len() * matches.len());
    for one in matches {
        routes.extend(refused.iter().enumerate().map(|(n, refused)| RankedRoute {
            rank: one.rank.clone(),
            position: Position::new(rule, one.index * step + n),
            wording: one.wording,
            route: Arc::new(Route {
                name: names.of_refusal(rule, one.index, n),
                matches: asked_for(&one.matches, &refused.host),
                portion: None,
                effect: Arc::clone(&refused.effect),
            }),
        }));
    }
    routes
}

/// A match, where a header is a host besides.
fn asked_for(matches: &RouteMatch, host: &ValueMatch) -> RouteMatch {
    RouteMatch {
        headers: matches.headers.iter().chain([host]).cloned().collect(),
        ..matches.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(pattern: &str, text: &str) -> bool {
        // As proxies match: all of a text.
        let pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        pattern.is_match(text)
    }

    #[test]
    fn hosts_of_the_proxy_are_its_own_in_every_form() {
        for host in [
            "localhost",
            "LOCALHOST:19000",
            "localhost.",
            "a.localhost:80",
            "localhost.localdomain",
            "ip6-loopback",
            "127.0.0.1",
            "127.0.0.1:19000",
            "127.1",
            "127.0x0.1",
            "0.0.0.0",
            "0",
            "0177.0.0.1",
            "2130706433",
            "0x7f.1",
            "[::1]:19000",
            "[::]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:0:0]",
            "[::FFFF:7f00:1]:80",
        ] {
            assert!(is_own(OWN_HOSTS, host), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "notlocalhost",
            "10.0.0.1:80",
            "128.0.0.1",
            "0x7f.example.com",
            "[2001:db8::1]:443",
            "[fe80::1]",
            "127.example.com",
        ] {
            assert!(!is_own(OWN_HOSTS, host), "{host}");
        }
    }

    #[test]
    fn server_names_of_the_proxy_are_its_own_and_so_are_addresses() {
        for name in [
            "localhost",
            "a.LocalHost",
            "localhost.",
            "ip6-localhost",
            "127.1",
            "10.0.0.1",
            "::1",
            "0x7f000001",
        ] {
            assert!(is_own(OWN_NAMES, name), "{name}");
        }
        for name in [
            "www.example.com",
            "localhost.example.com",
            "1.example.com",
            "xlocalhost",
        ] {
            assert!(!is_own(OWN_NAMES, name), "{name}");
        }
    }
}
