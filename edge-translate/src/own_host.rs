//! Addresses and names that lead a proxy to itself, or to no host at all. Who writes routes and policies may not have
//! requests sent there: in a pod, loopback is the proxy's own, with its admin interface. On a machine somebody else may
//! be meant.
//!
//! A name that a resolver knows as such an address isn't found out here. Where clients name hosts, proxies judge what
//! they find ([`NamedHosts`]).

use crate::settings::Platform;
use edge_ir::NamedHosts;
use std::net::{IpAddr, Ipv4Addr};

/// Names of loopback: RFC 6761 §6.3 (and what is below it), and those that stand in files of hosts.
const NAMES: [&str; 4] = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

/// Who may answer clients that say themselves by whom.
pub(crate) fn named_hosts(platform: Platform) -> NamedHosts {
    match platform {
        Platform::Cluster => NamedHosts::Others,
        Platform::Host => NamedHosts::Any,
    }
}

/// What is wrong with sending requests to an address, said of it.
pub(crate) fn address_flaw(ip: IpAddr, platform: Platform) -> Option<&'static str> {
    if platform == Platform::Host {
        return None;
    }
    // An IPv4 address in the form of IPv6 leads where the address does (RFC 4291 §2.5.5.2).
    let ip = ip.to_canonical();
    let is_v4 = |is: fn(Ipv4Addr) -> bool| matches!(ip, IpAddr::V4(v4) if is(v4));
    if NamedHosts::Others.refused().iter().any(|range| range.contains(ip)) {
        Some("in the loopback range is only supported when using the Host infrastructure")
    } else if ip.is_multicast() || is_v4(|v4| v4.is_broadcast()) {
        Some("is no address of one host")
    } else {
        None
    }
}

/// What is wrong with sending requests to whom a name names, said of it.
pub(crate) fn name_flaw(name: &str, platform: Platform) -> Option<&'static str> {
    if platform == Platform::Host {
        return None;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_below = |parent: &str| name.strip_suffix(parent).is_some_and(|own| own.ends_with('.'));
    if NAMES.contains(&&*name) || NAMES[..2].iter().copied().any(is_below) {
        return Some("in the loopback range is only supported when using the Host infrastructure");
    }
    is_numeric(name.rsplit('.').next().unwrap_or_default()).then_some("is an IP address")
}

/// What is wrong with sending requests to a host, an address or a name.
pub(crate) fn host_flaw(host: &str, platform: Platform) -> Option<&'static str> {
    match host.parse() {
        Ok(ip) => address_flaw(ip, platform),
        Err(_) => name_flaw(host, platform),
    }
}

/// Whether a name that ends so is an address to resolvers (`inet_aton`: `127.1`, `0x7f.1`), for no name of DNS does.
fn is_numeric(label: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_decimal = !label.is_empty() && label.bytes().all(|digit| digit.is_ascii_digit());
    is_decimal || label.strip_prefix("0x").is_some_and(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_the_proxy_or_to_nobody_is_flawed_in_a_cluster() {
        for host in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "0.1.2.3",
            "::1",
            "::",
            "0:0:0:0:0:ffff:7f00:1",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "localhost",
            "LocalHost.",
            "a.localhost",
            "a.localhost.",
            "localhost.localdomain",
            "ip6-loopback",
            "127.1",
            "127.1.",
            "0x7f.1",
            "0x7F000001",
            "2130706433",
            "a.0x",
        ] {
            assert!(host_flaw(host, Platform::Cluster).is_some(), "{host}");
            assert_eq!(host_flaw(host, Platform::Host), None, "{host}");
        }
    }

    #[test]
    fn others_are_not() {
        for host in [
            "10.0.0.1",
            "1.0.0.0",
            "169.254.20.10",
            "fd00::1",
            "::ffff:10.0.0.1",
            "www.example.com",
            "localhost.example.com",
            "notlocalhost",
            "1.example.com",
            "www.example.com.",
            "0xz",
        ] {
            assert_eq!(host_flaw(host, Platform::Cluster), None, "{host}");
        }
    }
}
