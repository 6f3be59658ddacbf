//! Who is at the other end, and which fleet it may speak for.
//!
//! The handshake lets in whoever shows no certificate or one of our authority. That is more than proxies: the
//! controller's own certificate, for one. Whether a [`Peer`] may have a fleet's configuration is asked of the
//! [`Authorizer`] for every stream, when the fleet is known. A proxy's certificate names a host of the controller's
//! namespace, as `certgen` makes it; one that names fleets as well (a URI `edge-gateway:fleet/<fleet>`) is good for these
//! alone.

use edge_ir::FleetKey;
use rustls_pki_types::CertificateDer;
use std::sync::Arc;
use tonic::{Request, Status};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// What a URI that names a fleet begins with.
const FLEET: &str = "edge-gateway:fleet/";

/// What the other end shows of itself.
#[derive(Debug, Default)]
pub(super) struct Peer {
    certificate: Option<CertificateDer<'static>>,
    token: Option<Box<str>>,
}

impl Peer {
    /// The one that a request comes from.
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        let header = request.metadata().get("authorization");
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        Self {
            certificate: request.peer_certs().and_then(|chain| chain.first().cloned()),
            token: token.map(Box::from),
        }
    }
}

/// Who decides; which one, the mode says.
#[derive(Clone, Debug)]
pub(super) enum Authorizer {
    /// A client certificate of this namespace is demanded, as in standalone mode.
    Certificate { namespace: Arc<str> },
}

impl Authorizer {
    /// Refuses a stream whose peer may not have the configuration of a fleet.
    pub(super) async fn authorize(&self, peer: &Peer, fleet: &FleetKey) -> Result<(), Status> {
        let Self::Certificate { namespace } = self;
        match &peer.certificate {
            Some(certificate) => check(certificate, namespace, fleet),
            None => {
                let shown = if peer.token.is_some() { "a token" } else { "nothing" };
                Err(Status::unauthenticated(format!(
                    "a proxy must show a client certificate that names *.{namespace}; it showed {shown}"
                )))
            }
        }
    }
}

/// Refuses what is no proxy's certificate, and one of another fleet's.
fn check(leaf: &CertificateDer<'_>, namespace: &str, fleet: &FleetKey) -> Result<(), Status> {
    let refusal = |reason: &str| {
        Err(Status::permission_denied(format!(
            "no certificate of a proxy: {reason}"
        )))
    };
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return refusal("it can't be read");
    };
    let names = leaf.subject_alternative_name().ok().flatten();
    let names: Vec<&GeneralName<'_>> = names
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .collect();
    let mut fleets = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(FLEET),
        _ => None,
    });
    if let Some(first) = fleets.next()
        && first != fleet.as_str()
        && !fleets.any(|other| other == fleet.as_str())
    {
        return refusal(&format!("it is not for the fleet `{fleet}`"));
    }
    let is_of_namespace = |name: &str| {
        name.split_once('.')
            .is_some_and(|(host, rest)| !host.is_empty() && rest == namespace)
    };
    let mut hosts = names.iter().filter_map(|name| match name {
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

    fn fleet() -> FleetKey {
        "ns/gw".into()
    }

    #[test]
    fn only_a_proxy_of_the_namespace_is_let_in() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
        let leaf = |secret| CertificateDer::from_pem_file(TlsFiles::below(folder.path(), secret).certificate).unwrap();
        assert!(check(&leaf(PROXY), "system", &fleet()).is_ok());
        assert!(check(&leaf(PROXY), "other", &fleet()).is_err());
        assert!(check(&leaf(CONTROLLER), "system", &fleet()).is_err());
    }

    #[test]
    fn a_certificate_that_names_fleets_is_good_for_these_alone() {
        let mut parameters = rcgen::CertificateParams::new(vec!["proxy.system".to_owned()]).unwrap();
        for fleet in ["ns/other", "ns/gw"] {
            let uri = format!("{FLEET}{fleet}").try_into().unwrap();
            parameters.subject_alt_names.push(rcgen::SanType::URI(uri));
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = parameters.self_signed(&key).unwrap();
        assert!(check(leaf.der(), "system", &fleet()).is_ok());
        let refused = check(leaf.der(), "system", &"ns/third".into()).unwrap_err();
        assert!(refused.message().contains("not for the fleet `ns/third`"), "{refused}");
    }

    #[tokio::test]
    async fn who_shows_no_certificate_is_told_what_to_show() {
        let authorizer = Authorizer::Certificate {
            namespace: "system".into(),
        };
        let refused = authorizer.authorize(&Peer::default(), &fleet()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert!(refused.message().contains("*.system; it showed nothing"), "{refused}");
    }
}
