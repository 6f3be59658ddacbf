//! HTTP/1 messages from anybody: no bytes make the reader fall, and however a message is cut, it is the same message.

use bolero::{TypeGenerator, check};
use bytes::{Bytes, BytesMut};
use edge_proxy::http1::{
    Malformed,
    body::Decoder,
    chunked::{Chunked, Step},
    framing::Framing,
    head::{self, Limits, Names, Unfinished},
};
use http::{HeaderMap, Method};

const LIMITS: Limits = Limits {
    names: Names::AsWritten,
    bytes: 4096,
    fields: 32,
};

/// What is read from a connection: each message's start line and fields, its framing, and its body.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    messages: Vec<(String, Framing, Vec<u8>)>,
    error: Option<Malformed>,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Requests,
    Responses,
}

/// A connection that gives its bytes in pieces.
struct Connection<'a> {
    buffer: BytesMut,
    rest: &'a [u8],
    piece: usize,
}

impl Connection<'_> {
    /// False at the end.
    fn more(&mut self) -> bool {
        let (piece, rest) = self.rest.split_at(self.piece.min(self.rest.len()));
        self.buffer.extend_from_slice(piece);
        self.rest = rest;
        !piece.is_empty()
    }

    fn head(&mut self, side: Side) -> Result<Option<(String, Framing)>, Malformed> {
        let mut unfinished = Unfinished::default();
        loop {
            let found = self.look(side, &mut unfinished)?;
            if found.is_some() {
                return Ok(found);
            }
            if !self.more() {
                // A head in pieces is looked at again when it may be complete. What a fresh look finds wrong in it
                // would have been found in it whole.
                return self.look(side, &mut Unfinished::default());
            }
        }
    }

    fn look(&mut self, side: Side, unfinished: &mut Unfinished) -> Result<Option<(String, Framing)>, Malformed> {
        let mut map = HeaderMap::new();
        Ok(match side {
            // As both sides of the proxy do: nothing is looked for in nothing.
            _ if self.buffer.is_empty() => None,
            Side::Requests => head::request(&mut self.buffer, unfinished, LIMITS, &mut map)?.map(|head| {
                let text = format!("{} {} {:?} {:?}", head.method, head.uri, head.version, head.headers);
                (text, head.framing)
            }),
            Side::Responses => {
                head::response(&mut self.buffer, unfinished, LIMITS, &Method::GET, &mut map)?.map(|head| {
                    let text = format!("{} {:?} {:?}", head.status, head.version, head.headers);
                    (text, head.framing)
                })
            }
        })
    }

    fn body(&mut self, framing: Framing) -> Result<Vec<u8>, Malformed> {
        let mut decoder = Decoder::new(framing);
        let mut content = Vec::new();
        loop {
            match decoder.decode(&mut self.buffer)? {
                Step::Data(data) => {
                    assert!(!data.is_empty(), "a piece of nothing");
                    content.extend_from_slice(&data);
                }
                Step::Trailers(_) => {}
                Step::End => {
                    assert!(decoder.is_done());
                    return Ok(content);
                }
                Step::More if self.more() => {}
                Step::More => {
                    decoder.end()?;
                    return Ok(content);
                }
            }
        }
    }
}

fn read(side: Side, bytes: &[u8], piece: usize) -> Read {
    let mut connection = Connection {
        buffer: BytesMut::new(),
        rest: bytes,
        piece,
    };
    let mut read = Read::default();
    loop {
        match connection.head(side) {
            Ok(Some((text, framing))) => match connection.body(framing) {
                Ok(content) => read.messages.push((text, framing, content)),
                Err(error) => {
                    read.error = Some(error);
                    return read;
                }
            },
            Ok(None) => return read,
            Err(error) => {
                read.error = Some(error);
                return read;
            }
        }
    }
}

/// Cut or whole, the messages that are complete are the same, and so is whether the rest is refused. (Not why: a head
/// that is too large may be found malformed first when less of it has been read.)
fn compare(side: Side, bytes: &[u8], piece: usize) {
    let whole = read(side, bytes, bytes.len().max(1));
    let cut = read(side, bytes, piece.max(1));
    assert_eq!(whole.messages, cut.messages, "{:?}", Bytes::copy_from_slice(bytes));
    assert_eq!(
        whole.error.is_some(),
        cut.error.is_some(),
        "{whole:?} {cut:?} {:?}",
        Bytes::copy_from_slice(bytes)
    );
}

/// Pieces of messages, so that the generator need not find the grammar by itself.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Token {
    Get,
    Post,
    Ok,
    Old,
    Host,
    Length(u8),
    TwoLengths,
    Chunked,
    OtherCoding,
    Close,
    Expect,
    Field,
    End,
    LineFeed,
    CarriageReturn,
    Space,
    Chunk(u8),
    LongChunk,
    Extension,
    LastChunk,
    Trailer,
    Byte(u8),
}

