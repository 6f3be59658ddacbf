//! The certificate of one fleet's proxies on this machine.
//!
//! It names the fleet (a URI `edge-gateway:fleet/<fleet>`), and the xDS server gives its bearer nothing else. It lives
//! for a month and is renewed long before; its key lies in a folder that is the fleet's alone and goes with it.

use super::{
    AUTHORITY, CONTROLLER, Outcome, TlsFiles,
    authority::{Authority, Leaf},
    check::{self, LeafRequirements, Present},
    folder::write,
    set::SUCCESSOR,
    unusable,
};
use crate::{Error, error::describe};
use edge_ir::FleetKey;
use jiff::{Span, Timestamp};
use rcgen::SanType;
use std::{fs, os::unix::fs::DirBuilderExt as _, path::Path};
use x509_parser::extensions::GeneralName;

/// What a URI that names a fleet begins with.
pub const FLEET: &str = "edge-gateway:fleet/";
/// Days that a certificate holds.
const LIFETIME_DAYS: i64 = 30;
/// Seconds before its end at which it is renewed: 10 days, in which somebody may notice that it fails.
const RENEW_BEFORE: i64 = 10 * 86400;

/// Who a certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct FleetIdentity<'a> {
    /// The fleet.
    pub fleet: &'a FleetKey,
    /// Name of its proxies, as a host of the controller's namespace.
    pub name: &'a str,
    /// Namespace of the controller.
    pub namespace: &'a str,
}

/// Sees to it that `folder` holds a certificate of a fleet that is good now and for a while, signed by the authority
/// below `certificates`.
pub fn ensure_fleet(
    certificates: &Path,
    folder: &Path,
    identity: &FleetIdentity<'_>,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let host = format!("{}.{}", identity.name, identity.namespace);
    let uri = format!("{FLEET}{}", identity.fleet);
    let files = TlsFiles::within(folder);
    let there = |path| fs::read(path).unwrap_or_default();
    let (certificate, key) = (there(&files.certificate), there(&files.key));
    let trusted = there(&TlsFiles::below(certificates, CONTROLLER).authority);
    let present = Present {
        certificate: &certificate,
        key: &key,
        trusted: &trusted,
    };
    let wanted = LeafRequirements {
        names: &[GeneralName::DNSName(&host), GeneralName::URI(&uri)],
        renew_before: RENEW_BEFORE,
    };
    let Some(fault) = check::fault(&present, &wanted, now.as_second()) else {
        return Ok(Outcome::Kept);
    };
    let authority = authority(certificates, now)?;
    let failed = |error: rcgen::Error| unusable(folder, format!("can't make a certificate for {uri}: {error}"));
    let names = [
        SanType::DnsName(host.as_str().try_into().map_err(failed)?),
        SanType::URI(uri.as_str().try_into().map_err(failed)?),
    ];
    let leaf = Leaf {
        common_name: identity.name,
        names: &names,
        lifetime: Span::new().days(LIFETIME_DAYS),
    };
    let pair = authority.sign(&leaf, now).map_err(failed)?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unusable(folder, format!("can't be made: {}", describe(&error))))?;
    for (path, text) in [(&files.key, &pair.key), (&files.certificate, &pair.certificate)] {
        write(path, text.as_bytes(), "runtimeDir")?;
    }
    Ok(match certificate.is_empty() {
        true => Outcome::Made,
        false => Outcome::Renewed(fault.to_owned()),
    })
}

/// The authority that was made when the controller started. Read each time: it may have been renewed since.
fn authority(certificates: &Path, now: Timestamp) -> Result<Authority, Error> {
    let files = TlsFiles::below(certificates, AUTHORITY);
    let there = |path: &Path| fs::read(path).unwrap_or_default();
    let successor = there(&certificates.join(AUTHORITY).join(SUCCESSOR));
    let authority = Authority::read(&there(&files.certificate), &there(&files.key), &successor, now);
    authority.ok_or_else(|| {
        let remedy = "run `edgegateway certgen --local`, or start the controller again";
        unusable(
            &files.key,
            format!("no authority that could sign a proxy's certificate; {remedy}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{Existing, ensure};
    use std::os::unix::fs::PermissionsExt as _;

    const DAY: i64 = 86400;

    #[test]
    fn a_fleet_has_a_certificate_of_its_own_that_is_renewed_in_time() {
        let place = tempfile::tempdir().unwrap();
        let (certificates, folder) = (place.path().join("certs"), place.path().join("run/edge-ns-gw"));
        ensure(&certificates, "system", "cluster.local", Existing::Keep).unwrap();
        let fleet = FleetKey::from("ns/gw");
        let identity = FleetIdentity {
            fleet: &fleet,
            name: "edge-ns-gw",
            namespace: "system",
        };
        let now = Timestamp::now();
        let after = |days: i64| {
            let then = Timestamp::from_second(now.as_second() + days * DAY).unwrap();
            ensure_fleet(&certificates, &folder, &identity, then).unwrap()
        };
        assert_eq!(after(0), Outcome::Made);
        assert_eq!(after(18), Outcome::Kept);
        assert_eq!(after(21), Outcome::Renewed("it expires".into()));
        assert_eq!(after(21), Outcome::Kept);
        let early = "it isn't valid yet: it was made while the clock was ahead";
        assert_eq!(after(1), Outcome::Renewed(early.into()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("tls.key")), 0o600);
    }

    #[test]
    fn a_key_that_cannot_be_written_names_the_field_of_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let (certificates, folder) = (place.path().join("certs"), place.path().join("run"));
        ensure(&certificates, "system", "cluster.local", Existing::Keep).unwrap();
        // A folder is no file.
        fs::create_dir_all(folder.join("tls.key/in-the-way")).unwrap();
        let fleet = FleetKey::from("ns/gw");
        let identity = FleetIdentity {
            fleet: &fleet,
            name: "edge-ns-gw",
            namespace: "system",
        };
        let error = ensure_fleet(&certificates, &folder, &identity, Timestamp::now()).unwrap_err();
        assert!(error.to_string().contains("(runtimeDir)"), "{error}");
    }

    #[test]
    fn without_an_authority_the_file_is_named_and_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let fleet = FleetKey::from("ns/gw");
        let identity = FleetIdentity {
            fleet: &fleet,
            name: "edge-ns-gw",
            namespace: "system",
        };
        let error = ensure_fleet(place.path(), &place.path().join("run"), &identity, Timestamp::now()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("edge-gateway-ca/tls.key: no authority"), "{error}");
        assert!(error.contains("certgen --local"), "{error}");
    }
}
