//! Who is at the other end, and which fleet it may speak for.
//!
//! The handshake lets in whoever shows no certificate or one of our authority. That is more than proxies: the
//! controller's own certificate, for one. Whether a [`Peer`] may have a fleet's configuration is asked of the
//! [`Authorizer`] for every stream, when the fleet is known. A proxy's certificate names a host of the controller's
//! namespace, as `certgen` makes it; one that names fleets as well (a URI `edge-gateway:fleet/<fleet>`) is good for these
//! alone. Proxies that we start ourselves have one that does, and no other is taken then.

use crate::certs::FLEET;
use edge_ir::FleetKey;
use rustls_pki_types::CertificateDer;
use std::{fmt, sync::Arc};
use tonic::{Request, Status};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// What the other end shows of itself. Its debug form says which kinds of proof there are and no more: a token in a log
/// would be anybody's.
#[derive(Default)]
pub(super) struct Peer {
    certificate: Option<CertificateDer<'static>>,
    token: Option<Box<str>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificate, token } = self;
        f.debug_struct("Peer")
            .field("certificate", &certificate.is_some())
            .field("token", &token.is_some())
            .finish()
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// Somebody else starts proxies on this machine: a client certificate of this namespace is demanded, and one that
    /// names fleets is good for these alone.
    Certificate {
        /// The controller's namespace.
        namespace: Arc<str>,
    },
    /// We start the proxies, each with a certificate that names its fleet, which is demanded.
    FleetCertificate {
        /// The controller's namespace.
        namespace: Arc<str>,
    },
}

impl Authorizer {
    /// Refuses a stream whose peer may not have the configuration of a fleet.
    pub(super) async fn authorize(&self, peer: &Peer, fleet: &FleetKey) -> Result<(), Status> {
        let (Self::Certificate { namespace } | Self::FleetCertificate { namespace }) = self;
        let Some(certificate) = &peer.certificate else {
            let shown = if peer.token.is_some() { "a token" } else { "nothing" };
            return Err(Status::unauthenticated(format!(
                "a proxy must show a client certificate that names *.{namespace}; it showed {shown}"
            )));
        };
        match (check(certificate, namespace, fleet)?, self) {
            (Scope::Any, Self::FleetCertificate { .. }) => Err(Status::permission_denied(format!(
                "the proxy's certificate names no fleet: the controller starts the proxies itself and gives each one \
                 that names its own (URI {FLEET}{fleet})"
            ))),
            _ => Ok(()),
        }
    }
}

/// What a certificate is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// It names no fleet.
    Any,
    /// It names the fleet that was asked for.
    Fleet,
}

/// Refuses what is no proxy's certificate, and one of another fleet's.
fn check(leaf: &CertificateDer<'_>, namespace: &str, fleet: &FleetKey) -> Result<Scope, Status> {
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
    let fleets = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(FLEET),
        _ => None,
    });
    let fleets: Vec<&str> = fleets.collect();
    let scope = match fleets.as_slice() {
        [] => Scope::Any,
        named if named.contains(&fleet.as_str()) => Scope::Fleet,
        _ => return refusal(&format!("it is not for the fleet `{fleet}`")),
    };
    let is_of_namespace = |name: &str| {
        name.split_once('.')
            .is_some_and(|(host, rest)| !host.is_empty() && rest == namespace)
    };
    let mut hosts = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    match hosts.any(|name| is_of_namespace(name) && name != format!("edge-gateway.{namespace}")) {
        true => Ok(scope),
        false => refusal(&format!("it must name *.{namespace}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{CONTROLLER, Existing, FleetIdentity, PROXY, TlsFiles, ensure, ensure_fleet};
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
    async fn a_proxy_that_we_started_must_prove_its_fleet() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path(), "system", "cluster.local", Existing::Keep).unwrap();
        let shared = TlsFiles::below(folder.path(), PROXY).certificate;
        let own = folder.path().join("fleet");
        let identity = FleetIdentity {
            fleet: &fleet(),
            name: "edge-ns-gw",
            namespace: "system",
        };
        ensure_fleet(folder.path(), &own, &identity, jiff::Timestamp::now()).unwrap();
        let peer = |path: &std::path::Path| Peer {
            certificate: Some(CertificateDer::from_pem_file(path).unwrap()),
            token: None,
        };
        let namespace: Arc<str> = "system".into();
        let ours = Authorizer::FleetCertificate {
            namespace: Arc::clone(&namespace),
        };
        let foreign = Authorizer::Certificate { namespace };
        let own = peer(&own.join("tls.crt"));
        ours.authorize(&own, &fleet()).await.unwrap();
        let refused = ours.authorize(&own, &"ns/other".into()).await.unwrap_err();
        assert!(refused.message().contains("not for the fleet `ns/other`"), "{refused}");
        let refused = ours.authorize(&peer(&shared), &fleet()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().contains("names no fleet"), "{refused}");
        foreign.authorize(&peer(&shared), &fleet()).await.unwrap();
        foreign.authorize(&own, &"ns/other".into()).await.unwrap_err();
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
