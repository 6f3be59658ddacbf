//! Rules over where clients are: what they ask of databases.

use super::{super::traffic::Problems, authorization::AREA};
use crate::api::security::place::{AnonymousAddress, ClientPlace};
use edge_ir::{Place, PlaceCondition, PlaceFact};

/// The places of a rule.
pub(super) fn places(i: usize, all: &[ClientPlace], problems: &mut Problems) -> Vec<Place> {
    if all.is_empty() {
        problems.add(AREA, format_args!("rule {i}: clientIPGeoLocations has no places"));
    }
    all.iter().map(|one| place(i, one, problems)).collect()
}

fn place(i: usize, spec: &ClientPlace, problems: &mut Problems) -> Place {
    let mut conditions = Vec::new();
    let texts = [
        (PlaceFact::Country, "country", &spec.country),
        (PlaceFact::Region, "region", &spec.region),
        (PlaceFact::City, "city", &spec.city),
        (PlaceFact::Provider, "isp", &spec.isp),
    ];
    for (fact, field, text) in texts {
        let Some(text) = text else { continue };
        if !is_named(fact, text) {
            problems.add(AREA, format_args!("rule {i}: {field} {text:?} is invalid"));
        }
        let text = problems.text(AREA, field, text);
        conditions.push(PlaceCondition::Told { fact, text });
    }
    if let Some(number) = spec.asn {
        if number == 0 {
            problems.add(AREA, format_args!("rule {i}: asn must be at least 1"));
        }
        conditions.push(PlaceCondition::Told {
            fact: PlaceFact::System,
            text: number.to_string().into(),
        });
    }
    if let Some(anonymous) = &spec.anonymous {
        hiding(i, anonymous, &mut conditions, problems);
    }
    if conditions.is_empty() && spec.anonymous.is_none() {
        problems.add(
            AREA,
            format_args!("rule {i}: at least one of country, region, city, asn, isp, or anonymous must be specified"),
        );
    }
    conditions
}

/// Whether a text may be what a database tells.
fn is_named(fact: PlaceFact, text: &str) -> bool {
    match fact {
        PlaceFact::Country => text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()),
        PlaceFact::Region => {
            let is_of_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=16).contains(&text.len()) && text.bytes().all(is_of_code)
        }
        _ => !text.is_empty(),
    }
}

fn hiding(i: usize, spec: &AnonymousAddress, conditions: &mut Vec<PlaceCondition>, problems: &mut Problems) {
    let before = conditions.len();
    let ways = [
        (PlaceFact::Anonymous, spec.is_anonymous),
        (PlaceFact::Vpn, spec.is_vpn),
        (PlaceFact::Hosting, spec.is_hosting),
        (PlaceFact::Tor, spec.is_tor),
        (PlaceFact::Proxy, spec.is_proxy),
    ];
    conditions.extend(ways.into_iter().filter_map(|(fact, is_so)| match is_so? {
        true => Some(PlaceCondition::Is(fact)),
        false => Some(PlaceCondition::IsNot(fact)),
    }));
    if conditions.len() == before {
        problems.add(
            AREA,
            format_args!(
                "rule {i}: at least one of isAnonymous, isVPN, isHosting, isTor, or isProxy must be specified"
            ),
        );
    }
}
