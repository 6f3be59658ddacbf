//! Making the certificates of a machine.
//!
//! One authority signs all leaves. Its key is kept, for the owner alone, so that a leaf can be renewed without a change
//! of what everybody trusts. When the authority itself is renewed, the one before stays trusted until it expires: trust
//! is widened before the first leaf changes, and nobody who follows the files refuses the other side meanwhile. Subjects
//! of authority and leaves differ, because BoringSSL takes a leaf that is named like its issuer for self-signed.

use super::{AUTHORITY, CONTROLLER, OIDC_HMAC, PROXY, RATE_LIMIT, TlsFiles, check, unusable};
use crate::{Error, error::describe};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::CertificateDer;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new set was made.
    Made,
    /// The set can go on serving and stayed.
    Kept,
    /// Some had to be made anew; which and why.
    Renewed(String),
}

/// Makes the certificates below `folder`, unless they are all there, agree, don't expire soon, and may stay.
pub fn ensure(folder: &Path, namespace: &str, dns_domain: &str, existing: Existing) -> Result<Outcome, Error> {
    let now = Timestamp::now();
    let seconds = now.as_second();
    let client = format!("*.{namespace}");
    let tls = [(CONTROLLER, "edge-gateway"), (PROXY, &*client), (RATE_LIMIT, &*client)]
        .map(|(secret, name)| (secret, name, TlsFiles::below(folder, secret)));
    let is_new = tls
        .iter()
        .flat_map(|(.., files)| files.all())
        .all(|path| !path.exists());
    let hmac = folder.join(OIDC_HMAC).join("hmac-secret");
    if existing == Existing::Overwrite || !hmac.exists() {
        write(&hmac, &random_bytes(&hmac)?, Access::Owner)?;
    }
    let faults: Vec<(&str, &str)> = tls
        .iter()
        .filter_map(|(secret, name, files)| match existing {
            Existing::Overwrite => Some((*secret, "it was asked for")),
            Existing::Keep => Some((*secret, check::fault(files, name, seconds)?)),
        })
        .collect();
    if faults.is_empty() {
        return Ok(Outcome::Kept);
    }
    let set = Set {
        folder,
        namespace,
        dns_domain,
        today: now.to_zoned(TimeZone::UTC).date(),
        now: seconds,
    };
    let faulty: Vec<&str> = faults.iter().map(|(secret, _)| *secret).collect();
    make(&set, &faulty, existing).map_err(|problem| match problem {
        Problem::Rcgen(error) => unusable(folder, format!("can't make certificates: {error}")),
        Problem::File(error) => error,
    })?;
    if is_new || existing == Existing::Overwrite {
        return Ok(Outcome::Made);
    }
    let list: Vec<String> = faults
        .iter()
        .map(|(secret, fault)| format!("{secret} ({fault})"))
        .collect();
    Ok(Outcome::Renewed(list.join(", ")))
}

/// What a set of certificates is for.
struct Set<'a> {
    folder: &'a Path,
    namespace: &'a str,
    dns_domain: &'a str,
    today: Date,
    /// Seconds since the epoch.
    now: i64,
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

/// Signs what is faulty with the authority that is there, or everything with a new one.
fn make(set: &Set<'_>, faulty: &[&str], existing: Existing) -> Result<(), Problem> {
    let own = TlsFiles::below(set.folder, AUTHORITY);
    let known = match existing {
        Existing::Keep => check::authority(&own, set.now),
        Existing::Overwrite => None,
    };
    let mut authority = parameters("edge-gateway-ca", set.today);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let all = [CONTROLLER, PROXY, RATE_LIMIT];
    let (authority_key, secrets) = match known {
        Some(key) => (key, faulty),
        None => {
            let key = KeyPair::generate()?;
            let pem = authority.self_signed(&key)?.pem();
            write(&own.key, key.serialize_pem().as_bytes(), Access::Owner)?;
            write(&own.certificate, pem.as_bytes(), Access::Everyone)?;
            (key, &all[..])
        }
    };
    trust(set, &own, &all)?;
    sign(set, &Issuer::new(authority, authority_key), secrets)
}

/// Lets everybody trust our authority, and those that anybody trusted before.
fn trust(set: &Set<'_>, own: &TlsFiles, secrets: &[&str]) -> Result<(), Error> {
    let files = secrets.iter().map(|secret| TlsFiles::below(set.folder, secret));
    let files: Vec<TlsFiles> = files.collect();
    let before = files.iter().map(|files| &*files.authority);
    let trusted = check::still_valid([&*own.certificate].into_iter().chain(before), set.now);
    let pem: String = trusted.iter().map(pem).collect();
    for files in &files {
        if fs::read_to_string(&files.authority).ok().as_ref() != Some(&pem) {
            write(&files.authority, pem.as_bytes(), Access::Everyone)?;
        }
    }
    Ok(())
}

