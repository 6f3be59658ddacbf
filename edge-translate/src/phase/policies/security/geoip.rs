//! Rules over where clients are: what they ask of databases.

use super::{super::traffic::Problems, authorization::AREA};
use crate::api::security::geoip::{AnonymousAddress, ClientGeoLocation};
use edge_ir::{GeoCondition, GeoConditions, GeoFact};

/// The places of a rule.
pub(super) fn conditions(i: usize, all: &[ClientGeoLocation], problems: &mut Problems) -> Vec<GeoConditions> {
    if all.is_empty() {
        problems.add(AREA, format_args!("rule {i}: clientIPGeoLocations has no places"));
    }
    all.iter().map(|one| place(i, one, problems)).collect()
}

fn place(i: usize, spec: &ClientGeoLocation, problems: &mut Problems) -> GeoConditions {
    let mut conditions = Vec::new();
    let texts = [
        (GeoFact::Country, "country", &spec.country),
        (GeoFact::Region, "region", &spec.region),
        (GeoFact::City, "city", &spec.city),
        (GeoFact::Provider, "isp", &spec.isp),
    ];
    for (fact, field, text) in texts {
        let Some(text) = text else { continue };
        if !is_named(fact, text) {
            problems.add(AREA, format_args!("rule {i}: {field} {text:?} is invalid"));
        }
        let text = problems.text(AREA, field, text);
        conditions.push(GeoCondition::Told { fact, text });
    }
    if let Some(number) = spec.asn {
        if number == 0 {
            problems.add(AREA, format_args!("rule {i}: asn must be at least 1"));
        }
        conditions.push(GeoCondition::Told {
            fact: GeoFact::System,
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
fn is_named(fact: GeoFact, text: &str) -> bool {
    match fact {
        GeoFact::Country => text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()),
        GeoFact::Region => {
            let is_of_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=16).contains(&text.len()) && text.bytes().all(is_of_code)
        }
        _ => !text.is_empty(),
    }
}

fn hiding(i: usize, spec: &AnonymousAddress, conditions: &mut Vec<GeoCondition>, problems: &mut Problems) {
    let before = conditions.len();
    let ways = [
        (GeoFact::Anonymous, spec.is_anonymous),
        (GeoFact::Vpn, spec.is_vpn),
        (GeoFact::Hosting, spec.is_hosting),
        (GeoFact::Tor, spec.is_tor),
        (GeoFact::Proxy, spec.is_proxy),
    ];
    conditions.extend(ways.into_iter().filter_map(|(fact, is_so)| match is_so? {
        true => Some(GeoCondition::Is(fact)),
        false => Some(GeoCondition::IsNot(fact)),
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
