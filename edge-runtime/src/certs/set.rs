//! The certificates of an installation, wherever they are kept: what is there, what must be, and what follows.
//!
//! One authority signs all leaves. Its key is kept, so that a leaf can be renewed, and a proxy given one of its own,
//! without a change of what everybody trusts. When the authority itself is renewed, the one before stays trusted until
//! it expires: trust is widened before the first leaf changes, and nobody who follows the files refuses the other side
//! meanwhile. No I/O here: what is there comes in, what has to be written goes out.

use super::{
    AUTHORITY, CONTROLLER, OIDC_HMAC, PROXY, RATE_LIMIT,
    authority::{Authority, Leaf, Pair, long},
    check::{self, LeafRequirements, Present, RENEW_BEFORE},
};
use jiff::Timestamp;
use rcgen::SanType;
use std::{collections::BTreeMap, net::IpAddr};
use x509_parser::extensions::GeneralName;

/// Files of secrets: secret → file → content.
pub(super) type Contents = BTreeMap<&'static str, BTreeMap<&'static str, Vec<u8>>>;

/// All secrets, and the files that each has.
pub(super) const SECRETS: [(&str, &[&str]); 5] = [
    (AUTHORITY, &[CERTIFICATE, KEY, SUCCESSOR]),
    (CONTROLLER, &[CERTIFICATE, KEY, TRUSTED]),
    (PROXY, &[CERTIFICATE, KEY, TRUSTED]),
    (RATE_LIMIT, &[CERTIFICATE, KEY, TRUSTED]),
    (OIDC_HMAC, &[HMAC]),
];
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const TRUSTED: &str = "ca.crt";
/// The authority's certificate as the authority before it has signed it.
pub(super) const SUCCESSOR: &str = "successor.crt";
pub(super) const HMAC: &str = "hmac-secret";

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

/// What a set of certificates is for.
#[derive(Clone, Copy)]
pub(super) struct Purpose<'a> {
    pub(super) namespace: &'a str,
    pub(super) dns_domain: &'a str,
    /// Where the controller is reached beside its names in a cluster.
    pub(super) further_names: &'a [&'a str],
    pub(super) addresses: &'a [IpAddr],
    pub(super) existing: Existing,
    pub(super) now: Timestamp,
}

/// What has to be written: first what widens trust, then what relies on it.
pub(super) struct Renewal {
    pub(super) trust: Contents,
    pub(super) leaves: Contents,
    pub(super) outcome: Outcome,
}

/// Compares what is there with what must be. An error means that the system has no random numbers.
pub(super) fn renew(there: &Contents, purpose: &Purpose<'_>) -> Result<Renewal, rcgen::Error> {
    let mut renewal = Renewal {
        trust: Contents::new(),
        leaves: Contents::new(),
        outcome: Outcome::Kept,
    };
    // The key of cookies is no certificate.
    let mut certificates = SECRETS.iter().filter(|(secret, _)| *secret != OIDC_HMAC);
    let is_new = certificates.all(|(secret, _)| !there.contains_key(secret));
    let overwrites = purpose.existing == Existing::Overwrite;
    if overwrites || content(there, OIDC_HMAC, HMAC).is_empty() {
        put(&mut renewal.trust, OIDC_HMAC, HMAC, random()?.to_vec());
    }
    let own = |file| content(there, AUTHORITY, file);
    let known = Authority::read(own(CERTIFICATE), own(KEY), own(SUCCESSOR), purpose.now);
    let faults = faults(there, purpose, known.is_some());
    if faults.is_empty() {
        return Ok(renewal);
    }
    let authority = match known {
        Some(known) if !overwrites => known,
        before => {
            let new = Authority::make(before.as_ref(), purpose.now)?;
            let files = [
                (CERTIFICATE, &new.certificate),
                (KEY, &new.key()),
                (SUCCESSOR, &new.successor),
            ];
            for (file, text) in files {
                put(&mut renewal.trust, AUTHORITY, file, text.clone().into_bytes());
            }
            new
        }
    };
    trust(there, &authority, purpose.now, &mut renewal.trust);
    for (secret, _) in faults.iter().filter(|(secret, _)| *secret != AUTHORITY) {
        let Pair { certificate, key } = authority.sign(
            &Leaf {
                common_name: if *secret == CONTROLLER { "edge-gateway" } else { "*" },
                names: &subject_names(secret, purpose)?,
                lifetime: long(),
            },
            purpose.now,
        )?;
        put(&mut renewal.leaves, secret, CERTIFICATE, certificate.into_bytes());
        put(&mut renewal.leaves, secret, KEY, key.into_bytes());
    }
    let list: Vec<String> = faults
        .iter()
        .map(|(secret, fault)| format!("{secret} ({fault})"))
        .collect();
    renewal.outcome = match is_new || overwrites {
        true => Outcome::Made,
        false => Outcome::Renewed(list.join(", ")),
    };
    Ok(renewal)
}

