//! Which certificates are good, and when.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::CertificateValidationContext;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::chain::{Chain, Purpose};
use crate::compile::field::At;
use crate::compile::files::Disk;
use crate::compile::secret;

/// An authority, good for a hundred years, and what it has signed in version 1, as `openssl x509 -req` did.
const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBnzCCAUWgAwIBAgIUF4rwgNCmfWR2rVHU/jKqjuIFiOAwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRYXV0aG9yaXR5LmV4YW1wbGUwIBcNMjYxMTI2MTgxODExWhgP
MjEyNjExMDIxODE4MTFaMBwxGjAYBgNVBAMMEWF1dGhvcml0eS5leGFtcGxlMFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEBuCXuLmkpCL6dJrDPdlwvaak/XIjAbHX
y6Pn6Ab/2qGUhcx0Ct1RUY+xt6MeIABXgMq+32oexVKfJDzLNxl6ZKNjMGEwHQYD
VR0OBBYEFBMo1/lDuhtz0SJ56RPcnxD4/NUfMB8GA1UdIwQYMBaAFBMo1/lDuhtz
0SJ56RPcnxD4/NUfMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgEGMAoG
CCqGSM49BAMCA0gAMEUCIErH4BDn1CtWesRyODjTszUl8GskpTC1MoWWzZutZNQ9
AiEAutQx4W5LDmBfu4BtDligLg/+ZoQA8nDLJRJ9fqQAh6E=
-----END CERTIFICATE-----";
const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHjCBxQIBBzAKBggqhkjOPQQDAjAcMRowGAYDVQQDDBFhdXRob3JpdHkuZXhh
bXBsZTAgFw0yNjExMjYxODE4MTFaGA8yMTI2MTEwMjE4MTgxMVowGTEXMBUGA1UE
AwwOY2xpZW50LmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATU3q+r
ROuATPnD1K1vA6NiDehbqyfnWyUTKU1ldt/dJdzMAPsEy8b/ms0aUmqcYzEpgAd2
1Sscq1BdrJO+WQKZMAoGCCqGSM49BAMCA0gAMEUCIQDm/ZkUzCsRx/weEAJdu0XU
n/deegMbsyVm795nf7pGOwIgPxJYcehXmw4trwtYNFWHaDofA4P/Pdc34aN29qdN
Rew=
-----END CERTIFICATE-----";

/// Somebody who signs.
struct Signer {
    params: CertificateParams,
    key: KeyPair,
}

impl Signer {
    /// An authority whose key may sign certificates and lists.
    fn authority() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Self { params, key }
    }

    fn certificate(&self) -> Certificate {
        self.params.self_signed(&self.key).unwrap()
    }

    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::from_params(&self.params, &self.key)
    }

    /// A certificate of a peer, for any purpose.
    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(vec!["peer.example".to_owned()]).unwrap();
        change(&mut params);
        params.signed_by(&KeyPair::generate().unwrap(), &self.issuer()).unwrap()
    }

    /// A list of one serial number that is in force in these years.
    fn list(&self, serial: u64, (since, until): (i32, i32)) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(since, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer()).unwrap().pem().unwrap()
    }
}

fn inline(text: &str) -> DataSource {
    DataSource {
        specifier: Some(Specifier::InlineString(text.to_owned())),
        ..DataSource::default()
    }
}

/// What is trusted, and which lists are kept.
#[derive(Default)]
struct Trusted {
    authorities: String,
    lists: String,
    accepts_expired: bool,
}

impl Trusted {
    fn in_(authorities: &[String]) -> Self {
        Self {
            authorities: authorities.concat(),
            ..Self::default()
        }
    }

    fn chain(&self) -> Chain {
        let message = CertificateValidationContext {
            trusted_ca: Some(inline(&self.authorities)),
            crl: (!self.lists.is_empty()).then(|| inline(&self.lists)),
            allow_expired_certificate: self.accepts_expired,
            ..CertificateValidationContext::default()
        };
        let (validation, _) = secret::validation(&At::root(), &message, &Disk).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Chain::new(&provider, &[Arc::new(validation)]).unwrap()
    }

    /// In January of 2027.
    fn judges(&self, certificate: &CertificateDer<'_>, between: &[CertificateDer<'_>]) -> Result<(), Error> {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
        self.chain().verify(certificate, between, now, Purpose::Server)
    }

    fn takes(&self, certificate: &Certificate) -> bool {
        self.judges(certificate.der(), &[]).is_ok()
    }
}

#[test]
fn an_authority_that_is_out_of_date_is_trusted_no_more() {
    let expired = Signer::with(|params| params.not_after = date_time_ymd(2025, 1, 1));
    let leaf = expired.sign(|_| {});
    let mut trusted = Trusted::in_(&[expired.certificate().pem()]);
    assert!(!trusted.takes(&leaf));
    trusted.accepts_expired = true;
    assert!(trusted.takes(&leaf));
    // It was made again for its key.
    let mut renewed = expired.params.clone();
    renewed.not_after = date_time_ymd(2030, 1, 1);
    let renewed = renewed.self_signed(&expired.key).unwrap();
    for both in [
        [expired.certificate().pem(), renewed.pem()],
        [renewed.pem(), expired.certificate().pem()],
    ] {
        assert!(Trusted::in_(&both).takes(&leaf));
    }
}

