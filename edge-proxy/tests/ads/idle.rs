//! Ten thousand clients that have asked once and stay connected.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::memory::{bootstrap, resident_kb};
use crate::support::{Proxy, free_port, wait_for};

const CLIENTS: usize = 10_000;
/// Memory that each may hold of the proxy's own.
const MOST_BYTES: u64 = 12_000;
/// What the proxy and this process open besides.
const OTHER_FILES: u64 = 200;

/// Both ends of a connection are files: as many as the system allows, which the proxy inherits.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = CLIENTS as u64 + OTHER_FILES;
    assert!(
        limit.maximum.is_none_or(|most| most >= wanted),
        "{wanted} files must be allowed (ulimit -Hn)"
    );
    let raised = Rlimit {
        current: limit.maximum.or(Some(wanted)),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// Answers whatever it reads at once, in one piece.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                while stream.read(&mut head).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere");
                }
            });
        }
    });
    address
}

fn ask(client: &mut TcpStream) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
    let (mut answer, mut filled) = ([0; 1024], 0);
    while !answer[..filled].ends_with(b"here") {
        let read = client.read(&mut answer[filled..]).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer[..filled]));
        filled += read;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn ten_thousand_connections_that_rest_hold_little_and_are_served_again() {
    allow_many_files();
    let folder = tempfile::tempdir().unwrap();
    let [admin, front] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = Proxy::start(&bootstrap(folder.path(), admin, front, backend()), admin);
    wait_for(admin, "/ready", 200, "LIVE").await;
    let process = proxy.process();
    let asking = tokio::task::spawn_blocking(move || {
        let before = resident_kb(process);
        // One after the other: none waits to be accepted.
        let mut clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| {
                let mut client = TcpStream::connect(front).unwrap();
                ask(&mut client);
                client
            })
            .collect();
        let held = resident_kb(process).saturating_sub(before) * 1024 / CLIENTS as u64;
        assert!(held <= MOST_BYTES, "{held} bytes a connection");
        clients.iter_mut().step_by(10).for_each(ask);
    });
    asking.await.unwrap();
    wait_for(admin, "/stats?filter=http.in", 200, "downstream_cx_total: 10000\n").await;
}
