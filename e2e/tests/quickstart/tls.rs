//! Certificates of a throw-away authority, and requests over TLS that check them.

use anyhow::Result;
use e2e::http::{self, Request, Response};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, pki_types::ServerName};
use std::{net::SocketAddr, sync::Arc};

/// Signs certificates, and trusts only what it signed.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    client: Arc<ClientConfig>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "e2e authority");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            issuer: Issuer::new(params, key),
            client: Arc::new(client),
        })
    }

    /// A Secret with a certificate for a host name.
    pub(crate) fn secret(&self, name: &str, host: &str) -> Result<String> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, host);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let block = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
        Ok(format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: default }}\n\
             type: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
            block(&certificate.pem()),
            block(&key.serialize_pem())
        ))
    }

    /// Asks over TLS; an error if the certificate isn't for the host.
    pub(crate) fn get(&self, address: SocketAddr, host: &str, path: &str) -> Result<Response> {
        self.get_over(address, host, host, path)
    }

    /// Asks for a host over a connection with another server name.
    pub(crate) fn get_over(&self, address: SocketAddr, server: &str, host: &str, path: &str) -> Result<Response> {
        let name = ServerName::try_from(server.to_owned())?;
        let connection = ClientConnection::new(Arc::clone(&self.client), name)?;
        http::exchange(
            StreamOwned::new(connection, http::connect(address)?),
            &Request::get(host, path),
        )
    }
}

/// An HTTPS listener to append to the Gateway of the quickstart.
pub(crate) fn listener(name: &str, host: &str, port: u16) -> String {
    format!(
        "    - name: {name}\n      protocol: HTTPS\n      port: {port}\n      hostname: {host}\n      tls:\n        \
         certificateRefs:\n          - name: {name}\n"
    )
}
