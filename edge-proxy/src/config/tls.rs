//! TLS towards backends. (TLS towards clients is a `rustls::ServerConfig` in the filter chain.)

use std::sync::Arc;

use rustls::pki_types::ServerName;

pub use crate::fault::TlsReports;

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
