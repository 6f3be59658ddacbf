//! WebSocket echo (RFC 6455): enough of the protocol to see that an upgrade and frames in both directions work.
//!
//! Messages come back as they are, fragments included; pings are answered, a close is confirmed. No extensions.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE},
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Appended to the client's key before hashing (RFC 6455 §1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Larger frames end the connection: this is a tool, not a file store.
const MAX_PAYLOAD: u64 = 1 << 20;

/// Whether a request asks for a WebSocket.
pub(super) fn is_upgrade(request: &Request<Incoming>) -> bool {
    asks_for_websocket(request.headers())
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let contains = |name: HeaderName, word: &str| {
        let value = headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    contains(UPGRADE, "websocket") && contains(CONNECTION, "upgrade") && headers.contains_key(SEC_WEBSOCKET_KEY)
}

/// The answer 101, and what leads to the connection once it was sent.
pub(super) fn accept(request: Request<Incoming>) -> (Response<Full<Bytes>>, OnUpgrade) {
    let key = request
        .headers()
        .get(SEC_WEBSOCKET_KEY)
        .map(|k| k.as_bytes().to_vec())
        .unwrap_or_default();
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(value) = HeaderValue::from_str(&accept_key(&key)) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, value);
    }
    (response, hyper::upgrade::on(request))
}

/// Echoes on a connection until it ends.
pub(super) async fn serve(upgrade: OnUpgrade) {
    if let Ok(upgraded) = upgrade.await {
        // The peer going away in the middle is a normal end here.
        let _ = echo(TokioIo::<Upgraded>::new(upgraded)).await;
    }
}

fn accept_key(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// Sends every frame back, until a close frame or the end.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let frame = read_frame(&mut stream).await?;
        match frame.first & 0x0F {
            CLOSE => return write_frame(&mut stream, frame.first, &frame.payload).await,
            PING => write_frame(&mut stream, 0x80 | PONG, &frame.payload).await?,
            PONG => {}
            _ => write_frame(&mut stream, frame.first, &frame.payload).await?,
        }
    }
}

/// A frame: its first byte (FIN and opcode) and the payload without mask.
#[derive(Debug, PartialEq)]
struct Frame {
    first: u8,
    payload: Vec<u8>,
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let length = match head[1] & 0x7F {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    if length > MAX_PAYLOAD {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too large"));
    }
    let mut mask = [0; 4];
    if head[1] & 0x80 != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut payload).await?;
    for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    Ok(Frame {
        first: head[0],
        payload,
    })
}

/// Servers send without a mask (RFC 6455 §5.1).
async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), first: u8, payload: &[u8]) -> io::Result<()> {
    let mut head = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short), _) if short < 126 => head.push(short),
        (_, Ok(medium)) => {
            head.push(126);
            head.extend(medium.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend((payload.len() as u64).to_be_bytes());
        }
    }
    head.extend_from_slice(payload);
    stream.write_all(&head).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_specification_is_accepted_as_it_says() {
        // RFC 6455 §1.3.
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_upgrade_needs_all_three_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        assert!(!asks_for_websocket(&headers));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("x"));
        assert!(asks_for_websocket(&headers));
    }

    #[tokio::test]
    async fn a_masked_message_comes_back_without_mask() {
        let (mut client, server) = tokio::io::duplex(4096);
        let task = tokio::spawn(echo(server));
        // "Hello" masked, RFC 6455 §5.7.
        client
            .write_all(&[0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58])
            .await
            .unwrap();
        assert_eq!(
            read_frame(&mut client).await.unwrap(),
            Frame {
                first: 0x81,
                payload: b"Hello".to_vec()
            }
        );
        write_frame(&mut client, 0x80 | PING, b"p").await.unwrap();
        assert_eq!(read_frame(&mut client).await.unwrap().first, 0x80 | PONG);
        write_frame(&mut client, 0x80 | CLOSE, &[]).await.unwrap();
        assert_eq!(read_frame(&mut client).await.unwrap().first, 0x80 | CLOSE);
        task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn lengths_of_all_three_forms_round_trip() {
        for size in [0, 125, 126, 65535, 65536] {
            let (mut a, mut b) = tokio::io::duplex(1 << 17);
            write_frame(&mut a, 0x82, &vec![7; size]).await.unwrap();
            assert_eq!(read_frame(&mut b).await.unwrap().payload.len(), size);
        }
    }
}
