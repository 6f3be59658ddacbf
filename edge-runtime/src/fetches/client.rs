//! One request for what is at a URL, over HTTP or HTTPS, with what a machine trusts or with authorities of its own.

use super::fetch::within;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    task,
};
use tokio_rustls::TlsConnector;

/// How often one address may lead to another.
const REDIRECTS: usize = 5;
/// How long a server may say nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// Asks servers, on a connection for each request.
pub(super) struct Client {
    /// What speaks TLS with whom the machine trusts; made when it is needed first.
    tls: OnceCell<TlsConnector>,
    /// How long a server may say nothing. An answer may take longer, as long as it goes on.
    silence: Duration,
}

/// What is asked for.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    /// Where.
    pub(super) uri: Uri,
    /// Media types that will do.
    pub(super) accept: &'a str,
    /// Who asks. Told to nobody but the host that is asked.
    pub(super) authorization: Option<HeaderValue>,
    /// Who vouches for the server (PEM), in place of whom the machine trusts.
    pub(super) authorities: Option<&'a str>,
    /// The largest answer that is taken, in bytes.
    pub(super) most: usize,
}

/// An answer.
pub(super) struct Reply {
    /// Where it came from.
    pub(super) from: Uri,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Default for Client {
    fn default() -> Self {
        Self::patient(SILENCE)
    }
}

impl Client {
    /// One that waits so long for a word.
    pub(super) fn patient(silence: Duration) -> Self {
        Self {
            tls: OnceCell::new(),
            silence,
        }
    }

    /// An answer, whatever its status.
    pub(super) async fn get(&self, ask: &Ask<'_>) -> Result<Reply, String> {
        let host = ask.uri.host().ok_or("its URL has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_secure = match ask.uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("its URL is neither http nor https".to_owned()),
        };
        let port = ask.uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let unreached = |error: std::io::Error| format!("can't be reached: {error}");
        let connected = async { TcpStream::connect((host, port)).await.map_err(unreached) };
        let socket = within(self.silence, connected).await?;
        if !is_secure {
            return Box::pin(exchange(socket, ask, self.silence)).await;
        }
        let tls = match ask.authorities {
            Some(bundle) => connector(roots_of(bundle)?)?,
            None => self.tls.get_or_try_init(system_connector).await?.clone(),
        };
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| format!("its host has no valid name: {error}"))?;
        let secured = async { tls.connect(name, socket).await.map_err(unreached) };
        let socket = within(self.silence, secured).await?;
        Box::pin(exchange(socket, ask, self.silence)).await
    }

    /// An answer from where redirects lead, which never leave TLS. Another host is not told who asks.
    pub(super) async fn follow(&self, mut ask: Ask<'_>) -> Result<Reply, String> {
        for _ in 0..=REDIRECTS {
            let reply = self.get(&ask).await?;
            let is_redirect = matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(to) = reply.headers.get(header::LOCATION).filter(|_| is_redirect) else {
                return Ok(reply);
            };
            let next = redirected(&ask.uri, to)?;
            if !is_of_one_server(&next, &ask.uri) {
                ask.authorization = None;
            }
            ask.uri = next;
        }
        Err(format!("it was redirected more than {REDIRECTS} times"))
    }
}

/// Whether two URLs are of one server.
pub(super) fn is_of_one_server(a: &Uri, b: &Uri) -> bool {
    (a.scheme(), a.authority()) == (b.scheme(), b.authority())
}

/// Where a redirect leads.
fn redirected(from: &Uri, to: &HeaderValue) -> Result<Uri, String> {
    let none = || "it was redirected to no URL".to_owned();
    let to: Uri = to.to_str().ok().and_then(|to| to.parse().ok()).ok_or_else(none)?;
    let to = match to.scheme() {
        Some(_) => to,
        // The path of the same server.
        None if to.authority().is_none() && to.path().starts_with('/') => {
            let mut parts = from.clone().into_parts();
            parts.path_and_query = to.into_parts().path_and_query;
            Uri::from_parts(parts).map_err(|_| none())?
        }
        None => return Err(none()),
    };
    match (from.scheme_str(), to.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => Ok(to),
        (_, Some("http")) => Err("it was redirected out of TLS".to_owned()),
        _ => Err("it was redirected to what is neither http nor https".to_owned()),
    }
}

/// Trusts whom the machine trusts.
async fn system_connector() -> Result<TlsConnector, String> {
    let found = task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = found.map_err(|error| format!("the authorities of this machine can't be read: {error}"))?;
    let mut roots = RootCertStore::empty();
    let (known, _) = roots.add_parsable_certificates(found.certs);
    if known == 0 {
        return Err("this machine trusts no authority: set SSL_CERT_FILE, or install some".to_owned());
    }
    connector(roots)
}

fn roots_of(bundle: &str) -> Result<RootCertStore, String> {
    let unusable = "the authorities that the policy names can't be used";
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let added = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
        added.ok_or(unusable)?;
    }
    match roots.is_empty() {
        true => Err(unusable.to_owned()),
        false => Ok(roots),
    }
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Asks over a connection, which ends with the answer.
async fn exchange(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ask: &Ask<'_>,
    silence: Duration,
) -> Result<Reply, String> {
    let broken = |error: hyper::Error| format!("the connection failed: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    let request = request(ask)?;
    let answer = async {
        let head = async { sender.send_request(request).await.map_err(broken) };
        let (head, body) = within(silence, head).await?.into_parts();
        Ok(Reply {
            from: ask.uri.clone(),
            status: head.status,
            headers: head.headers,
            body: whole(body, ask.most, silence).await?,
        })
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

/// A body, unless it is longer than that.
async fn whole(body: Incoming, most: usize, silence: Duration) -> Result<Bytes, String> {
    let mut body = Limited::new(body, most);
    let mut read = BytesMut::new();
    loop {
        let next = async { Ok(body.frame().await) };
        let Some(frame) = within(silence, next).await? else {
            return Ok(read.freeze());
        };
        let frame = frame.map_err(|error| format!("the answer can't be read: {error}"))?;
        // Trailers say nothing of it.
        if let Ok(part) = frame.into_data() {
            read.extend_from_slice(&part);
        }
    }
}

fn request(ask: &Ask<'_>) -> Result<Request<Empty<Bytes>>, String> {
    let authority = ask
        .uri
        .authority()
        .map(|authority| authority.as_str())
        .unwrap_or_default();
    let path = ask.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, ask.accept)
        .header(header::USER_AGENT, "edge-gateway")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    if let Some(authorization) = &ask.authorization {
        request
            .headers_mut()
            .insert(header::AUTHORIZATION, authorization.clone());
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_in_tls_and_lead_to_urls() {
        let from = |from: &str, to: &str| {
            let to = HeaderValue::from_str(to).unwrap();
            redirected(&from.parse().unwrap(), &to).map(|to| to.to_string())
        };
        let a = "https://a.example/x?y";
        assert_eq!(from(a, "https://b.example/z").unwrap(), "https://b.example/z");
        assert_eq!(from(a, "/z?q").unwrap(), "https://a.example/z?q");
        assert_eq!(
            from("http://a.example/", "http://b.example/").unwrap(),
            "http://b.example/"
        );
        for (to, why) in [
            ("http://a.example/", "out of TLS"),
            ("ftp://a.example/", "neither http nor https"),
            ("z", "no URL"),
            ("file:///etc/passwd", "n"),
        ] {
            let error = from(a, to).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
    }
}