#[test]
fn keys_that_are_not_for_certificates_sign_none() {
    let signs_nothing = |params: &mut CertificateParams| params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let authority = Signer::with(signs_nothing);
    assert!(!Trusted::in_(&[authority.certificate().pem()]).takes(&authority.sign(|_| {})));
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        let peer = Signer::with(|params| {
            params.is_ca = is_ca;
            params.key_usages.clear();
        });
        assert!(
            !Trusted::in_(&[peer.certificate().pem()]).takes(&peer.sign(|_| {})),
            "{:?}",
            peer.params.is_ca
        );
    }
    let root = Signer::authority();
    let near = Signer::with(|params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    assert!(Trusted::in_(&[near.certificate().pem()]).takes(&near.sign(|_| {})));
    let between = Signer::with(|params| params.distinguished_name.push(rcgen::DnType::CommonName, "between"));
    let certificate = between.params.signed_by(&between.key, &near.issuer()).unwrap();
    let judged =
        Trusted::in_(&[near.certificate().pem()]).judges(between.sign(|_| {}).der(), &[certificate.der().clone()]);
    assert!(judged.is_err(), "one too many stands between");
    let trusted = Trusted::in_(&[root.certificate().pem()]);
    for (usages, is_good) in [
        (vec![KeyUsagePurpose::KeyCertSign], true),
        (vec![], true),
        (vec![KeyUsagePurpose::DigitalSignature], false),
    ] {
        let between = Signer::with(|params| {
            params.distinguished_name.push(rcgen::DnType::CommonName, "between");
            params.key_usages = usages;
        });
        let certificate = between.params.signed_by(&between.key, &root.issuer()).unwrap();
        let judged = trusted.judges(between.sign(|_| {}).der(), &[certificate.der().clone()]);
        assert_eq!(judged.is_ok(), is_good, "{judged:?}");
    }
}

/// As in Envoy (X509_V_FLAG_PARTIAL_CHAIN): what `openssl req -x509` makes calls itself an authority.
#[test]
fn what_is_trusted_itself_needs_nobody_above() {
    let own = Signer::with(|params| params.key_usages.clear());
    let own = own.certificate();
    assert!(Trusted::in_(&[own.pem()]).takes(&own));
    let leaf = Signer::authority().sign(|_| {});
    assert!(Trusted::in_(&[leaf.pem()]).takes(&leaf));
    let old = Signer::authority().sign(|params| params.not_after = date_time_ymd(2025, 1, 1));
    assert!(!Trusted::in_(&[old.pem()]).takes(&old));
    assert!(!Trusted::in_(&[leaf.pem()]).takes(&old));
}

#[test]
fn a_certificate_is_good_for_what_it_says() {
    let authority = Signer::authority();
    let trusted = Trusted::in_(&[authority.certificate().pem()]);
    let with_key = |usage| authority.sign(|params| params.key_usages = vec![usage]);
    assert!(trusted.takes(&with_key(KeyUsagePurpose::DigitalSignature)));
    assert!(!trusted.takes(&with_key(KeyUsagePurpose::KeyEncipherment)));
    let with_purpose = |purpose| authority.sign(|params| params.extended_key_usages = vec![purpose]);
    assert!(trusted.takes(&with_purpose(ExtendedKeyUsagePurpose::ServerAuth)));
    assert!(!trusted.takes(&with_purpose(ExtendedKeyUsagePurpose::ClientAuth)));
    let pinned = with_purpose(ExtendedKeyUsagePurpose::ClientAuth);
    assert!(!Trusted::in_(&[pinned.pem()]).takes(&pinned));
}

#[test]
fn lists_hold_in_their_time_and_need_no_name() {
    let authority = Signer::authority();
    let leaf = |serial: u64| {
        authority.sign(|params| {
            params.serial_number = Some(SerialNumber::from(serial));
            params.subject_alt_names = vec![SanType::URI("spiffe://peer".try_into().unwrap())];
        })
    };
    let with = |years, accepts_expired| Trusted {
        authorities: authority.certificate().pem(),
        lists: authority.list(7, years),
        accepts_expired,
    };
    let current = with((2027, 2028), false);
    assert!(current.takes(&leaf(8)) && !current.takes(&leaf(7)));
    let (past, to_come) = ((2024, 2025), (2028, 2029));
    for years in [past, to_come] {
        assert!(!with(years, false).takes(&leaf(8)), "{years:?}");
        assert!(with(years, true).takes(&leaf(8)), "{years:?}");
        assert!(!with(years, true).takes(&leaf(7)), "{years:?}");
    }
    // A file without a list is none.
    let message = CertificateValidationContext {
        trusted_ca: Some(inline(&authority.certificate().pem())),
        crl: Some(inline("# to be written")),
        ..CertificateValidationContext::default()
    };
    let refused = secret::validation(&At::root(), &message, &Disk).unwrap_err();
    assert_eq!(refused.field, "crl");
    // Nobody says whether a certificate of somebody else was revoked.
    let other = Signer::authority();
    let mut both = with((2027, 2028), false);
    both.authorities += &other.certificate().pem();
    assert!(!both.takes(&other.sign(|_| {})));
}

#[test]
fn a_certificate_of_version_1_is_good_by_its_signature() {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let trusted = Trusted::in_(&[AUTHORITY.to_owned()]);
    trusted.judges(&der(OF_VERSION_1), &[]).unwrap();
    assert!(
        Trusted::in_(&[Signer::authority().certificate().pem()])
            .judges(&der(OF_VERSION_1), &[])
            .is_err()
    );
    let mut forged = der(OF_VERSION_1).to_vec();
    *forged.last_mut().unwrap() ^= 1;
    assert!(trusted.judges(&forged.into(), &[]).is_err());
}