impl Token {
    fn write(self, out: &mut Vec<u8>) {
        let text: &[u8] = match self {
            Self::Get => b"GET /p?q HTTP/1.1\r\n",
            Self::Post => b"POST / HTTP/1.1\r\n",
            Self::Ok => b"HTTP/1.1 200 OK\r\n",
            Self::Old => b"HTTP/1.0 304\r\n",
            Self::Host => b"host: h\r\n",
            Self::Length(length) => return out.extend(format!("content-length: {}\r\n", length % 8).bytes()),
            Self::TwoLengths => b"content-length: 1\r\ncontent-length: 1\r\n",
            Self::Chunked => b"transfer-encoding: chunked\r\n",
            Self::OtherCoding => b"Transfer-Encoding: gzip, chunked\r\n",
            Self::Close => b"connection: close\r\n",
            Self::Expect => b"expect: 100-continue\r\n",
            Self::Field => b"x-a:  1 \t\r\n",
            Self::End => b"\r\n",
            Self::LineFeed => b"\n",
            Self::CarriageReturn => b"\r",
            Self::Space => b" ",
            Self::Chunk(size) => {
                let size = usize::from(size % 20) + 1;
                out.extend(format!("{size:x}\r\n").bytes());
                out.extend(std::iter::repeat_n(b'x', size));
                b"\r\n"
            }
            Self::LongChunk => b"fffffffffffff\r\n",
            Self::Extension => b"1;a=\"b\"\r\nx\r\n",
            Self::LastChunk => b"0\r\n\r\n",
            Self::Trailer => b"0\r\nx-sum: 1\r\n\r\n",
            Self::Byte(byte) => return out.push(byte),
        };
        out.extend_from_slice(text);
    }
}

#[test]
fn messages_made_of_tokens() {
    check!()
        .with_iterations(20_000)
        .with_type::<(bool, u8, Vec<Token>)>()
        .for_each(|(requests, piece, tokens)| {
            let mut bytes = Vec::new();
            for token in tokens {
                token.write(&mut bytes);
            }
            let side = if *requests { Side::Requests } else { Side::Responses };
            compare(side, &bytes, usize::from(piece % 16));
        });
}

/// Splits off a byte that says in pieces of which size the rest comes.
fn in_pieces(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (piece, rest) = bytes.split_first()?;
    Some((usize::from(piece % 16) + 1, rest))
}

/// Any bytes as requests of a connection.
#[test]
fn requests() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        if let Some((piece, bytes)) = in_pieces(bytes) {
            compare(Side::Requests, bytes, piece);
        }
    });
}

/// Any bytes as responses of a connection.
#[test]
fn responses() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        if let Some((piece, bytes)) = in_pieces(bytes) {
            compare(Side::Responses, bytes, piece);
        }
    });
}

/// Content, trailers and what follows a body in chunks; `None` if it is broken or breaks off.
fn dechunked(bytes: &[u8], piece: usize) -> Option<(Vec<u8>, HeaderMap, Vec<u8>)> {
    let (mut decoder, mut buffer) = (Chunked::default(), BytesMut::new());
    let (mut content, mut trailers, mut rest) = (Vec::new(), HeaderMap::new(), bytes);
    loop {
        match decoder.decode(&mut buffer).ok()? {
            Step::Data(data) => content.extend_from_slice(&data),
            Step::Trailers(fields) => trailers = fields,
            Step::End => return Some((content, trailers, [&buffer[..], rest].concat())),
            Step::More => {
                let (next, after) = rest.split_at(piece.min(rest.len()));
                buffer.extend_from_slice(next);
                rest = after;
                if next.is_empty() {
                    return None;
                }
            }
        }
    }
}

/// A body in chunks of three bytes.
fn chunks(content: &[u8], trailers: &HeaderMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in content.chunks(3) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A chunked body, with what follows it: content, trailers and the bytes that are left are the same however it comes,
/// and what it says is what it says when it is written again.
#[test]
fn chunked() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let Some((piece, bytes)) = in_pieces(bytes) else {
            return;
        };
        let whole = dechunked(bytes, bytes.len().max(1));
        assert_eq!(dechunked(bytes, piece), whole);
        if let Some((content, trailers, _)) = whole {
            let written = [chunks(&content, &trailers), b"rest".to_vec()].concat();
            assert_eq!(dechunked(&written, piece), Some((content, trailers, b"rest".to_vec())));
        }
    });
}

/// A chunked body is taken apart to what was put in, whatever the chunks are.
#[test]
fn chunks_give_their_content() {
    check!()
        .with_iterations(5_000)
        .with_type::<(u8, Vec<Vec<u8>>)>()
        .for_each(|(piece, chunks)| {
            let mut bytes = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let read = read(Side::Requests, &bytes, usize::from(*piece).max(1));
            assert_eq!(read.error, None);
            assert_eq!(read.messages.len(), 1);
            assert_eq!(read.messages[0].2, chunks.concat());
        });
}
