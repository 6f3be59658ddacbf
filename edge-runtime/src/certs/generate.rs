//! Making the certificates of a machine.
//!
//! One authority signs all leaves and is forgotten at once: whoever wants a new leaf makes a new set. Subjects of
//! authority and leaves differ, because BoringSSL takes a leaf that is named like its issuer for self-signed.

use super::{CONTROLLER, OIDC_HMAC, PROXY, RATE_LIMIT, TlsFiles, unusable};
use crate::{Error, error::describe};
use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::{
    fs,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Years that a certificate holds.
const LIFETIME_YEARS: i16 = 5;

/// What to do with certificates that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They stay.
    Keep,
    /// They are replaced.
    Overwrite,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new set was made.
    Made,
    /// The set was complete and stayed.
    Kept,
    /// Some files were missing. What is left is signed by an authority whose key is gone, so all were made anew.
    Completed,
}

/// Makes the certificates below `folder`, unless they are all there and may stay.
pub fn ensure(folder: &Path, namespace: &str, dns_domain: &str, existing: Existing) -> Result<Outcome, Error> {
    let tls = [CONTROLLER, PROXY, RATE_LIMIT].map(|secret| TlsFiles::below(folder, secret));
    let present = tls.iter().flat_map(TlsFiles::all).filter(|path| path.exists()).count();
    let hmac = folder.join(OIDC_HMAC).join("hmac-secret");
    if existing == Existing::Overwrite || !hmac.exists() {
        write(&hmac, &random_bytes(&hmac)?, Access::Owner)?;
    }
    if existing == Existing::Keep && present == tls.len() * 3 {
        return Ok(Outcome::Kept);
    }
    make(&tls, namespace, dns_domain).map_err(|problem| match problem {
        Problem::Rcgen(error) => unusable(folder, format!("can't make certificates: {error}")),
        Problem::File(error) => error,
    })?;
    let incomplete = existing == Existing::Keep && present > 0;
    Ok(if incomplete { Outcome::Completed } else { Outcome::Made })
}

enum Problem {
    Rcgen(rcgen::Error),
    File(Error),
}

impl From<rcgen::Error> for Problem {
    fn from(error: rcgen::Error) -> Self {
        Self::Rcgen(error)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

fn make([controller, proxy, rate_limit]: &[TlsFiles; 3], namespace: &str, dns_domain: &str) -> Result<(), Problem> {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let mut authority = parameters("edge-gateway-ca", today);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut server_names = names(&[
        "edge-gateway",
        "localhost",
        &format!("edge-gateway.{namespace}"),
        &format!("edge-gateway.{namespace}.svc"),
        &format!("edge-gateway.{namespace}.svc.{dns_domain}"),
    ])?;
    server_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    server_names.push(SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    let client_names = names(&[&format!("*.{namespace}")])?;

    for (files, common_name, alternatives) in [
        (controller, "edge-gateway", server_names),
        (proxy, "*", client_names.clone()),
        (rate_limit, "*", client_names),
    ] {
        let key = KeyPair::generate()?;
        let mut leaf = parameters(common_name, today);
        leaf.subject_alt_names = alternatives;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        leaf.use_authority_key_identifier_extension = true;
        let certificate = leaf.signed_by(&key, &issuer)?;
        write(&files.certificate, certificate.pem().as_bytes(), Access::Everyone)?;
        write(&files.key, key.serialize_pem().as_bytes(), Access::Owner)?;
        write(&files.authority, authority_pem.as_bytes(), Access::Everyone)?;
    }
    Ok(())
}

fn parameters(common_name: &str, today: Date) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    // A day of slack in front for clocks that are late.
    let from = today.saturating_sub(Span::new().days(1));
    let until = today.saturating_add(Span::new().years(LIFETIME_YEARS));
    let part = |number: i8| u8::try_from(number).unwrap_or(1);
    let date = |day: Date| rcgen::date_time_ymd(i32::from(day.year()), part(day.month()), part(day.day()));
    parameters.not_before = date(from);
    parameters.not_after = date(until);
    parameters
}

fn names(list: &[&str]) -> Result<Vec<SanType>, rcgen::Error> {
    list.iter()
        .map(|name| Ok(SanType::DnsName((*name).try_into()?)))
        .collect()
}

fn random_bytes(path: &Path) -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    match provider.secure_random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(unusable(path, "the system has no random numbers to make a key of")),
    }
}

