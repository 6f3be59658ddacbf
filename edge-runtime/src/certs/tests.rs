//! What must hold of a set of certificates, wherever it is kept.

use super::{
    set::{self, CERTIFICATE, Contents, Existing, KEY, Outcome, Purpose, SECRETS, TRUSTED, content},
    *,
};
use jiff::Timestamp;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use std::{sync::Arc, time::Duration};

const DAY: i64 = 86400;

fn renew(there: &mut Contents, days: i64, existing: Existing) -> Outcome {
    let now = Timestamp::from_second(Timestamp::now().as_second() + days * DAY).unwrap();
    let purpose = Purpose {
        namespace: "system",
        dns_domain: "cluster.local",
        further_names: &[],
        addresses: &[],
        existing,
        now,
    };
    let renewal = set::renew(there, &purpose).unwrap();
    for contents in [renewal.trust, renewal.leaves] {
        for (secret, files) in contents {
            there.entry(secret).or_default().extend(files);
        }
    }
    renewal.outcome
}

/// Whether somebody with these authorities accepts the leaf of `secret`.
fn is_accepted(trusted: &[u8], contents: &Contents, secret: &str, name: &'static str, days: i64) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(trusted).flatten());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let chain = check::all(content(contents, secret, CERTIFICATE));
    let seconds = u64::try_from(Timestamp::now().as_second() + days * DAY).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let name = ServerName::try_from(name).unwrap();
    verifier
        .unwrap()
        .verify_server_cert(&chain[0], &chain[1..], &name, &[], now)
        .is_ok()
}

#[test]
fn a_set_is_kept_until_it_expires_and_is_renewed_before() {
    let mut there = Contents::new();
    assert_eq!(renew(&mut there, 0, Existing::Keep), Outcome::Made);
    assert_eq!(there.len(), SECRETS.len());
    assert_eq!(renew(&mut there, 0, Existing::Keep), Outcome::Kept);
    assert_eq!(renew(&mut there, 5 * 365 - 40, Existing::Keep), Outcome::Kept);
    let Outcome::Renewed(which) = renew(&mut there, 5 * 365 - 20, Existing::Keep) else {
        panic!("they expire")
    };
    assert!(
        which.contains("edge-gateway-ca") && which.contains("edge (it expires)"),
        "{which}"
    );
}

#[test]
fn in_a_rotation_nobody_has_to_learn_of_it_first() {
    let mut old = Contents::new();
    renew(&mut old, 0, Existing::Keep);
    let mut new = old.clone();
    renew(&mut new, 1, Existing::Overwrite);
    assert_ne!(content(&old, AUTHORITY, KEY), content(&new, AUTHORITY, KEY));
    let server = "edge-gateway.system.svc.cluster.local";
    for (what, trusting, showing) in [
        ("the old leaf to those who know of the new authority", &new, &old),
        ("the new leaf to those who don't yet", &old, &new),
        ("the new leaf", &new, &new),
    ] {
        let trusted = content(trusting, PROXY, TRUSTED);
        assert!(is_accepted(trusted, showing, CONTROLLER, server, 1), "{what}");
    }
    // Also to those who know of nothing but the new one, once the old one is gone.
    let alone = content(&new, AUTHORITY, CERTIFICATE);
    assert!(is_accepted(alone, &new, CONTROLLER, server, 1));
    assert!(!is_accepted(alone, &old, CONTROLLER, server, 1));
    let mut stranger = Contents::new();
    renew(&mut stranger, 0, Existing::Keep);
    assert!(!is_accepted(
        content(&new, PROXY, TRUSTED),
        &stranger,
        CONTROLLER,
        server,
        1
    ));
}

#[test]
fn an_authority_that_has_expired_is_trusted_no_more() {
    let mut there = Contents::new();
    renew(&mut there, 0, Existing::Keep);
    renew(&mut there, 100, Existing::Overwrite);
    let trusted = |there: &Contents| check::all(content(there, PROXY, TRUSTED)).len();
    assert_eq!(trusted(&there), 2);
    renew(&mut there, 5 * 365 + 10, Existing::Overwrite);
    assert_eq!(trusted(&there), 2, "the first one has gone");
}

#[test]
fn translation_finds_the_key_of_cookies_under_the_name_of_its_secret() {
    let secret = edge_translate::signing_secret(&"system".into(), Vec::new());
    assert_eq!(&*secret.key().name, OIDC_HMAC);
}
