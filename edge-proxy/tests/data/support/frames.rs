//! Frames of HTTP/2 (RFC 9113 §4.1) as bytes, for clients that no library would play.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
/// The largest window there is.
pub(crate) const WIDE: u32 = (1 << 31) - 1;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A whole request: GET of a path shorter than 127 bytes.
pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &head(path))
}

/// The fields of that request, without Huffman codes (RFC 7541).
pub(crate) fn head(path: &str) -> Vec<u8> {
    // `:method: GET`, `:scheme: http`, `:authority: h`, and `:path` by its name in the static table.
    let mut block = vec![0x82, 0x86, 0x41, 1, b'h', 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    // CANCEL
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// A client that sends what it is told to and answers nothing.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    /// Sends the preface and a window for streams; the window of the connection is as wide as can be.
    pub(crate) async fn connect(address: SocketAddr, window: u32) -> Self {
        let mut raw = Self::silent(address).await;
        raw.open(window).await;
        raw
    }

    /// Says nothing yet.
    pub(crate) async fn silent(address: SocketAddr) -> Self {
        Self(narrow(address).await)
    }

    /// What [`connect`](Self::connect) sends.
    pub(crate) async fn open(&mut self, window: u32) {
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut setting = vec![0, 4];
        setting.extend(window.to_be_bytes());
        opening.extend(frame(SETTINGS, 0, 0, &setting));
        opening.extend(frame(WINDOW_UPDATE, 0, 0, &(WIDE - 65_535).to_be_bytes()));
        self.send(&opening).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The next frame: kind, stream and payload; `None` at the end of the connection, however it ends.
    pub(crate) async fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((head[3], stream, payload))
    }

    /// The next frame of a kind; others are passed over.
    pub(crate) async fn next_of(&mut self, wanted: u8) -> (u32, Vec<u8>) {
        loop {
            let (kind, stream, payload) = self.next().await.expect("the connection ended");
            if kind == wanted {
                return (stream, payload);
            }
        }
    }

    /// Reads to the end; the codes of the GOAWAY frames on the way.
    pub(crate) async fn until_the_end(&mut self) -> Vec<u32> {
        let mut codes = Vec::new();
        while let Some((kind, _, payload)) = self.next().await {
            if kind == GOAWAY {
                codes.push(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        codes
    }
}

/// A connection whose client's kernel takes only little for it.
pub(crate) async fn narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(address).await.unwrap()
}
