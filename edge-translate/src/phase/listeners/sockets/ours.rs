//! Clusters of what belongs to the controller: never spoken to in clear, and known by who vouches for the controller.

use crate::{
    phase::backends::{
        backend_tls::system_authorities,
        cluster::{ClusterParts, NamedHost},
    },
    settings::Settings,
};
use edge_ir::{
    AppProtocol, ClusterName, Inside, Secret, SecretContent, SecretName, SecretSource, ServerNaming, SubjectName,
    TlsParameters, UpstreamTls,
};
use std::sync::Arc;

/// A server of ours.
pub(super) struct Ours {
    /// Name of its cluster.
    pub(super) cluster: &'static str,
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    pub(super) protocol: AppProtocol,
    /// The name that its certificate must have.
    pub(super) name: Arc<str>,
    /// Who vouches for it (PEM); whom the proxy's system trusts when absent.
    pub(super) authorities: Option<Arc<str>>,
    /// What it is shown, where it asks for a certificate.
    pub(super) client_certificate: Option<SecretSource>,
}

/// The host of a Service beside the controller of a cluster.
pub(super) fn beside(settings: &Settings, service: &str) -> Arc<str> {
    let (namespace, domain) = (&settings.controller_namespace, &settings.dns_domain);
    format!("{service}.{namespace}.svc.{domain}").into()
}

/// Its cluster.
pub(super) fn cluster(ours: Ours) -> ClusterParts {
    let authorities = match ours.authorities {
        None => system_authorities(),
        Some(bundle) => Arc::new(Secret {
            // No namespace is called so.
            name: SecretName::from(&*format!("{}/ca.crt", ours.cluster)),
            content: SecretContent::Authorities { bundle, revoked: None },
            origins: Arc::default(),
        }),
    };
    let alpn = match ours.protocol {
        AppProtocol::Http2 => vec!["h2".into()],
        _ => Vec::new(),
    };
    let tls = UpstreamTls {
        naming: ServerNaming::Fixed,
        server_name: Arc::clone(&ours.name),
        authorities: Some(authorities.name.clone().into()),
        subjects: vec![SubjectName::Dns(ours.name)],
        client_certificate: ours.client_certificate,
        alpn,
        inside: Inside::default(),
        parameters: TlsParameters::default(),
    };
    let at = NamedHost {
        host: &ours.host,
        port: ours.port,
        protocol: ours.protocol,
        tls: Some((tls, authorities)),
    };
    ClusterParts::at_host(ClusterName::from(ours.cluster), at)
}
