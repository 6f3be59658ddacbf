//! The databases of a fleet that tell where addresses are.

use crate::api::{
    EdgeProxy,
    edge_proxy::{GeoIpProviderType, GeoIpSource},
};
use edge_ir::GeoDatabases;
use std::sync::Arc;

/// The databases that an EdgeProxy names, or why there are none.
pub(crate) fn databases(proxy: Option<&EdgeProxy>) -> Result<GeoDatabases, String> {
    let Some(geo) = proxy.and_then(|proxy| proxy.spec.geo_ip.as_deref()) else {
        return Err(
            "authorization clientIPGeoLocations requires EdgeProxy.spec.geoIP.provider to be configured".to_owned(),
        );
    };
    if let GeoIpProviderType::Other(other) = &geo.provider.r#type {
        return Err(format!("unsupported geoIP provider type {other}"));
    }
    let Some(files) = geo.provider.max_mind.as_deref() else {
        return Err("EdgeProxy.spec.geoIP.provider: maxMind must be set when type is MaxMind".to_owned());
    };
    let databases = GeoDatabases {
        city: path(files.city_db_source.as_ref())?,
        country: path(files.country_db_source.as_ref())?,
        system: path(files.asn_db_source.as_ref())?,
        provider: path(files.isp_db_source.as_ref())?,
        anonymity: path(files.anonymous_ip_db_source.as_ref())?,
    };
    match databases == GeoDatabases::default() {
        true => Err(
            "EdgeProxy.spec.geoIP.provider.maxMind: at least one MaxMind database source must be specified".to_owned(),
        ),
        false => Ok(databases),
    }
}

/// Where a database is. A proxy refuses all of a listener for a name that ends otherwise.
fn path(source: Option<&GeoIpSource>) -> Result<Option<Arc<str>>, String> {
    let Some(source) = source else {
        return Ok(None);
    };
    let path = &*source.local.path;
    match path.ends_with(".mmdb") {
        true => Ok(Some(path.into())),
        false => Err(format!(
            "EdgeProxy.spec.geoIP.provider.maxMind: path {path:?} doesn't end in .mmdb"
        )),
    }
}
