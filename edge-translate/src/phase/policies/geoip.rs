//! Whether it can be told where the clients of a listener are: what the databases of the fleet tell, and whether the
//! listener's policy says which address is a client's.

use super::client::Detection;
use crate::{
    engine::reader::Reader,
    name::Id,
    phase::{
        gateways::{gateway::Gateway, geoip},
        listeners::fleet::ListenerState,
    },
};
use edge_ir::{ClientAddress, GeoFact};
use std::sync::Arc;

/// What the databases of a fleet tell, or why there are none.
pub(crate) type Known = Result<Arc<[GeoFact]>, Arc<str>>;

/// What is known of where the clients of a listener are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GeoAvailability {
    known: Known,
    found: Found,
}

/// How the address of a client is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nobody says.
    Unsaid,
    /// By something that the lookup can go by, too.
    Said,
    /// By the networks of proxies in front.
    ByNetworks,
}

/// What the databases of a Gateway's fleet tell.
pub(super) fn known(reader: &Reader<'_>, gateway: Id) -> Known {
    let member = reader.gateway(gateway).map(|gateway| &**gateway);
    let proxy = match member {
        Some(Gateway::Member(member)) => member.proxy.as_deref(),
        Some(Gateway::Foreign) | None => None,
    };
    match geoip::databases(proxy) {
        Ok(databases) => Ok(databases.facts().collect()),
        Err(why) => Err(why.into()),
    }
}

impl GeoAvailability {
    /// Those of the clients of a listener.
    pub(super) fn of(known: &Known, listener: &ListenerState) -> Self {
        let detection = listener.governed.as_ref().map(|governed| governed.detection);
        let found = match (detection.unwrap_or_default(), &listener.traffic.http.address) {
            (Detection::Unsaid, _) => Found::Unsaid,
            (Detection::Said, ClientAddress::Networks { .. }) => Found::ByNetworks,
            (Detection::Said, _) => Found::Said,
        };
        Self {
            known: known.clone(),
            found,
        }
    }

    /// Why what rules ask can't be told, a sentence for each reason; none where it can.
    pub(super) fn fault(&self, asked: &[GeoFact]) -> Option<Arc<str>> {
        if asked.is_empty() {
            return None;
        }
        let of_address = match self.found {
            Found::Said => None,
            Found::Unsaid => Some(
                "authorization clientIPGeoLocations requires ClientTrafficPolicy.spec.clientIPDetection to be configured",
            ),
            Found::ByNetworks => {
                Some("authorization clientIPGeoLocations does not support ClientIPDetection.XForwardedFor.TrustedCIDRs")
            }
        };
        let of_databases = match &self.known {
            Err(why) => vec![why.to_string()],
            Ok(known) => missing(asked, known),
        };
        let reasons = of_address.map(str::to_owned).into_iter().chain(of_databases);
        let sentences: Vec<String> = reasons.map(|why| format!("Authorization: {why}.")).collect();
        (!sentences.is_empty()).then(|| sentences.join("\n").into())
    }
}

/// What is asked and not told, with the database that would tell it.
fn missing(asked: &[GeoFact], known: &[GeoFact]) -> Vec<String> {
    let missing = asked.iter().filter(|fact| !known.contains(fact));
    let mut reasons: Vec<String> = missing
        .map(|fact| {
            let (field, database) = match fact {
                GeoFact::Country => ("country", "countryDbSource or cityDbSource"),
                GeoFact::Region => ("region", "cityDbSource"),
                GeoFact::City => ("city", "cityDbSource"),
                GeoFact::System => ("asn", "asnDbSource"),
                GeoFact::Provider => ("isp", "ispDbSource"),
                GeoFact::Anonymous | GeoFact::Vpn | GeoFact::Hosting | GeoFact::Tor | GeoFact::Proxy => {
                    ("anonymous", "anonymousIpDbSource")
                }
            };
            format!(
                "authorization clientIPGeoLocations.{field} requires EdgeProxy.spec.geoIP.provider.maxMind.{database}"
            )
        })
        .collect();
    reasons.dedup();
    reasons
}
