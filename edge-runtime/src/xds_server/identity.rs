//! Who is at the other end.
//!
//! TLS has let in whoever holds a certificate of our authority. That is more than proxies: the controller's own
//! certificate, for one. A proxy's certificate names a host of the controller's namespace, as `certgen` makes it.

use rustls_pki_types::CertificateDer;
use tonic::Status;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// Refuses a stream whose peer shows no proxy's certificate.
pub(super) fn check(certificates: Option<&[CertificateDer<'_>]>, namespace: &str) -> Result<(), Status> {
    let refusal = |reason: &str| {
        Err(Status::permission_denied(format!(
            "no certificate of a proxy: {reason}"
        )))
    };
    let Some(leaf) = certificates.and_then(<[_]>::first) else {
        return refusal("none was shown");
    };
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return refusal("it can't be read");
    };
    let names = leaf.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    let is_of_namespace = |name: &str| {
        name.split_once('.')
            .is_some_and(|(host, rest)| !host.is_empty() && rest == namespace)
    };
    let mut hosts = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    match hosts.any(|name| is_of_namespace(name) && name != format!("edge-gateway.{namespace}")) {
        true => Ok(()),
        false => refusal(&format!("it must name *.{namespace}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{CONTROLLER, Existing, PROXY, TlsFiles, ensure};
    use rustls_pki_types::pem::PemObject as _;

    #[test]
    fn only_a_proxy_of_the_namespace_is_let_in() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
        let leaf =
            |secret| vec![CertificateDer::from_pem_file(TlsFiles::below(folder.path(), secret).certificate).unwrap()];
        assert!(check(Some(&leaf(PROXY)), "system").is_ok());
        assert!(check(Some(&leaf(PROXY)), "other").is_err());
        assert!(check(Some(&leaf(CONTROLLER)), "system").is_err());
        assert!(check(None, "system").is_err());
    }
}
