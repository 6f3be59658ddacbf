//! TLS towards clients and towards backends.

use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

pub use crate::fault::TlsReports;

/// How to speak TLS to clients.
#[derive(Debug)]
pub struct DownstreamTls {
    agreeing: Arc<ServerConfig>,
    /// The same for clients that offer none of our protocols. rustls would refuse them, as RFC 7301 §3.2 wants it;
    /// BoringSSL goes on without an answer, and so does Envoy: HTTP/1.0 and probes by TLS itself are served.
    silent: Arc<ServerConfig>,
    own: Arc<[OwnCertificate]>,
}

/// Alternative names that are URIs.
pub type Uris = Arc<[Box<str>]>;

/// A certificate of ours.
#[derive(Debug)]
pub struct OwnCertificate {
    /// With its key.
    pub certified: Arc<CertifiedKey>,
    /// In it.
    pub uris: Uris,
}

/// Which of our certificates a client is shown.
#[derive(Debug)]
pub enum Showing {
    /// Any: all have these.
    Any(Uris),
    /// One that is chosen in the handshake.
    Chosen(Arc<Witness>),
}

impl Showing {
    /// Those in the certificate, once it was shown.
    pub fn uris(&self) -> Uris {
        match self {
            Self::Any(uris) => Arc::clone(uris),
            Self::Chosen(witness) => witness.uris(),
        }
    }
}

/// Remembers what is chosen in one handshake, which the session doesn't tell.
#[derive(Debug)]
pub struct Witness {
    chooser: Arc<dyn ResolvesServerCert>,
    own: Arc<[OwnCertificate]>,
    chosen: OnceLock<Arc<CertifiedKey>>,
}

impl Witness {
    fn uris(&self) -> Uris {
        let is_chosen = |one: &&OwnCertificate| {
            let chosen = self.chosen.get();
            chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, &one.certified))
        };
        let found = self.own.iter().find(is_chosen);
        found.map_or_else(Uris::default, |one| Arc::clone(&one.uris))
    }
}

impl ResolvesServerCert for Witness {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = self.chooser.resolve(hello)?;
        Some(Arc::clone(self.chosen.get_or_init(|| chosen)))
    }
}

impl DownstreamTls {
    /// TLS by a configuration, which chooses among these.
    pub fn new(config: ServerConfig, own: Vec<OwnCertificate>) -> Self {
        let mut silent = config.clone();
        silent.alpn_protocols.clear();
        Self {
            agreeing: Arc::new(config),
            silent: Arc::new(silent),
            own: own.into(),
        }
    }

    /// What a client is answered by, and what it is shown.
    pub fn for_client(&self, hello: &ClientHello<'_>) -> (Arc<ServerConfig>, Showing) {
        let config = self.answering(hello);
        let same = |first: &OwnCertificate| self.own.iter().all(|one| one.uris == first.uris);
        match self.own.first() {
            Some(first) if !same(first) => {
                let witness = Arc::new(Witness {
                    chooser: Arc::clone(&config.cert_resolver),
                    own: Arc::clone(&self.own),
                    chosen: OnceLock::new(),
                });
                let mut watched = ServerConfig::clone(config);
                watched.cert_resolver = Arc::clone(&witness) as Arc<dyn ResolvesServerCert>;
                (Arc::new(watched), Showing::Chosen(witness))
            }
            first => {
                let uris = first.map(|first| Arc::clone(&first.uris));
                (Arc::clone(config), Showing::Any(uris.unwrap_or_default()))
            }
        }
    }

    fn answering(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
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
