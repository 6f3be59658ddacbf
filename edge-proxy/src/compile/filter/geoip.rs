//! Geoip with MaxMindConfig → [`GeoIp`].

use std::path::Path;
use std::sync::{Arc, Weak};

use envoy_types::pb::envoy::extensions::filters::http::geoip::v3::Geoip;
use envoy_types::pb::envoy::extensions::filters::http::geoip::v3::geoip::{CustomHeaderConfig, XffConfig};
use envoy_types::pb::envoy::extensions::geoip_providers::common::v3::CommonGeoipProviderConfig;
use envoy_types::pb::envoy::extensions::geoip_providers::common::v3::common_geoip_provider_config::GeolocationFieldKeys;
use envoy_types::pb::envoy::extensions::geoip_providers::maxmind::v3::MaxMindConfig;
use envoy_types::pb::google::protobuf::Any;
use maxminddb::PathElement::{self, Index, Key};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::template::header_name;
use crate::config::filter::FilterKind;
use crate::config::filter::geoip::{ClientSource, Database, Fact, GeoIp, Lookup, Telling};

/// What is told of a client by one database: the key for it, and where in a record it is.
type FactPath<'k> = (&'k str, &'static [PathElement<'static>], Telling);

/// Who Apple's users are that hide their addresses.
const RELAY: Telling = Telling::Whether("iCloud Private Relay");

const ISO_CODE: &[PathElement<'_>] = &[Key("country"), Key("iso_code")];
const SYSTEM: &[PathElement<'_>] = &[Key("autonomous_system_number")];
const ORGANIZATION: &[PathElement<'_>] = &[Key("autonomous_system_organization")];

/// What is told as it is.
fn plain<'k>(key: &'k str, path: &'static [PathElement<'static>]) -> FactPath<'k> {
    (key, path, Telling::Plain)
}

/// A key, unless there is another database for it.
fn unless<'k>(path: &str, key: &'k str) -> &'k str {
    if path.is_empty() { key } else { "" }
}

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: Geoip = unpack(at, config)?;
    fields!(at, &message => Geoip { xff_config, custom_header_config, provider; ignore; refuse });
    let at_provider = at.field("provider");
    let provider = provider
        .as_ref()
        .and_then(|provider| provider.typed_config.as_ref())
        .ok_or_else(|| at_provider.error("is required"))?;
    Ok(FilterKind::GeoIp(GeoIp {
        client: client(at, xff_config.as_ref(), custom_header_config.as_ref())?,
        lookups: lookups(&at_provider, &unpack(&at_provider, provider)?, context)?,
    }))
}

fn client(
    at: &At<'_>,
    forwarded: Option<&XffConfig>,
    header: Option<&CustomHeaderConfig>,
) -> Result<ClientSource, Rejection> {
    match (forwarded, header) {
        (None, None) => Ok(ClientSource::Manager),
        (Some(XffConfig { xff_num_trusted_hops }), None) => Ok(ClientSource::Forwarded(*xff_num_trusted_hops as usize)),
        (None, Some(CustomHeaderConfig { header_name: name })) => {
            let at = at.field("custom_header_config");
            header_name(&at.field("header_name"), name).map(ClientSource::Header)
        }
        (Some(_), Some(_)) => Err(at.error("only one of xff_config and custom_header_config can be set")),
    }
}

