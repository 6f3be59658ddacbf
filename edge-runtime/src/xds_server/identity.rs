//! Who is at the other end, and which fleet it may speak for.
//!
//! The handshake lets in whoever shows no certificate or one of our authority. That is more than proxies: the
//! controller's own certificate, for one. Whether a [`Peer`] may have a fleet's configuration is asked of the
//! [`Authorizer`] for every stream, when the fleet is known. A proxy's certificate names a host of the controller's
//! namespace, as `certgen` makes it; one that names fleets as well (a URI `edge-gateway:fleet/<fleet>`) is good for
//! these alone. Proxies that we start ourselves have one that does, and no other is taken then. In a cluster it is the
//! token of the fleet's ServiceAccount that names the fleet.

use super::{
    accounts::Accounts,
    incoming::ConnectInfo,
    introduction::Introduction,
    tokens::{Account, Tokens},
};
use crate::{
    certs::FLEET,
    state::{FleetState, Published},
};
use edge_ir::{FleetKey, Infra};
use edge_translate::Settings;
use kube::Client;
use rustls_pki_types::CertificateDer;
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::watch, time::Instant};
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
    introduction: Introduction,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            certificate,
            token,
            introduction: _,
        } = self;
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
        let connection = request.extensions().get::<ConnectInfo>();
        Self {
            certificate: connection.and_then(ConnectInfo::certificate),
            token: token.map(Box::from),
            introduction: connection.map(|of| of.introduction().clone()).unwrap_or_default(),
        }
    }

    /// It has shown whose it is: its connection may stay.
    pub(super) fn let_in(&self) {
        self.introduction.made();
    }
}

/// Who decides; which one, the mode says.
#[derive(Clone, Debug)]
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
    /// Proxies are pods, each with a token of its fleet's ServiceAccount, which is demanded.
    Account(AccountAuthorizer),
}

/// Demands the token of a fleet's ServiceAccount.
#[derive(Clone, Debug)]
pub struct AccountAuthorizer {
    namespace: Arc<str>,
    certificates: ClientCertificates,
    tokens: Arc<Tokens>,
    accounts: Arc<Accounts>,
}

/// What proxies in a cluster must show beside their token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client certificate of the controller's namespace.
    Demanded,
    /// Nothing: their pods are where no key of ours may lie.
    Unasked,
}

/// For how long a peer may have a fleet's configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    /// When it must be asked again.
    pub(super) again: Option<Instant>,
    /// When what it showed expires.
    pub(super) ends: Option<SystemTime>,
}

impl AccountAuthorizer {
    /// One that asks an API server for a controller.
    pub fn new(client: Client, settings: &Settings, certificates: ClientCertificates) -> Self {
        let namespace = Arc::clone(&settings.controller_namespace);
        let audience = format!("edge-gateway.{namespace}.svc.{}", settings.dns_domain);
        let controller_name = Arc::clone(&settings.controller_name);
        Self {
            namespace,
            certificates,
            tokens: Arc::new(Tokens::new(client.clone(), audience.into())),
            accounts: Arc::new(Accounts::new(client, controller_name)),
        }
    }

    async fn authorize(&self, peer: &Peer, fleet: &FleetKey, published: &PublishedReceiver) -> Result<Proof, Status> {
        let certificate = match self.certificates {
            ClientCertificates::Demanded => Some(demand(peer, &self.namespace, fleet)?.1),
            ClientCertificates::Unasked => None,
        };
        let Some(token) = &peer.token else {
            return Err(Status::unauthenticated(
                "a proxy must show the token of its ServiceAccount: its bootstrap must inject it (jwt-sa-bearer)",
            ));
        };
        let proven = self.tokens.review(token).await?;
        let state = fleet_state(published, fleet)?;
        let is_own = match (&state.last_infra, &state.home) {
            (Some(infra), _) => proven.account == account_of(infra),
            (None, Some(home)) => self.accounts.are_of(fleet, home, &proven.account).await?,
            (None, None) => false,
        };
        if !is_own {
            let shown = &proven.account;
            return Err(Status::permission_denied(format!(
                "the proxy's token is of the ServiceAccount {shown}, which is not the one of the fleet `{fleet}`"
            )));
        }
        self.tokens.keep(token, &proven).await;
        Ok(Proof {
            again: Some(proven.again),
            ends: [certificate, proven.expires].into_iter().flatten().min(),
        })
    }
}

/// The ServiceAccount of a fleet's proxies.
fn account_of(infra: &Infra) -> Account {
    Account {
        namespace: Arc::clone(&infra.namespace),
        name: Arc::clone(infra.proxy.cluster.account_name.as_ref().unwrap_or(&infra.name)),
    }
}

