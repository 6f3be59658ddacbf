//! TLS towards clients and towards backends.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::server::ClientHello;

pub use crate::fault::TlsReports;

/// How to speak TLS to clients.
#[derive(Debug)]
pub struct DownstreamTls {
    agreeing: Arc<ServerConfig>,
    /// The same for clients that offer none of our protocols. rustls would refuse them, as RFC 7301 §3.2 wants it; BoringSSL goes
    /// on without an answer, and so does Envoy: HTTP/1.0 and probes by TLS itself are served.
    silent: Arc<ServerConfig>,
}

impl DownstreamTls {
    /// TLS by a configuration.
    pub fn new(config: ServerConfig) -> Self {
        let mut silent = config.clone();
        silent.alpn_protocols.clear();
        Self {
            agreeing: Arc::new(config),
            silent: Arc::new(silent),
        }
    }

    /// What a client is answered by.
    pub fn for_client(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
        let ours = &self.agreeing.alpn_protocols;
        let agrees =
            |mut theirs: Box<dyn Iterator<Item = &[u8]> + '_>| theirs.any(|one| ours.iter().any(|own| own == one));
        match hello.alpn().is_none_or(|theirs| agrees(Box::new(theirs))) {
            true => &self.agreeing,
            false => &self.silent,
        }
    }

    /// What those are answered by who offer one of our protocols, or none at all.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.agreeing
    }
}

/// How to speak TLS to the hosts of a cluster.
#[derive(Debug)]
pub struct UpstreamTls {
    /// Trust, client certificate and ALPN. Names are checked by the verifier inside when the configuration lists
    /// subject alternative names, else only the chain is (as in Envoy).
    pub config: Arc<rustls::ClientConfig>,
    /// The server name to send.
    pub sni: Sni,
    /// True when the context names its own ALPN list; else the pool may choose by protocol.
    pub fixed_alpn: bool,
    /// Which failures were logged, and when.
    pub reports: TlsReports,
}

/// The server name to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sni {
    /// This one.
    Fixed(ServerName<'static>),
    /// The authority of the request (`auto_sni`).
    Authority,
    /// The host name of the endpoint (`auto_host_sni`).
    Endpoint,
    /// None; rustls needs a name all the same, its address does.
    None,
}
