//! Requests of HTTP/2 that are malformed (RFC 9113 §8.1.1), of which no backend may hear.

use crate::support::frames::{self, GOAWAY, HEADERS, RST_STREAM, Raw, WIDE};
use crate::support::{Backend, Proxy, run, simple};

/// `:status: 400` and `:status: 200` in the static table.
const STATUS_400: u8 = 0x8c;
const STATUS_200: u8 = 0x88;

/// A field without index and Huffman code.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0, name.len() as u8];
    block.extend(name.as_bytes());
    block.push(value.len() as u8);
    block.extend(value.as_bytes());
    block
}

/// A request that has ended, of these fields.
fn request(fields: &[(&str, &str)]) -> Vec<u8> {
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    frames::frame(HEADERS, 5, 1, &block)
}

const WELL: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "h"),
    (":path", "/"),
];

#[test]
fn what_is_malformed_in_http2_goes_nowhere() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        let with = |fields: &[(&'static str, &'static str)]| [&WELL[..], fields].concat();
        let without_scheme = [WELL[0], (":scheme", ""), WELL[2], WELL[3]];
        for (what, fields) in [
            ("a quote in a name", with(&[("x\"y", "1")])),
            ("a capital in a name", with(&[("X-A", "1")])),
            (
                "two equal lengths",
                with(&[("content-length", "0"), ("content-length", "0")]),
            ),
            ("an empty scheme", without_scheme.to_vec()),
            ("a pseudo-field behind others", [&[("x-a", "1")], &WELL[..]].concat()),
            ("a path that is none", vec![WELL[0], WELL[1], WELL[2], (":path", "a b")]),
        ] {
            let mut client = Raw::connect(proxy.address, WIDE).await;
            client.send(&request(&fields)).await;
            loop {
                match client.next().await.expect("an answer") {
                    (HEADERS, 1, block) => {
                        assert_eq!(block[0], STATUS_400, "{what}");
                        break;
                    }
                    (RST_STREAM, 1, _) | (GOAWAY, ..) => break,
                    _ => {}
                }
            }
            assert_eq!(backend.requests(), 0, "{what}");
        }
        let mut client = Raw::connect(proxy.address, WIDE).await;
        client.send(&request(&WELL)).await;
        assert_eq!(client.next_of(HEADERS).await.1[0], STATUS_200);
    });
}
