//! Certificates of a throw-away authority, and requests over TLS that check them.

use crate::http::{self, Request, Response};
use anyhow::Result;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    pki_types::{PrivatePkcs8KeyDer, ServerName},
};
use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

/// Signs certificates, and trusts only what it signed.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    client: Arc<ClientConfig>,
}

impl Authority {
    /// A new one, with a key of its own.
    pub fn new() -> Result<Self> {
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
    pub fn secret(&self, name: &str, host: &str) -> Result<String> {
        let (certificate, key) = self.sign(host)?;
        let block = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
        Ok(format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: default }}\n\
             type: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
            block(&certificate.pem()),
            block(&key.serialize_pem())
        ))
    }

    /// Asks over TLS; an error if the certificate isn't for the host.
    pub fn get(&self, address: SocketAddr, host: &str, path: &str) -> Result<Response> {
        self.get_over(address, host, host, path)
    }

    /// Asks for a host over a connection with another server name.
    pub fn get_over(&self, address: SocketAddr, server: &str, host: &str, path: &str) -> Result<Response> {
        http::exchange(self.connect(address, server)?, &Request::get(host, path))
    }

    /// Opens a connection; what it reads or writes first fails if the certificate isn't for the host.
    pub fn connect(&self, address: SocketAddr, host: &str) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from(host.to_owned())?;
        let connection = ClientConnection::new(Arc::clone(&self.client), name)?;
        Ok(StreamOwned::new(connection, http::connect(address)?))
    }

    /// A backend's side of TLS with a certificate for a host name.
    pub fn server(&self, host: &str) -> Result<Arc<ServerConfig>> {
        let (certificate, key) = self.sign(host)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        Ok(Arc::new(config))
    }

    fn sign(&self, host: &str) -> Result<(Certificate, KeyPair)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, host);
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

/// An HTTPS listener to append to the Gateway of the quickstart.
pub fn listener(name: &str, host: &str, port: u16) -> String {
    format!(
        "    - name: {name}\n      protocol: HTTPS\n      port: {port}\n      hostname: {host}\n      tls:\n        \
         certificateRefs:\n          - name: {name}\n"
    )
}
