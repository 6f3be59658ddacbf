//! The certificates of a machine: one sub-folder a secret.

use super::{
    Existing, Outcome,
    set::{self, Contents, Purpose, SECRETS},
    unusable,
};
use crate::{Error, error::describe, files::replace};
use jiff::Timestamp;
use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
};

/// Makes the certificates below `folder`, unless they are all there, agree, don't expire soon, and may stay.
pub fn ensure(folder: &Path, namespace: &str, dns_domain: &str, existing: Existing) -> Result<Outcome, Error> {
    let purpose = Purpose {
        namespace,
        dns_domain,
        further_names: &["localhost"],
        addresses: &[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        existing,
        now: Timestamp::now(),
    };
    let renewal = set::renew(&read(folder), &purpose)
        .map_err(|error| unusable(folder, format!("can't make certificates: {error}")))?;
    for contents in [&renewal.trust, &renewal.leaves] {
        for (secret, files) in contents {
            for (file, content) in files {
                write(&folder.join(secret).join(file), content, "configHome")?;
            }
        }
    }
    Ok(renewal.outcome)
}

/// What is there. What can't be read counts as missing: writing it anew will say why.
fn read(folder: &Path) -> Contents {
    let mut contents = Contents::new();
    for (secret, files) in SECRETS {
        for file in files {
            if let Ok(content) = fs::read(folder.join(secret).join(file)) {
                contents.entry(secret).or_default().insert(file, content);
            }
        }
    }
    contents
}

/// Writes a file in one step, so that a process that follows it never reads half of it. What isn't a certificate is for
/// the owner alone. The field says where it lies, for messages.
pub(super) fn write(path: &Path, content: &[u8], field: &str) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    let mode = match path.extension().is_some_and(|extension| extension == "crt") {
        true => 0o644,
        false => 0o600,
    };
    let written = fs::create_dir_all(folder).and_then(|()| replace(path, content, mode));
    written.map_err(|source: io::Error| {
        unusable(
            path,
            format!(
                "can't write: {}; choose a writable folder for certificates ({field})",
                describe(&source)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{AUTHORITY, CONTROLLER, TlsFiles, check};
    use rustls_pki_types::{CertificateDer, pem::PemObject as _};
    use std::os::unix::fs::PermissionsExt as _;
    use x509_parser::{
        extensions::GeneralName,
        prelude::{FromDer as _, X509Certificate},
    };

    fn make_in(folder: &Path, existing: Existing) -> Outcome {
        ensure(folder, "edge-gateway-system", "cluster.local", existing).unwrap()
    }

    fn trusted(folder: &Path, secret: &str) -> Vec<CertificateDer<'static>> {
        check::all(&fs::read(TlsFiles::below(folder, secret).authority).unwrap())
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
        let names = leaf.subject_alternative_name().unwrap().unwrap().value;
        for wanted in [
            "edge-gateway",
            "localhost",
            "edge-gateway.edge-gateway-system.svc.cluster.local",
        ] {
            assert!(
                names.general_names.contains(&GeneralName::DNSName(wanted)),
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
            "edge-gateway-ca/tls.key",
        ] {
            let mode = fs::metadata(folder.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{path}");
        }
        let hmac = fs::metadata(folder.path().join("edge-oidc-hmac/hmac-secret")).unwrap();
        assert_eq!(hmac.len(), 32);
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
        let paths = [
            "edge/ca.crt",
            "edge-gateway/ca.crt",
            "edge/tls.crt",
            "edge-gateway/tls.crt",
        ];
        let before = paths.map(read);
        // The key of another one: the files don't agree.
        fs::copy(
            folder.path().join("edge/tls.key"),
            folder.path().join("edge-gateway/tls.key"),
        )
        .unwrap();
        let done = make_in(folder.path(), Existing::Keep);
        assert_eq!(done, Outcome::Renewed("edge-gateway (its key is another one)".into()));
        let after = paths.map(read);
        assert_eq!(before[..3], after[..3]);
        assert_ne!(before[3], after[3]);
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
    }

    #[test]
    fn an_authority_without_its_key_is_replaced_and_stays_trusted() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        let leaf = fs::read(folder.path().join("edge/tls.crt")).unwrap();
        let old = trusted(folder.path(), "edge");
        fs::remove_file(folder.path().join(AUTHORITY).join("tls.key")).unwrap();
        let Outcome::Renewed(which) = make_in(folder.path(), Existing::Keep) else {
            panic!("proxies could not be given certificates of their own")
        };
        assert!(which.starts_with("edge-gateway-ca (its key is missing"), "{which}");
        for secret in ["edge", "edge-gateway", "edge-rate-limit"] {
            let trusted = trusted(folder.path(), secret);
            assert_eq!(trusted.len(), 2);
            assert_eq!(trusted[1..], old);
        }
        assert_eq!(
            fs::read(folder.path().join("edge/tls.crt")).unwrap(),
            leaf,
            "still good"
        );
        assert_eq!(make_in(folder.path(), Existing::Keep), Outcome::Kept);
    }

    #[test]
    fn what_is_for_others_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        make_in(folder.path(), Existing::Keep);
        let done = ensure(folder.path(), "other", "cluster.local", Existing::Keep).unwrap();
        let expected = "edge-gateway (it is for other names), edge (it is for other names), edge-rate-limit (it is for \
                        other names)";
        assert_eq!(done, Outcome::Renewed(expected.into()));
    }

    #[test]
    fn a_folder_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("certs"), "").unwrap();
        let error = ensure(&folder.path().join("certs"), "ns", "d", Existing::Keep)
            .unwrap_err()
            .to_string();
        assert!(error.contains("certs/edge") && error.contains("can't write"), "{error}");
    }
}
