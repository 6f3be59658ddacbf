//! Where the proxies of this machine are reached.

use crate::state::AskedAddresses;
use edge_ir::{Infra, IpFamily};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    sync::Arc,
};

/// A process binds what the listeners say on every interface; loopback is the address that always works.
pub(super) fn loopback(family: IpFamily) -> impl Iterator<Item = IpAddr> {
    let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    both.into_iter().filter(move |ip| is_of(family, *ip))
}

/// What has become of the addresses that Gateways ask for: those of this machine are reached, in the fleet's families.
pub(super) fn asked(infra: &Infra) -> AskedAddresses {
    let mut of_gateways = AskedAddresses::default();
    for asked in &infra.addresses {
        let number = asked.parse().ok();
        match number.filter(|ip| is_of(infra.proxy.ip_family, *ip) && is_own(*ip)) {
            Some(ip) => drop(of_gateways.given.insert(Arc::clone(asked), ip)),
            None => drop(of_gateways.missing.insert(Arc::clone(asked), Arc::clone(asked))),
        }
    }
    of_gateways
}

fn is_of(family: IpFamily, ip: IpAddr) -> bool {
    match family {
        IpFamily::V4 => ip.is_ipv4(),
        IpFamily::V6 => ip.is_ipv6(),
        IpFamily::DualStack => true,
    }
}

/// Whether an address is one of this machine's: only then the system would send to it from itself. A socket for
/// datagrams that is connected sends nothing.
fn is_own(ip: IpAddr) -> bool {
    /// One of datagrams that are thrown away.
    const DISCARD: u16 = 9;
    let anywhere: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((anywhere, 0)).and_then(|socket| {
        socket.connect((ip, DISCARD))?;
        socket.local_addr()
    });
    // All of 127.0.0.0/8 is sent to from its first.
    ip.is_loopback() || from.is_ok_and(|from| from.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::sample;
    use edge_ir::ProxySettings;

    #[test]
    fn a_fleet_is_reached_in_its_families() {
        let of = |family| loopback(family).map(|ip| ip.to_string()).collect::<Vec<_>>();
        assert_eq!(of(IpFamily::V4), ["127.0.0.1"]);
        assert_eq!(of(IpFamily::V6), ["::1"]);
        assert_eq!(of(IpFamily::DualStack), ["127.0.0.1", "::1"]);
    }

    #[test]
    fn an_address_that_isnt_the_machines_is_missing() {
        let infra = Infra {
            addresses: [
                "127.0.0.1",
                "127.0.0.2",
                "192.0.2.9",
                "www.example.com",
                "0.0.0.0",
                "224.0.0.1",
                "255.255.255.255",
                "::1",
            ]
            .map(Arc::from)
            .into(),
            ..Infra::clone(&sample::infra("ns/gw", ProxySettings::default()))
        };
        let told = asked(&infra);
        let texts = |keys: Vec<&Arc<str>>| keys.into_iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(told.given.keys().collect()), ["127.0.0.1", "127.0.0.2"]);
        assert_eq!(
            texts(told.missing.values().collect()),
            [
                "0.0.0.0",
                "192.0.2.9",
                "224.0.0.1",
                "255.255.255.255",
                "::1",
                "www.example.com"
            ]
        );
    }
}
