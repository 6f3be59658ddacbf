//! Certificates with their keys.

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;

use super::*;
use crate::compile::files::Disk;

/// Version 1, as `openssl x509 -req` makes it without extensions; good for a hundred years, trusted by nobody.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJTCBzQIURMRbkpTcU/0AghjsyaS8mXIUZnYwCgYIKoZIzj0EAwIwFTETMBEG
A1UEAwwKdjEuZXhhbXBsZTAgFw0yNjExMjIwMjU1MzJaGA8yMTI2MTAyOTAyNTUz
MlowFTETMBEGA1UEAwwKdjEuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABGRSzzvHhPbiKbnxIf8yK20Kal7qOcaXdE8o8vB7C152Jzk0yISs7dU6t0aS
+Jnh+Vj3ep2/eCswB5i1ivtNnlgwCgYIKoZIzj0EAwIDRwAwRAIgVs/TyNb/VMEZ
M7dsBRz4HRj5OKeJOQRciXobj/V30okCIHH8ikpTCAHfAqtYVTnx8zSezwH8r7mq
bs3VIVRrX4Gl
-----END CERTIFICATE-----";

const KEY_OF_VERSION_1: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4O2cV5f6/yKXxX8A
IMyCH7feOuq8sAr/qrnEu+1lVDyhRANCAARkUs87x4T24im58SH/MittCmpe6jnG
l3RPKPLwewtedic5NMiErO3VOrdGkviZ4flY93qdv3grMAeYtYr7TZ5Y
-----END PRIVATE KEY-----";

fn compile(chain: &str, key: &str) -> Result<Arc<CertifiedKey>, String> {
    let inline = |text: &str| {
        Some(DataSource {
            specifier: Some(Specifier::InlineString(text.to_owned())),
            ..DataSource::default()
        })
    };
    let message = TlsCertificate {
        certificate_chain: inline(chain),
        private_key: inline(key),
        ..TlsCertificate::default()
    };
    let compiled = certified_key(&At::root(), &message, &Disk);
    compiled
        .map(|(certified, _)| certified)
        .map_err(|error| error.to_string())
}

#[test]
fn a_certificate_of_version_1_is_taken_with_its_key() {
    let certified = compile(VERSION_1, KEY_OF_VERSION_1).expect("a certificate");
    assert_eq!(certified.cert.len(), 1);
}

#[test]
fn keys_of_every_kind_are_compared_with_their_certificate() {
    let made = |algorithm| {
        let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("parameters");
        (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
    };
    let (p256, p384, edwards) = (
        made(&rcgen::PKCS_ECDSA_P256_SHA256),
        made(&rcgen::PKCS_ECDSA_P384_SHA384),
        made(&rcgen::PKCS_ED25519),
    );
    for (chain, key) in [&p256, &p384, &edwards] {
        assert!(compile(chain, key).is_ok());
    }
    let other = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    for (chain, key) in [
        (&*p256.0, &*other.1),
        (&*p256.0, &*edwards.1),
        (VERSION_1, &*p256.1),
        (&*p256.0, KEY_OF_VERSION_1),
    ] {
        let error = compile(chain, key).expect_err("another key");
        assert_eq!(
            error,
            "private_key: does not belong to the certificate: their public keys differ"
        );
    }
}

#[test]
fn what_is_no_certificate_is_said() {
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
    let error = compile(broken, KEY_OF_VERSION_1).expect_err("no certificate");
    assert!(
        error.starts_with("certificate_chain: its first certificate can't be read"),
        "{error}"
    );
    let error = compile("", KEY_OF_VERSION_1).expect_err("no certificate");
    assert_eq!(error, "certificate_chain: holds no certificate");
}

#[test]
fn an_empty_generic_secret_is_refused() {
    let compile = |text: &str| {
        let generic = GenericSecret {
            secret: Some(DataSource {
                specifier: Some(Specifier::InlineString(text.to_owned())),
                ..DataSource::default()
            }),
            ..GenericSecret::default()
        };
        let message = ProtoSecret {
            r#type: Some(Type::GenericSecret(generic)),
            ..ProtoSecret::default()
        };
        secret(&Disk, &message).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(compile("a token\n"), Ok(()));
    for text in ["", "\n", " \t"] {
        assert_eq!(
            compile(text),
            Err("generic_secret.secret: is empty".to_owned()),
            "{text:?}"
        );
    }
}
