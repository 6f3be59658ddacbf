//! Where the addresses of clients are: what databases tell of them, and what rules ask of that.

use crate::ClientAddress;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a database tells of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GeoFact {
    /// Its country, by two letters (ISO 3166-1).
    Country,
    /// Its region, by the code within the country (ISO 3166-2).
    Region,
    /// Its city, by the English name.
    City,
    /// The number of its autonomous system.
    System,
    /// Who provides the connection.
    Provider,
    /// Whether it hides who uses it, by any means.
    Anonymous,
    /// Whether it is of a virtual private network.
    Vpn,
    /// Whether it is of a hosting provider.
    Hosting,
    /// Whether Tor ends there.
    Tor,
    /// Whether it is a public proxy.
    Proxy,
}

impl GeoFact {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Country,
        Self::Region,
        Self::City,
        Self::System,
        Self::Provider,
        Self::Anonymous,
        Self::Vpn,
        Self::Hosting,
        Self::Tor,
        Self::Proxy,
    ];
}

/// A place that an address may be at: all of this holds of it.
pub type GeoConditions = Vec<GeoCondition>;

/// What must hold of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GeoCondition {
    /// A database tells this text of it, in whatever case.
    Told {
        /// What it tells.
        fact: GeoFact,
        /// The text.
        text: Arc<str>,
    },
    /// A database tells that it is so.
    Is(GeoFact),
    /// No database tells that it is so: they tell what is, and are silent of what isn't.
    IsNot(GeoFact),
}

impl GeoCondition {
    /// What a database must tell.
    pub fn fact(&self) -> GeoFact {
        match self {
            Self::Told { fact, .. } | Self::Is(fact) | Self::IsNot(fact) => *fact,
        }
    }
}

/// Files beside the proxy that tell of addresses (MaxMind's format, `.mmdb`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeoDatabases {
    /// Of cities and what they are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub city: Option<Arc<str>>,
    /// Of countries; those of cities tell of countries as well where this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<Arc<str>>,
    /// Of autonomous systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Arc<str>>,
    /// Of providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// Of addresses that hide who uses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymity: Option<Arc<str>>,
}

impl GeoDatabases {
    /// What they tell.
    pub fn facts(&self) -> impl Iterator<Item = GeoFact> {
        GeoFact::ALL.into_iter().filter(|fact| self.tell(*fact))
    }

    fn tell(&self, fact: GeoFact) -> bool {
        let database = match fact {
            GeoFact::Country => self.country.as_ref().or(self.city.as_ref()),
            GeoFact::Region | GeoFact::City => self.city.as_ref(),
            GeoFact::System => self.system.as_ref(),
            GeoFact::Provider => self.provider.as_ref(),
            GeoFact::Anonymous | GeoFact::Vpn | GeoFact::Hosting | GeoFact::Tor | GeoFact::Proxy => {
                self.anonymity.as_ref()
            }
        };
        database.is_some()
    }
}

/// Looks the addresses of clients up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeoLookup {
    /// Where.
    pub databases: Arc<GeoDatabases>,
    /// Which address is that of the client.
    pub address: ClientAddress,
}
