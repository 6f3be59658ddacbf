//! Clients that send more than anybody needs, as fast as they can: memory stays within a limit, and others are served.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::memory::{bootstrap, frame, resident_kb};
use crate::support::{Proxy, ask, backend, free_port, wait_for};

/// Clients at a time.
const CLIENTS: usize = 4;
/// Bytes that each of them sends, unless it is cut off before.
const SENT: usize = 4 << 20;
/// Kilobytes that a proxy may hold for them above what it held before: a fraction of what is sent.
const MOST: u64 = 6 * 1024;

/// What a client says first, and what it says again and again.
struct Flood {
    name: &'static str,
    opening: fn() -> Vec<u8>,
    /// The `n`th piece.
    piece: fn(u32) -> Vec<u8>,
}

const FLOODS: [Flood; 10] = [
    Flood {
        name: "streams that are reset at once (CVE-2023-44487)",
        opening: preface,
        piece: |n| {
            [
                frame(1, 5, 2 * n + 1, &HEAD),
                frame(3, 0, 2 * n + 1, &8u32.to_be_bytes()),
            ]
            .concat()
        },
    },
    Flood {
        name: "a head without an end (CVE-2024-27316)",
        opening: || [preface(), frame(1, 1, 1, &HEAD)].concat(),
        // Literal fields that aren't indexed: `x: y`.
        piece: |_| frame(9, 0, 1, &[0, 1, b'x', 1, b'y'].repeat(100)),
    },
    Flood {
        name: "a head of empty frames",
        opening: || [preface(), frame(1, 1, 1, &HEAD)].concat(),
        piece: |_| frame(9, 0, 1, &[]),
    },
    Flood {
        name: "settings (CVE-2019-9515)",
        opening: preface,
        piece: |n| frame(4, 0, 0, &[&[0, 4][..], &(65_535 + n % 2).to_be_bytes()].concat()),
    },
    Flood {
        name: "pings (CVE-2019-9512)",
        opening: preface,
        piece: |n| frame(6, 0, 0, &u64::from(n).to_be_bytes()),
    },
    Flood {
        name: "priorities (CVE-2019-9513)",
        opening: preface,
        piece: |n| frame(2, 0, 2 * n + 1, &[0, 0, 0, 0, 16]),
    },
    Flood {
        name: "windows a byte wider",
        opening: preface,
        piece: |_| frame(8, 0, 0, &1u32.to_be_bytes()),
    },
    Flood {
        name: "empty data (CVE-2019-9518)",
        opening: || [preface(), frame(1, 4, 1, &HEAD)].concat(),
        piece: |_| frame(0, 0, 1, &[]),
    },
    Flood {
        name: "frames that nobody knows",
        opening: preface,
        piece: |_| frame(0x42, 0, 0, &[0; 64]),
    },
    Flood {
        name: "chunks of a byte with long extensions",
        opening: || b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
        piece: |_| [&b"1;"[..], &[b'e'; 64], b"\r\nx\r\n"].concat(),
    },
];

/// `:method: GET`, `:scheme: http`, `:path: /`, `:authority: h` (RFC 7541).
const HEAD: [u8; 6] = [0x82, 0x86, 0x84, 0x41, 1, b'h'];

fn preface() -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat()
}

/// Whether clients take what they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    All,
    Nothing,
}

/// Sends a flood, and counts the bytes that were taken.
fn send(front: SocketAddr, flood: &Flood, reading: Reading, taken: &AtomicU64) {
    let mut client = TcpStream::connect(front).unwrap();
    if reading == Reading::All {
        let mut reader = client.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while reader.read(&mut bytes).is_ok_and(|read| read > 0) {}
        });
    } else {
        // What isn't read stops what is sent, sooner or later; it is no fault.
        client.set_nonblocking(true).unwrap();
    }
    let mut sent = 0;
    let mut n = 0;
    let mut bytes = (flood.opening)();
    while sent < SENT {
        while bytes.len() < 16 * 1024 {
            bytes.extend((flood.piece)(n));
            n += 1;
        }
        match client.write(&bytes) {
            Ok(written) => {
                bytes.drain(..written);
                sent += written;
                taken.fetch_add(written as u64, Ordering::Relaxed);
            }
            // Cut off, or stopped.
            Err(_) => break,
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}

#[tokio::test]
async fn floods_cost_little_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let [admin, front] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = Proxy::start(&bootstrap(folder.path(), admin, front, backend("served")), admin);
    wait_for(admin, "/ready", 200, "LIVE").await;
    let before = resident_kb(proxy.process());
    for flood in &FLOODS {
        for reading in [Reading::All, Reading::Nothing] {
            let taken = Arc::new(AtomicU64::new(0));
            let most = thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|_| scope.spawn(|| send(front, flood, reading, &taken)))
                    .collect();
                let mut most = 0;
                loop {
                    let is_over = clients.iter().all(thread::ScopedJoinHandle::is_finished);
                    let answer = ask(front, "GET", "/").map(|(status, _)| status);
                    assert_eq!(answer, Some(200), "others during {}", flood.name);
                    most = most.max(resident_kb(proxy.process()));
                    if is_over {
                        return most;
                    }
                }
            });
            assert!(taken.load(Ordering::Relaxed) > 0, "{} didn't begin", flood.name);
            let more = most.saturating_sub(before);
            assert!(
                more < MOST,
                "{} ({reading:?}): {more} kB more than {before} kB",
                flood.name
            );
            wait_for(
                admin,
                "/stats?filter=http.in.downstream_cx_active",
                200,
                "downstream_cx_active: 0\n",
            )
            .await;
        }
    }
}