fn lookups(at: &At<'_>, message: &MaxMindConfig, context: &mut Context) -> Result<Box<[Lookup]>, Rejection> {
    fields!(at, message => MaxMindConfig {
        city_db_path, asn_db_path, anon_db_path, isp_db_path, country_db_path, common_provider_config;
        ignore;
        refuse
    });
    let at_keys = at.field("common_provider_config");
    let keys = keys(&at_keys, common_provider_config.as_ref())?;
    let at_keys = at_keys.field("geo_field_keys");
    fields!(&at_keys, keys => GeolocationFieldKeys {
        country, city, region, asn, asn_org, anon, anon_vpn, anon_hosting, anon_tor, anon_proxy, isp,
        apple_private_relay;
        ignore;
        refuse
    });
    // As in Envoy: what has a database of its own isn't asked of another one that would tell it too.
    let (country_of_city, [asn_of_isp, asn_org_of_isp]) = (
        unless(country_db_path, country),
        [asn, asn_org].map(|key| unless(asn_db_path, key)),
    );
    let files: [(&str, &str, &[FactPath<'_>]); 5] = [
        (
            "city_db_path",
            city_db_path,
            &[
                plain(city, &[Key("city"), Key("names"), Key("en")]),
                plain(region, &[Key("subdivisions"), Index(0), Key("iso_code")]),
                plain(country_of_city, ISO_CODE),
            ],
        ),
        ("country_db_path", country_db_path, &[plain(country, ISO_CODE)]),
        (
            "asn_db_path",
            asn_db_path,
            &[plain(asn, SYSTEM), plain(asn_org, ORGANIZATION)],
        ),
        (
            "isp_db_path",
            isp_db_path,
            &[
                plain(isp, &[Key("isp")]),
                (apple_private_relay, &[Key("isp")], RELAY),
                plain(asn_of_isp, SYSTEM),
                plain(asn_org_of_isp, ORGANIZATION),
            ],
        ),
        (
            "anon_db_path",
            anon_db_path,
            &[
                plain(anon, &[Key("is_anonymous")]),
                plain(anon_vpn, &[Key("is_anonymous_vpn")]),
                plain(anon_hosting, &[Key("is_hosting_provider")]),
                plain(anon_tor, &[Key("is_tor_exit_node")]),
                plain(anon_proxy, &[Key("is_public_proxy")]),
            ],
        ),
    ];
    if files.iter().all(|(_, path, _)| path.is_empty()) {
        return Err(at.error("names no database"));
    }
    let used = files.iter().filter(|(_, path, _)| !path.is_empty());
    used.map(|(field, path, known)| {
        Ok(Lookup {
            database: database(&at.field(field), Path::new(path), context)?,
            facts: facts(&at_keys, known)?,
        })
    })
    .collect()
}

/// The keys: names of headers here.
fn keys<'m>(
    at: &At<'_>,
    message: Option<&'m CommonGeoipProviderConfig>,
) -> Result<&'m GeolocationFieldKeys, Rejection> {
    let message = message.ok_or_else(|| at.error("is required"))?;
    fields!(at, message => CommonGeoipProviderConfig { geo_field_keys; ignore; refuse geo_headers_to_add });
    geo_field_keys
        .as_ref()
        .ok_or_else(|| at.field("geo_field_keys").error("is required"))
}

fn facts(at: &At<'_>, known: &[FactPath<'_>]) -> Result<Box<[Fact]>, Rejection> {
    let wanted = known.iter().filter(|(key, ..)| !key.is_empty());
    wanted
        .map(|(key, path, telling)| {
            Ok(Fact {
                header: header_name(at, key)?,
                path,
                telling: *telling,
            })
        })
        .collect()
}

/// The database in a file: that which is in use already, or a new one.
fn database(at: &At<'_>, path: &Path, context: &mut Context) -> Result<Arc<Database>, Rejection> {
    if let Some(known) = context.databases.get(path).and_then(Weak::upgrade) {
        return Ok(known);
    }
    let content = context.files.read(path).map_err(|error| error.to_string());
    let database = content.and_then(|content| Database::new(path, content));
    let database = database.map_err(|error| {
        context.unusable.insert(path.to_owned());
        at.error(format!("cannot read {}: {error}", path.display()))
    });
    let database = Arc::new(database?);
    context.databases.retain(|_, database| database.strong_count() > 0);
    context.databases.insert(path.to_owned(), Arc::downgrade(&database));
    Ok(database)
}
