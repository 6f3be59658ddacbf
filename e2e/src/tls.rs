//! Certificates of a throw-away authority, and requests over TLS that check them.

use crate::http::{self, Request, Response};
use anyhow::Result;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
};
use std::{
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Serial numbers, each given once.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// Signs certificates, and trusts only what it signed.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    roots: Arc<RootCertStore>,
    client: Arc<ClientConfig>,
}

/// A certificate that a client shows, with its key.
#[derive(Debug)]
pub struct Identity {
    serial: u64,
    certificate: CertificateDer<'static>,
    key: KeyPair,
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
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&roots))
            .with_no_client_auth();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem: certificate.pem(),
            roots,
            client: Arc::new(client),
        })
    }

    /// Its own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Who a client is.
    pub fn identity(&self, name: &str) -> Result<Identity> {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let (certificate, key) = self.sign_as(name, Some(serial))?;
        Ok(Identity {
            serial,
            certificate: certificate.der().clone(),
            key,
        })
    }

    /// The list of those that are trusted no longer.
    pub fn revoke(&self, identities: &[&Identity]) -> Result<String> {
        let revoked = identities.iter().map(|identity| RevokedCertParams {
            serial_number: SerialNumber::from(identity.serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }

    /// Asks over TLS as somebody.
    pub fn get_as(&self, identity: Option<&Identity>, address: SocketAddr, host: &str) -> Result<Response> {
        let request = Request::get(host, "/");
        let Some(identity) = identity else {
            return http::exchange(self.connect(address, host)?, &request);
        };
        let key = PrivatePkcs8KeyDer::from(identity.key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&self.roots))
            .with_client_auth_cert(vec![identity.certificate.clone()], key.into())?;
        http::exchange(connect(Arc::new(client), address, host)?, &request)
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

    /// A certificate for a host name with its key, as one text of PEM.
    pub fn certificate_and_key(&self, host: &str) -> Result<String> {
        let (certificate, key) = self.sign(host)?;
        Ok(certificate.pem() + &key.serialize_pem())
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
        connect(Arc::clone(&self.client), address, host)
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
        self.sign_as(host, None)
    }

    fn sign_as(&self, name: &str, serial: Option<u64>) -> Result<(Certificate, KeyPair)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.serial_number = serial.map(SerialNumber::from);
        params.distinguished_name.push(DnType::CommonName, name);
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

fn connect(
    client: Arc<ClientConfig>,
    address: SocketAddr,
    host: &str,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let connection = ClientConnection::new(client, ServerName::try_from(host.to_owned())?)?;
    Ok(StreamOwned::new(connection, http::connect(address)?))
}

/// An HTTPS listener to append to the Gateway of the quickstart.
pub fn listener(name: &str, host: &str, port: u16) -> String {
    format!(
        "    - name: {name}\n      protocol: HTTPS\n      port: {port}\n      hostname: {host}\n      tls:\n        \
         certificateRefs:\n          - name: {name}\n"
    )
}