/// Which secrets have to be made anew, and why.
fn faults(there: &Contents, purpose: &Purpose<'_>, can_sign: bool) -> Vec<(&'static str, &'static str)> {
    let overwrites = purpose.existing == Existing::Overwrite;
    let mut faults = Vec::new();
    if overwrites || !can_sign {
        faults.push((AUTHORITY, "its key is missing or another one, or it expires"));
    }
    for secret in [CONTROLLER, PROXY, RATE_LIMIT] {
        let names = dns_names(secret, purpose);
        let wanted = LeafRequirements {
            names: &names.iter().map(|name| GeneralName::DNSName(name)).collect::<Vec<_>>(),
            renew_before: RENEW_BEFORE,
        };
        let present = Present {
            certificate: content(there, secret, CERTIFICATE),
            key: content(there, secret, KEY),
            trusted: content(there, secret, TRUSTED),
        };
        match check::fault(&present, &wanted, purpose.now.as_second()) {
            _ if overwrites => faults.push((secret, "it was asked for")),
            Some(fault) => faults.push((secret, fault)),
            None => {}
        }
    }
    faults
}

/// Lets everybody trust our authority, and those that anybody trusted before.
fn trust(there: &Contents, authority: &Authority, now: Timestamp, out: &mut Contents) {
    let secrets = [CONTROLLER, PROXY, RATE_LIMIT];
    let before = secrets.iter().map(|secret| content(there, secret, TRUSTED));
    let own = authority.certificate.as_bytes();
    let trusted = check::still_valid([own].into_iter().chain(before), now.as_second());
    let text: String = trusted.iter().map(check::pem).collect();
    for secret in secrets {
        if content(there, secret, TRUSTED) != text.as_bytes() {
            put(out, secret, TRUSTED, text.clone().into_bytes());
        }
    }
}

fn dns_names(secret: &str, purpose: &Purpose<'_>) -> Vec<String> {
    let Purpose {
        namespace,
        dns_domain,
        further_names,
        ..
    } = purpose;
    if secret != CONTROLLER {
        return vec![format!("*.{namespace}")];
    }
    let mut names = vec![
        "edge-gateway".to_owned(),
        format!("edge-gateway.{namespace}"),
        format!("edge-gateway.{namespace}.svc"),
        format!("edge-gateway.{namespace}.svc.{dns_domain}"),
    ];
    names.extend(further_names.iter().map(|name| (*name).to_owned()));
    names
}

fn subject_names(secret: &str, purpose: &Purpose<'_>) -> Result<Vec<SanType>, rcgen::Error> {
    let names = dns_names(secret, purpose).into_iter();
    let mut names: Vec<SanType> = names
        .map(|name| Ok(SanType::DnsName(name.try_into()?)))
        .collect::<Result<_, rcgen::Error>>()?;
    if secret == CONTROLLER {
        names.extend(purpose.addresses.iter().copied().map(SanType::IpAddress));
    }
    Ok(names)
}

/// The content of a file; empty if there is none.
pub(super) fn content<'a>(contents: &'a Contents, secret: &str, file: &str) -> &'a [u8] {
    let found = contents.get(secret).and_then(|files| files.get(file));
    found.map_or(&[], Vec::as_slice)
}

fn put(contents: &mut Contents, secret: &'static str, file: &'static str, content: Vec<u8>) {
    contents.entry(secret).or_default().insert(file, content);
}

fn random() -> Result<[u8; 32], rcgen::Error> {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    match provider.secure_random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(rcgen::Error::RingUnspecified),
    }
}
