//! Rules over where clients are, by databases beside the proxy.

use super::{Guarded, get};
use anyhow::Result;
use e2e::{mmdb::Database, stack::DataPlane};
use serde_json::json;
use std::fs;

/// Addresses: of a network in New Zealand, of one of a virtual private network there, of one in Australia, and of one
/// that no database knows. All are for documentation (RFC 5737).
const HERE: &str = "192.0.2.7";
const HIDDEN: &str = "192.0.2.200";
const ABROAD: &str = "198.51.100.1";
const NOWHERE: &str = "203.0.113.9";

pub(crate) fn rules_decide_by_where_clients_are(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let allow = |place: &str| {
        www.guard(&format!(
            "  authorization: {{ rules: [{{ action: Allow, principal: {{ clientIPGeoLocations: [{place}] }} }}] }}\n"
        ))
    };
    let from = |address: &'static str| [("x-forwarded-for", address)];

    // Nobody knows where anybody is.
    allow("{ country: NZ }")?;
    www.answers(&get(&from(HERE)), 500)?;
    www.is_refused_for("requires EdgeProxy.spec.geoIP.provider to be configured")?;

    www.knows_cities()?;
    www.finds_addresses("{ xForwardedFor: { numTrustedHops: 1 } }")?;
    www.answers(&get(&from(HERE)), 200)?;
    www.answers(&get(&from(ABROAD)), 403)?;
    www.answers(&get(&from(NOWHERE)), 403)?;

    // What a client says of itself counts for nothing, wherever the database is silent too, and no backend hears of it.
    let claims = |address: &'static str| {
        let said = [("x-edge-geoip-country", "NZ"), ("X-Edge-GeoIP-Region", "AUK")];
        [("x-forwarded-for", address), said[0], said[1]]
    };
    www.closes(&get(&claims(NOWHERE)), 403)?;
    www.closes(&get(&claims(ABROAD)), 403)?;
    for header in ["X-Edge-Geoip-Country", "X-Edge-Geoip-Region"] {
        assert_eq!(
            www.seen(&get(&claims(HERE)), header)?,
            None,
            "{header} reached the backend"
        );
    }

    // Another place, and a client that is denied says that it is elsewhere.
    allow("{ country: AU }")?;
    www.answers(&get(&from(ABROAD)), 200)?;
    www.answers(&get(&from(HERE)), 403)?;
    www.guard(
        "  authorization: { defaultAction: Allow, rules: [\n    \
         { action: Deny, principal: { clientIPGeoLocations: [{ country: nz, city: auckland }] } }] }\n",
    )?;
    www.answers(&get(&from(NOWHERE)), 200)?;
    let elsewhere = [("x-forwarded-for", HERE), ("x-edge-geoip-city", "Sydney")];
    www.closes(&get(&elsewhere), 403)?;

    // What no database tells closes the route, until one does.
    allow("{ country: NZ, anonymous: { isVPN: false } }")?;
    www.answers(&get(&from(NOWHERE)), 500)?;
    www.is_refused_for("anonymous requires EdgeProxy.spec.geoIP.provider.maxMind.anonymousIpDbSource")?;
    www.knows_networks()?;
    www.answers(&get(&from(HERE)), 200)?;
    www.answers(&get(&from(HIDDEN)), 403)?;

    // The address of a client is what a header says that only proxies in front can set.
    www.finds_addresses("{ customHeader: { name: x-real-ip } }")?;
    www.answers(&get(&[("x-real-ip", HERE)]), 200)?;
    www.answers(&get(&[("x-real-ip", HIDDEN), ("x-forwarded-for", HERE)]), 403)?;

    // A new database, as there is one every week.
    www.everybody_moves()?;
    www.answers(&get(&[("x-real-ip", ABROAD)]), 200)?;
    www.answers(&get(&[("x-real-ip", HERE)]), 403)?;
    www.open()
}

impl Guarded {
    /// Gives the proxy a database of cities.
    fn knows_cities(&self) -> Result<()> {
        let here = json!({
            "country": { "iso_code": "NZ" },
            "city": { "names": { "en": "Auckland" } },
        });
        let abroad = json!({ "country": { "iso_code": "AU" } });
        let cities = Database::new("GeoLite2-City").with("192.0.2.0/24", &here)?;
        self.write("city", &cities.with("198.51.100.0/24", &abroad)?)?;
        let class = fs::read_to_string(self.stack.site.watched().join("gateway.yaml"))?;
        let named = "parametersRef: { group: gateway.edge, kind: EdgeProxy, name: proxy, namespace: default }";
        self.knows(&["city"])?;
        self.stack.put(
            "gateway.yaml",
            &class.replacen("spec:\n", &format!("spec:\n  {named}\n"), 1),
        )
    }

    /// Puts another database of cities in the place of the one that is in use.
    fn everybody_moves(&self) -> Result<()> {
        let there = json!({ "country": { "iso_code": "NZ" } });
        self.write("city", &Database::new("GeoLite2-City").with("198.51.100.0/24", &there)?)
    }

    /// The same, with one of networks that hide who uses them.
    fn knows_networks(&self) -> Result<()> {
        let private = json!({ "is_anonymous": true, "is_anonymous_vpn": true });
        let networks = Database::new("GeoIP2-Anonymous-IP").with("192.0.2.128/25", &private)?;
        self.write("anonymousIp", &networks)?;
        self.knows(&["city", "anonymousIp"])
    }

    fn write(&self, name: &str, database: &Database) -> Result<()> {
        // In one step: proxies may look at any time.
        let (new, path) = (self.stack.site.path(&format!("{name}.new")), self.database(name));
        fs::write(&new, database.bytes()?)?;
        Ok(fs::rename(new, path)?)
    }

    fn database(&self, name: &str) -> std::path::PathBuf {
        self.stack.site.path(&format!("{name}.mmdb"))
    }

    fn knows(&self, names: &[&str]) -> Result<()> {
        let files = names.iter().map(|name| {
            let path = self.database(name);
            format!("        {name}DbSource: {{ local: {{ path: {} }} }}\n", path.display())
        });
        self.stack.put(
            "proxy.yaml",
            &format!(
                "apiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: proxy, namespace: default }}\n\
                 spec:\n  geoIP:\n    provider:\n      type: MaxMind\n      maxMind:\n{}",
                files.collect::<String>()
            ),
        )
    }

    /// Says where the addresses of clients are found.
    fn finds_addresses(&self, detection: &str) -> Result<()> {
        self.stack.put(
            "clients.yaml",
            &format!(
                "apiVersion: gateway.edge/v1alpha1\nkind: ClientTrafficPolicy\n\
                 metadata: {{ name: clients, namespace: default }}\nspec:\n  \
                 targetRefs: [{{ group: gateway.networking.k8s.io, kind: Gateway, name: quickstart }}]\n  \
                 clientIPDetection: {detection}\n"
            ),
        )
    }
}
