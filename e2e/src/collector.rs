//! A service that gathers what proxies observe, down at HTTP/2: it keeps every message of every call (gRPC over
//! HTTP/2).

use anyhow::Result;
use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::watch,
};

/// Serves calls until dropped.
#[derive(Debug)]
pub struct Collector {
    /// Its address.
    pub address: SocketAddr,
    heard: Arc<watch::Sender<Vec<Heard>>>,
    _runtime: Runtime,
}

/// A message that it was sent.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Of the call.
    pub path: String,
    /// Of the call.
    pub fields: HeaderMap,
    /// Encoded.
    pub message: Vec<u8>,
}

impl Collector {
    /// Starts one on a port of its own.
    pub fn start() -> Result<Self> {
        Self::at((Ipv4Addr::LOCALHOST, 0).into())
    }

    /// Starts one there.
    pub fn at(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let heard = Arc::new(watch::Sender::new(Vec::new()));
        let notes = Arc::clone(&heard);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Connections end with the proxy.
                tokio::spawn(serve(stream, Arc::clone(&notes)));
            }
        });
        Ok(Self {
            address,
            heard,
            _runtime: runtime,
        })
    }

    /// What it was sent so far by calls of a path.
    pub fn heard(&self, path: &str) -> Vec<Heard> {
        let heard = self.heard.borrow();
        heard.iter().filter(|one| one.path == path).cloned().collect()
    }
}

async fn serve(stream: TcpStream, heard: Arc<watch::Sender<Vec<Heard>>>) -> Result<()> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, mut respond) = call?;
        let heard = Arc::clone(&heard);
        tokio::spawn(async move {
            let (parts, mut body) = request.into_parts();
            let mut read = BytesMut::new();
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                read.extend_from_slice(&data);
                while let Some(message) = next(&mut read) {
                    let one = Heard {
                        path: parts.uri.path().to_owned(),
                        fields: parts.headers.clone(),
                        message,
                    };
                    heard.send_modify(|heard| heard.push(one));
                }
            }
            let head = Response::builder()
                .header("content-type", "application/grpc")
                .body(())?;
            let mut answer = respond.send_response(head, false)?;
            answer.send_data(Bytes::from_static(&[0; 5]), false)?;
            let trailers = HeaderMap::from_iter([("grpc-status".parse()?, HeaderValue::from_static("0"))]);
            answer.send_trailers(trailers)?;
            anyhow::Ok(())
        });
    }
    Ok(())
}

/// The next message, once it is whole.
fn next(read: &mut BytesMut) -> Option<Vec<u8>> {
    let length = read.get(1..5)?.try_into().ok().map(u32::from_be_bytes)?;
    let length = usize::try_from(length).ok()?;
    if read.len() < length + 5 {
        return None;
    }
    read.advance(5);
    Some(read.split_to(length).to_vec())
}
