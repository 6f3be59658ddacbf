//! Whom an exchange, a stream or a session was with, and on what.

use crate::connection::peer::{Agreed, PeerCertificate};
use crate::connection::{Connection, Manager};
use crate::message::Protocol;
use crate::proxy_protocol::Addresses;

/// What logs are told of the client's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// The client and where it wanted to go, after the PROXY header.
    pub(crate) addresses: Addresses,
    /// The addresses of the socket.
    pub(crate) direct: Addresses,
    /// The server name of the client hello.
    pub(crate) server_name: Option<&'a str>,
    /// The certificate that the client has shown.
    pub(crate) certificate: Option<&'a PeerCertificate>,
    /// What was agreed on in TLS.
    pub(crate) agreed: Option<Agreed>,
    /// The listener's name.
    pub(crate) listener: &'a str,
    /// The chain's name.
    pub(crate) chain: &'a str,
    /// What was spoken.
    pub(crate) spoken: Spoken,
}

impl<'a> Client<'a> {
    /// Of a connection that speaks HTTP.
    pub(crate) fn of(connection: &'a Connection, manager: &'a Manager) -> Self {
        Self {
            addresses: connection.addresses(),
            direct: connection.direct,
            server_name: connection.server_name.as_deref(),
            certificate: connection.certificate.as_deref(),
            agreed: connection.agreed,
            listener: manager.listener_name(),
            chain: connection.chain_name(),
            spoken: match connection.protocol {
                Protocol::Http1 => Spoken::Http1,
                Protocol::Http2 => Spoken::Http2,
            },
        }
    }
}

/// What was spoken with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP with a backend: an attempt of a request is told of.
    Attempt,
    /// Bytes that were handed on.
    Stream,
    /// Datagrams that were handed on.
    Datagrams,
    /// Nothing: no chain was for the connection.
    Nothing,
}

impl Spoken {
    /// Whether it was HTTP.
    pub(super) fn is_http(self) -> bool {
        matches!(self, Self::Http1 | Self::Http2 | Self::Attempt)
    }

    /// What Envoy calls a line of such a kind.
    pub(super) fn log_type(self) -> &'static str {
        match self {
            Self::Http1 | Self::Http2 => "DownstreamEnd",
            Self::Attempt => "UpstreamEnd",
            Self::Stream => "TcpConnectionEnd",
            Self::Datagrams => "UdpSessionEnd",
            Self::Nothing => "NotSet",
        }
    }
}
