//! Which networks a stream may come from, as what chooses a filter chain.
//!
//! Why beside the filter: Envoy asks network filters for access when a client says something, and by then it has
//! connected to the backend, so that whoever is silent hears what a backend says first. A chain is chosen before that.

use edge_ir::{Access, AccessCondition, AccessRule, AccessRules, AddressRange};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// All addresses there are.
const EVERYWHERE: [AddressRange; 2] = [
    AddressRange {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        bits: 0,
    },
    AddressRange {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        bits: 0,
    },
];

/// The networks of those that rules let in and of those that they don't, which are all there are. What holds for an
/// address is said of the smallest network that it is in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    pub(super) allowed: Vec<AddressRange>,
    pub(super) denied: Vec<AddressRange>,
}

/// The networks of rules that look at nothing but addresses.
pub(super) fn networks(access: &AccessRules) -> Option<Networks> {
    // Networks hold each other or have nothing in common, so all addresses of a network that are in no smaller one meet
    // the same rules, of which the first decides.
    let mut first: BTreeMap<(IpAddr, u8), usize> = BTreeMap::new();
    for (index, rule) in access.rules.iter().enumerate() {
        for range in ranges(rule)? {
            first.entry(canonical(range)).or_insert(index);
        }
    }
    for range in &EVERYWHERE {
        first.entry(canonical(range)).or_insert(usize::MAX);
    }
    let decides = |rule: usize| access.rules.get(rule).map_or(access.otherwise, |rule| rule.access);
    let mut networks = Networks::default();
    // The networks that hold the one at hand, the largest first.
    let mut outer: Vec<(AddressRange, usize)> = Vec::new();
    for ((address, bits), rule) in first {
        while outer.last().is_some_and(|(range, _)| !range.contains(address)) {
            outer.pop();
        }
        let inherited = outer.last().map(|(_, rule)| *rule);
        let rule = inherited.map_or(rule, |inherited| inherited.min(rule));
        let range = AddressRange { address, bits };
        outer.push((range, rule));
        if inherited.map(decides) == Some(decides(rule)) {
            continue;
        }
        match decides(rule) {
            Access::Allow => networks.allowed.push(range),
            Access::Deny => networks.denied.push(range),
        }
    }
    Some(networks)
}

/// The networks that a rule is about; `None` for a rule about something else.
fn ranges(rule: &AccessRule) -> Option<&[AddressRange]> {
    match rule.conditions.as_slice() {
        [] => Some(&EVERYWHERE),
        [AccessCondition::Client(ranges)] => Some(ranges),
        _ => None,
    }
}

/// The first address of a network, and how many bits it has: one for all ways to write it.
fn canonical(range: &AddressRange) -> (IpAddr, u8) {
    match range.address {
        IpAddr::V4(address) => {
            let bits = range.bits.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (Ipv4Addr::from_bits(address.to_bits() & mask).into(), bits)
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            // Addresses of IPv4 are looked at as such, in whatever form they come.
            Some(mapped) if range.bits >= 96 => canonical(&AddressRange {
                address: mapped.into(),
                bits: range.bits - 96,
            }),
            _ => {
                let bits = range.bits.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                (Ipv6Addr::from_bits(address.to_bits() & mask).into(), bits)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn range(text: &str) -> AddressRange {
        let (address, bits) = text.split_once('/').unwrap();
        AddressRange {
            address: address.parse().unwrap(),
            bits: bits.parse().unwrap(),
        }
    }

    fn rules(rules: &[(Access, &[&str])], otherwise: Access) -> AccessRules {
        let rule = |(access, ranges): &(Access, &[&str])| AccessRule {
            access: *access,
            conditions: vec![AccessCondition::Client(ranges.iter().map(|text| range(text)).collect())],
        };
        AccessRules {
            rules: rules.iter().map(rule).collect(),
            otherwise,
        }
    }

    fn of(access: &AccessRules) -> [String; 2] {
        let networks = networks(access).unwrap();
        [networks.allowed, networks.denied].map(|list| {
            let texts: Vec<_> = list.iter().map(|r| format!("{}/{}", r.address, r.bits)).collect();
            texts.join(" ")
        })
    }

    #[test]
    fn the_first_rule_decides_within_each_network() {
        use Access::{Allow, Deny};
        for (list, otherwise, allowed, denied) in [
            (&[][..], Allow, "0.0.0.0/0 ::/0", ""),
            (&[], Deny, "", "0.0.0.0/0 ::/0"),
            (&[(Allow, &["10.0.0.0/8"][..])], Deny, "10.0.0.0/8", "0.0.0.0/0 ::/0"),
            (
                &[(Deny, &["10.0.0.7/32"]), (Allow, &["10.0.0.0/8", "2001:db8::5/32"])],
                Deny,
                "10.0.0.0/8 2001:db8::/32",
                "0.0.0.0/0 10.0.0.7/32 ::/0",
            ),
            // What comes later is met no more.
            (
                &[(Deny, &["10.0.0.0/8"]), (Allow, &["10.1.0.0/16"])],
                Allow,
                "0.0.0.0/0 ::/0",
                "10.0.0.0/8",
            ),
            (
                &[(Allow, &["10.1.0.0/16"]), (Deny, &["10.0.0.0/8", "10.1.2.0/24"])],
                Allow,
                "0.0.0.0/0 10.1.0.0/16 ::/0",
                "10.0.0.0/8",
            ),
            // One network, however it is written.
            (
                &[(Deny, &["::ffff:10.9.9.9/104"]), (Allow, &["10.0.0.0/8"])],
                Allow,
                "0.0.0.0/0 ::/0",
                "10.0.0.0/8",
            ),
            (&[(Allow, &["0.0.0.0/0"])], Deny, "0.0.0.0/0", "::/0"),
        ] {
            assert_eq!(of(&rules(list, otherwise)), [allowed, denied], "{list:?}");
        }
    }

    #[test]
    fn rules_about_something_else_are_left_to_the_filter() {
        let mut access = rules(&[(Access::Deny, &["10.0.0.0/8"])], Access::Allow);
        access.rules[0]
            .conditions
            .push(AccessCondition::Method(vec![Arc::from("GET")]));
        assert_eq!(networks(&access), None);
    }
}