/// What everybody works from.
type PublishedReceiver = watch::Receiver<Option<Arc<Published>>>;

/// A fleet, or what to tell a proxy that asks for one that isn't there.
pub(super) fn fleet_state(published: &PublishedReceiver, fleet: &FleetKey) -> Result<FleetState, Status> {
    let published = published.borrow();
    let state = published.as_ref().and_then(|published| published.fleets.get(fleet));
    state.cloned().ok_or_else(|| {
        Status::not_found(format!(
            "there is no fleet `{fleet}`: no Gateway makes one of that name; try again later"
        ))
    })
}

impl Authorizer {
    /// Refuses a stream whose peer may not have the configuration of a fleet.
    pub(super) async fn authorize(
        &self,
        peer: &Peer,
        fleet: &FleetKey,
        published: &PublishedReceiver,
    ) -> Result<Proof, Status> {
        let namespace = match self {
            Self::Certificate { namespace } | Self::FleetCertificate { namespace } => namespace,
            Self::Account(authorizer) => return authorizer.authorize(peer, fleet, published).await,
        };
        match (demand(peer, namespace, fleet)?, self) {
            ((Scope::Any, _), Self::FleetCertificate { .. }) => Err(Status::permission_denied(format!(
                "the proxy's certificate names no fleet: the controller starts the proxies itself and gives each one \
                 that names its own (URI {FLEET}{fleet})"
            ))),
            ((_, ends), _) => Ok(Proof {
                again: None,
                ends: Some(ends),
            }),
        }
    }
}

/// Refuses whoever shows no certificate of a service of the namespace; that of a fleet's proxy is none.
pub(super) fn demand_service(peer: &Peer, namespace: &str) -> Result<(), Status> {
    // No fleet is called so.
    demand(peer, namespace, &"".into()).map(|_| ())
}

/// The scope of a peer's certificate, and when it expires.
fn demand(peer: &Peer, namespace: &str, fleet: &FleetKey) -> Result<(Scope, SystemTime), Status> {
    let Some(certificate) = &peer.certificate else {
        let shown = if peer.token.is_some() { "a token" } else { "nothing" };
        return Err(Status::unauthenticated(format!(
            "a proxy must show a client certificate that names *.{namespace}; it showed {shown}"
        )));
    };
    check(certificate, namespace, fleet)
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
fn check(leaf: &CertificateDer<'_>, namespace: &str, fleet: &FleetKey) -> Result<(Scope, SystemTime), Status> {
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
        true => Ok((scope, end_of(&leaf))),
        false => refusal(&format!("it must name *.{namespace}")),
    }
}

fn end_of(leaf: &X509Certificate<'_>) -> SystemTime {
    let seconds = u64::try_from(leaf.validity().not_after.timestamp()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
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
            ..Peer::default()
        };
        let namespace: Arc<str> = "system".into();
        let ours = Authorizer::FleetCertificate {
            namespace: Arc::clone(&namespace),
        };
        let foreign = Authorizer::Certificate { namespace };
        let own = peer(&own.join("tls.crt"));
        let (_sender, nothing) = watch::channel(None);
        ours.authorize(&own, &fleet(), &nothing).await.unwrap();
        let refused = ours.authorize(&own, &"ns/other".into(), &nothing).await.unwrap_err();
        assert!(refused.message().contains("not for the fleet `ns/other`"), "{refused}");
        let refused = ours.authorize(&peer(&shared), &fleet(), &nothing).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().contains("names no fleet"), "{refused}");
        foreign.authorize(&peer(&shared), &fleet(), &nothing).await.unwrap();
        foreign.authorize(&own, &"ns/other".into(), &nothing).await.unwrap_err();
    }

    #[test]
    fn no_debug_form_shows_what_a_peer_shows() {
        let mut request = Request::new(());
        let header = "Bearer the-token".parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        let peer = Peer::of(&request);
        assert_eq!(peer.token.as_deref(), Some("the-token"));
        assert_eq!(format!("{peer:?}"), "Peer { certificate: false, token: true }");
    }

    #[tokio::test]
    async fn who_shows_no_certificate_is_told_what_to_show() {
        let authorizer = Authorizer::Certificate {
            namespace: "system".into(),
        };
        let refused = authorizer
            .authorize(&Peer::default(), &fleet(), &watch::channel(None).1)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert!(refused.message().contains("*.system; it showed nothing"), "{refused}");
    }
}