#[derive(Clone, Copy)]
enum Access {
    Owner,
    Everyone,
}

/// Writes a file in one step, so that a process that follows it never reads half of it.
fn write(path: &Path, content: &[u8], access: Access) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    let partial = path.with_extension("partial");
    let mode = match access {
        Access::Owner => 0o600,
        Access::Everyone => 0o644,
    };
    let written = fs::create_dir_all(folder).and_then(|()| replace(&partial, path, content, mode));
    written.map_err(|source: io::Error| {
        unusable(
            path,
            format!(
                "can't write: {}; choose a writable folder for certificates (configHome)",
                describe(&source)
            ),
        )
    })
}

fn replace(partial: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // A leftover of an interrupted run would keep its own mode.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(partial)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::{CertificateDer, pem::PemObject as _};
    use std::os::unix::fs::PermissionsExt as _;
    use x509_parser::{
        extensions::GeneralName,
        prelude::{FromDer as _, X509Certificate},
    };

    fn make_in(folder: &Path, existing: Existing) -> Outcome {
        ensure(folder, "edge-gateway-system", "cluster.local", existing).unwrap()
    }

    #[test]
    fn leaves_are_named_apart_from_their_authority_and_for_their_use() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Made);
        let files = TlsFiles::below(folder.path(), CONTROLLER);
        let der = CertificateDer::from_pem_file(&files.certificate).unwrap();
        let (_, leaf) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(leaf.subject().to_string(), "CN=edge-gateway");
        assert_ne!(leaf.subject(), leaf.issuer());
        let names = leaf
            .subject_alternative_name()
            .unwrap()
            .unwrap()
            .value
            .general_names
            .clone();
        for wanted in [
            "edge-gateway",
            "localhost",
            "edge-gateway.edge-gateway-system.svc.cluster.local",
        ] {
            assert!(
                names.contains(&GeneralName::DNSName(wanted)),
                "{wanted} is missing in {names:?}"
            );
        }
        let years = leaf.validity().not_after.timestamp() - leaf.validity().not_before.timestamp();
        assert!(
            (5 * 365..=5 * 365 + 3).contains(&(years / 86400)),
            "{}",
            leaf.validity().not_after
        );
    }

    #[test]
    fn keys_are_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        for path in [
            "edge-gateway/tls.key",
            "edge/tls.key",
            "edge-rate-limit/tls.key",
            "edge-oidc-hmac/hmac-secret",
        ] {
            let mode = fs::metadata(folder.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{path}");
        }
        assert_eq!(
            fs::metadata(folder.path().join("edge-oidc-hmac/hmac-secret"))
                .unwrap()
                .len(),
            32
        );
    }

    #[test]
    fn a_complete_set_stays_unless_asked_and_a_broken_one_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edge/tls.crt");
        make_in(folder.path(), Existing::Keep);
        let first = fs::read(&path).unwrap();
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
        assert_eq!(fs::read(&path).unwrap(), first);
        assert_eq!(make_in(folder.path(), Existing::Overwrite), Outcome::Made);
        assert_ne!(fs::read(&path).unwrap(), first);
        fs::remove_file(folder.path().join("edge-gateway/tls.key")).unwrap();
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Completed);
        let authorities = ["edge-gateway/ca.crt", "edge/ca.crt"].map(|p| fs::read(folder.path().join(p)).unwrap());
        assert_eq!(authorities[0], authorities[1]);
    }

    #[test]
    fn a_folder_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("certs"), "").unwrap();
        let error = ensure(&folder.path().join("certs"), "ns", "d", Existing::Keep)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("certs/edge-oidc-hmac/hmac-secret: can't write"),
            "{error}"
        );
    }
}