fn pem(certificate: &CertificateDer<'static>) -> String {
    let text = STANDARD.encode(certificate);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// Makes leaves and their keys.
fn sign(set: &Set<'_>, issuer: &Issuer<'_, KeyPair>, secrets: &[&str]) -> Result<(), Problem> {
    let Set {
        folder,
        namespace,
        dns_domain,
        today,
        ..
    } = *set;
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

    for secret in secrets {
        let files = TlsFiles::below(folder, secret);
        let (common_name, alternatives) = match *secret == CONTROLLER {
            true => ("edge-gateway", server_names.clone()),
            false => ("*", client_names.clone()),
        };
        let key = KeyPair::generate()?;
        let mut leaf = parameters(common_name, today);
        leaf.subject_alt_names = alternatives;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        leaf.use_authority_key_identifier_extension = true;
        let certificate = leaf.signed_by(&key, issuer)?;
        write(&files.certificate, certificate.pem().as_bytes(), Access::Everyone)?;
        write(&files.key, key.serialize_pem().as_bytes(), Access::Owner)?;
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
    use rustls_pki_types::pem::PemObject as _;
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
    fn a_complete_set_stays_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edge/tls.crt");
        make_in(folder.path(), Existing::Keep);
        let first = fs::read(&path).unwrap();
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
        assert_eq!(fs::read(&path).unwrap(), first);
        assert_eq!(make_in(folder.path(), Existing::Overwrite), Outcome::Made);
        assert_ne!(fs::read(&path).unwrap(), first);
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
    }

    #[test]
    fn a_leaf_is_renewed_without_a_change_of_trust() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        let read = |path: &str| fs::read(folder.path().join(path)).unwrap();
        let before = [
            "edge/ca.crt",
            "edge-gateway/ca.crt",
            "edge/tls.crt",
            "edge-gateway/tls.crt",
        ]
        .map(read);
        // The key of another one: the files don't agree.
        fs::copy(
            folder.path().join("edge/tls.key"),
            folder.path().join("edge-gateway/tls.key"),
        )
        .unwrap();
        let done = make_in(folder.path(), Existing::Keep);
        assert_eq!(done, Outcome::Renewed("edge-gateway (its key is another one)".into()));
        let after = [
            "edge/ca.crt",
            "edge-gateway/ca.crt",
            "edge/tls.crt",
            "edge-gateway/tls.crt",
        ]
        .map(read);
        assert_eq!(before[..3], after[..3]);
        assert_ne!(before[3], after[3]);
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
        let mode = fs::metadata(folder.path().join("edge-gateway-ca/tls.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "whoever has it can be anybody");
    }

    #[test]
    fn a_new_authority_is_trusted_beside_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        let old = check::all(&folder.path().join("edge/ca.crt"));
        fs::remove_file(folder.path().join("edge-gateway-ca/tls.key")).unwrap();
        assert_eq!(
            make_in(folder.path(), Existing::Keep),
            Outcome::Kept,
            "nothing needs it"
        );
        fs::remove_file(folder.path().join("edge-gateway/tls.key")).unwrap();
        assert!(matches!(make_in(folder.path(), Existing::Keep), Outcome::Renewed(_)));
        for secret in ["edge/ca.crt", "edge-gateway/ca.crt", "edge-rate-limit/ca.crt"] {
            let trusted = check::all(&folder.path().join(secret));
            assert_eq!(trusted.len(), 2);
            assert_eq!(trusted[1..], old);
        }
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
    }

    #[test]
    fn what_expires_or_is_for_others_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        let files = TlsFiles::below(folder.path(), CONTROLLER);
        let now = Timestamp::now().as_second();
        assert_eq!(check::fault(&files, "edge-gateway", now), None);
        assert_eq!(check::fault(&files, "elsewhere", now), Some("it is for other names"));
        let later = now + i64::from(LIFETIME_YEARS) * 365 * 86400 - 20 * 86400;
        assert_eq!(check::fault(&files, "edge-gateway", later), Some("it expires"));
        let done = ensure(folder.path(), "other", "cluster.local", Existing::Keep).unwrap();
        assert_eq!(
            done,
            Outcome::Renewed("edge (it is for other names), edge-rate-limit (it is for other names)".into())
        );
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
