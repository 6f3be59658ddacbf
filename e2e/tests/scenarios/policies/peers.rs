//! Services that a proxy asks. Each ends when it is dropped, and refuses connections from then on.

use anyhow::Result;
use envoy_types::pb::{
    envoy::{
        config::core::v3::{HeaderValue, HeaderValueOption},
        service::auth::v3::{
            AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
            authorization_server::{Authorization, AuthorizationServer},
            check_response::HttpResponse,
        },
        r#type::v3::{HttpStatus, StatusCode},
    },
    google::rpc,
};
use std::{
    io::{BufRead, BufReader, Read, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use tokio::runtime::{Builder, Runtime};
use tonic::{
    Request, Response, Status,
    transport::{
        Server,
        server::{Router, TcpIncoming},
    },
};

/// A request as a peer reads it.
#[derive(Debug)]
pub(crate) struct Received {
    /// Method, path and version.
    pub(crate) line: String,
    /// Headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What it answers: a status, headers, a body.
pub(crate) type Answer<B = String> = (u16, Vec<(&'static str, String)>, B);

/// An HTTP server. Each connection ends with its first answer.
pub(crate) struct HttpPeer {
    /// Its port.
    pub(crate) port: u16,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl HttpPeer {
    /// Answers each request.
    pub(crate) fn start<B: AsRef<[u8]>>(
        answer: impl Fn(&Received) -> Answer<B> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let answer = Arc::new(answer);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // Connections on which a proxy never asks anything hold nobody up.
                let answer = Arc::clone(&answer);
                // A proxy that has left isn't worth a word.
                thread::spawn(move || serve(stream, &*answer));
            }
        });
        Ok(Self {
            port,
            is_over,
            accepting: Some(accepting),
        })
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

fn serve<B: AsRef<[u8]>>(stream: TcpStream, answer: &impl Fn(&Received) -> Answer<B>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut received = Received {
        line: String::new(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    stream.read_line(&mut received.line)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        received
            .headers
            .push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    received.body = match received.header("content-length").and_then(|n| n.parse().ok()) {
        Some(length) => read(&mut stream, length)?,
        None if received.header("transfer-encoding").is_some() => read_chunks(&mut stream)?,
        None => Vec::new(),
    };
    let (status, headers, body) = answer(&received);
    let body = body.as_ref();
    let mut head = format!(
        "HTTP/1.1 {status} So\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    write!(stream.get_mut(), "{head}\r\n")?;
    stream.get_mut().write_all(body)?;
    Ok(())
}

fn read(stream: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16)?;
        body.append(&mut read(stream, length)?);
        // The end of the chunk, or of the trailers, of which there are none.
        stream.read_line(&mut line)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// A server of gRPC.
pub(crate) struct GrpcPeer {
    /// Its port.
    pub(crate) port: u16,
    _runtime: Runtime,
}

impl GrpcPeer {
    /// Starts one that serves this.
    pub(crate) fn serving(services: Router) -> Result<Self> {
        Self::serving_on(0, services)
    }

    /// Starts one that serves this on a port; 0: any.
    pub(crate) fn serving_on(port: u16, services: Router) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address))?;
        let port = listener.local_addr()?.port();
        runtime.spawn(services.serve_with_incoming(TcpIncoming::from(listener)));
        Ok(Self {
            port,
            _runtime: runtime,
        })
    }

    /// Starts an authorizer. It lets in who says `x-user: ann`, and tells the backend what it was told of her.
    pub(super) fn authorizer() -> Result<Self> {
        Self::serving(Server::builder().add_service(AuthorizationServer::new(Authorizer)))
    }
}

struct Authorizer;

#[tonic::async_trait]
impl Authorization for Authorizer {
    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let attributes = request.into_inner().attributes.unwrap_or_default();
        if user(&attributes) == Some("ann") {
            let team = attributes.context_extensions.get("team").map_or("", String::as_str);
            // Whose route it is, where that is told.
            let of_route = attributes.route_metadata_context.as_ref();
            let names: Vec<_> = of_route.iter().flat_map(|said| said.filter_metadata.keys()).collect();
            let allowed = OkHttpResponse {
                headers: vec![header("x-team", team), header("x-route", &format!("{names:?}"))],
                ..OkHttpResponse::default()
            };
            return Ok(answer(tonic::Code::Ok, HttpResponse::OkResponse(allowed)));
        }
        let denied = DeniedHttpResponse {
            status: Some(HttpStatus {
                code: StatusCode::PaymentRequired.into(),
            }),
            headers: vec![header("x-why", "unknown")],
            body: "nobody knows you".to_owned(),
        };
        Ok(answer(
            tonic::Code::PermissionDenied,
            HttpResponse::DeniedResponse(denied),
        ))
    }
}

fn user(attributes: &AttributeContext) -> Option<&str> {
    let request = attributes.request.as_ref()?.http.as_ref()?;
    request.headers.get("x-user").map(String::as_str)
}

fn header(key: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            ..HeaderValue::default()
        }),
        keep_empty_value: true,
        ..HeaderValueOption::default()
    }
}

fn answer(code: tonic::Code, response: HttpResponse) -> Response<CheckResponse> {
    Response::new(CheckResponse {
        status: Some(rpc::Status {
            code: code.into(),
            ..rpc::Status::default()
        }),
        http_response: Some(response),
        ..CheckResponse::default()
    })
}
