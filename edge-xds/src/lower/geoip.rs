//! Where clients are: the filter that looks it up, and the headers between it and the rules that ask.
//!
//! The proxy has no other way from one to the other than headers of the request, and leaves one as it came where it
//! finds nothing to put there. So whatever a client sends under such a name is taken off before anything looks at the
//! request, and off it comes again before the request leaves: a backend that believed it would believe clients wherever
//! there is no such filter.

use super::{common::extension, manager::http_filter, mutation};
use edge_ir::{AppendsPeer, ClientAddress, GeoDatabases, GeoFact, GeoLookup, HeaderMutation, TextMatcher};
use envoy_types::pb::envoy::{
    config::core::v3::TypedExtensionConfig,
    extensions::{
        filters::{
            http::{
                geoip::v3::{
                    Geoip,
                    geoip::{CustomHeaderConfig, XffConfig},
                },
                header_mutation::v3::{HeaderMutation as Edits, Mutations},
            },
            network::http_connection_manager::v3::HttpFilter,
        },
        geoip_providers::{
            common::v3::{CommonGeoipProviderConfig, common_geoip_provider_config::GeolocationFieldKeys},
            maxmind::v3::MaxMindConfig,
        },
        http::early_header_mutation::header_mutation::v3::HeaderMutation as EarlyEdits,
    },
};
use std::sync::Arc;

/// What the names of all these headers begin with.
const PREFIX: &str = "x-edge-geoip-";

/// The header that says something of where a client is.
pub(super) fn header(fact: GeoFact) -> String {
    let word = match fact {
        GeoFact::Country => "country",
        GeoFact::Region => "region",
        GeoFact::City => "city",
        GeoFact::System => "asn",
        GeoFact::Provider => "isp",
        GeoFact::Anonymous => "anonymous",
        GeoFact::Vpn => "vpn",
        GeoFact::Hosting => "hosting",
        GeoFact::Tor => "tor",
        GeoFact::Proxy => "proxy",
    };
    format!("{PREFIX}{word}")
}

/// The filter that looks up all that the databases tell.
pub(super) fn lookup(lookup: &GeoLookup) -> Geoip {
    let (xff_config, custom_header_config) = address(&lookup.address);
    Geoip {
        xff_config,
        custom_header_config,
        provider: Some(provider(&lookup.databases)),
    }
}

/// Where the filter finds the address. Left to itself it takes that which the connection manager has found. That has
/// put the other end of the connection behind the others, unless it was told to leave the header alone.
fn address(address: &ClientAddress) -> (Option<XffConfig>, Option<CustomHeaderConfig>) {
    match address {
        ClientAddress::Connection | ClientAddress::Networks { .. } => (None, None),
        ClientAddress::Hops { proxies, append } => {
            let xff_num_trusted_hops = match append {
                AppendsPeer::Yes => *proxies,
                AppendsPeer::No => proxies.saturating_sub(1),
            };
            let config = XffConfig { xff_num_trusted_hops };
            ((xff_num_trusted_hops > 0).then_some(config), None)
        }
        ClientAddress::Header { name, .. } => {
            let header_name = name.to_string();
            (None, Some(CustomHeaderConfig { header_name }))
        }
    }
}

fn provider(databases: &GeoDatabases) -> TypedExtensionConfig {
    let path = |file: &Option<Arc<str>>| file.as_deref().unwrap_or_default().to_owned();
    let config = MaxMindConfig {
        city_db_path: path(&databases.city),
        asn_db_path: path(&databases.system),
        anon_db_path: path(&databases.anonymity),
        isp_db_path: path(&databases.provider),
        country_db_path: path(&databases.country),
        common_provider_config: Some(CommonGeoipProviderConfig {
            geo_field_keys: Some(keys(databases)),
            ..Default::default()
        }),
    };
    extension("envoy.geoip_providers.maxmind", config)
}

/// Headers for what the databases tell and for nothing else: a proxy ends where one asks for more.
fn keys(databases: &GeoDatabases) -> GeolocationFieldKeys {
    let mut keys = GeolocationFieldKeys::default();
    for fact in databases.facts() {
        let key = match fact {
            GeoFact::Country => &mut keys.country,
            GeoFact::Region => &mut keys.region,
            GeoFact::City => &mut keys.city,
            GeoFact::System => &mut keys.asn,
            GeoFact::Provider => &mut keys.isp,
            GeoFact::Anonymous => &mut keys.anon,
            GeoFact::Vpn => &mut keys.anon_vpn,
            GeoFact::Hosting => &mut keys.anon_hosting,
            GeoFact::Tor => &mut keys.anon_tor,
            GeoFact::Proxy => &mut keys.anon_proxy,
        };
        *key = header(fact);
    }
    keys
}

fn removal() -> [HeaderMutation; 1] {
    [HeaderMutation::RemoveMatching(TextMatcher::Prefix(PREFIX.into()))]
}

/// Takes off what clients send under such names, before anything else looks at the request.
pub(super) fn unheard() -> TypedExtensionConfig {
    let edits = EarlyEdits {
        mutations: mutation::lower(&removal()),
    };
    extension("envoy.http.early_header_mutation.header_mutation", edits)
}

/// Keeps from backends what was found.
pub(super) fn untold() -> HttpFilter {
    let edits = Edits {
        mutations: Some(Mutations {
            request_mutations: mutation::lower(&removal()),
            ..Default::default()
        }),
        ..Default::default()
    };
    http_filter("envoy.filters.http.header_mutation/geoip", edits)
}
