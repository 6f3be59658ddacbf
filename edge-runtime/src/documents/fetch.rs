//! One request for one document, over HTTP or HTTPS, with what a machine trusts.

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    task, time,
};
use tokio_rustls::TlsConnector;

/// The longest time for a document.
const TIME: Duration = Duration::from_secs(10);
/// The largest document.
const SIZE: usize = 1 << 20;

/// Fetches documents.
#[derive(Default)]
pub(super) struct Fetcher {
    /// What speaks TLS; made when it is needed first.
    tls: OnceCell<TlsConnector>,
}

impl Fetcher {
    /// The text of a document, or why there is none.
    pub(super) async fn fetch(&self, url: &str) -> Result<Arc<str>, String> {
        let answer = time::timeout(TIME, self.answer(url)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} seconds", TIME.as_secs())))
    }

    async fn answer(&self, url: &str) -> Result<Arc<str>, String> {
        let uri: Uri = url.parse().map_err(|error| format!("it is no URL: {error}"))?;
        let host = uri.host().ok_or("its URL has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let unreached = |error: std::io::Error| format!("can't be reached: {error}");
        let socket = TcpStream::connect((host, port)).await.map_err(unreached)?;
        if !is_secure {
            return exchange(socket, &uri).await;
        }
        let tls = self.tls.get_or_try_init(connector).await?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| format!("its host has no valid name: {error}"))?;
        let socket = tls.connect(name, socket).await.map_err(unreached)?;
        exchange(socket, &uri).await
    }
}

/// Trusts whom the machine trusts.
async fn connector() -> Result<TlsConnector, String> {
    let found = task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = found.map_err(|error| format!("the authorities of this machine can't be read: {error}"))?;
    let mut roots = RootCertStore::empty();
    let (known, _) = roots.add_parsable_certificates(found.certs);
    if known == 0 {
        return Err("this machine trusts no authority: set SSL_CERT_FILE, or install some".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Asks over a connection, which ends with the answer.
async fn exchange(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, uri: &Uri) -> Result<Arc<str>, String> {
    let broken = |error: hyper::Error| format!("the connection failed: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "edge-gateway")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        // Whoever is meant is named as he is: another address is nobody's word about him.
        if response.status() != StatusCode::OK {
            return Err(format!("status code: {}", response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), SIZE).collect().await;
        let body = body.map_err(|error| format!("the answer can't be read: {error}"))?;
        let text = String::from_utf8(body.to_bytes().into()).map_err(|_| "the answer is no text")?;
        Ok(text.into())
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}
