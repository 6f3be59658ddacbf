//! The end of the process while requests are in flight, and of route tables while connections are open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{Ads, PATIENCE, Proxy, ask, certificates, free_port, wait_for};
use crate::{LISTENER, ROUTES};

/// A backend that says when it has a request, and answers it when it is told to.
fn waiting_backend() -> (SocketAddr, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((arrived, arrives), (answer, answers)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok_and(|read| read > 0) && arrived.send(()).is_ok() && answers.recv().is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate");
            }
        }
    });
    (address, arrives, answer)
}

/// A connection that stays open between requests.
struct KeepAlive(BufReader<TcpStream>);

impl KeepAlive {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self) {
        let request = b"GET / HTTP/1.1\r\nhost: example.com\r\n\r\n";
        self.0.get_mut().write_all(request).unwrap();
    }

    /// Head and body of a response.
    fn answer(&mut self) -> (String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "no response but {head:?}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    fn get(&mut self) -> (String, String) {
        self.ask();
        self.answer()
    }
}

#[tokio::test]
async fn a_process_that_is_told_to_end_finishes_what_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (backend, arrives, answer) = waiting_backend();
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::start(&crate::bootstrap(folder.path(), ads.address, admin), admin);
    let mut session = ads.session().await;
    crate::configure(&mut session, backend, front.port()).await;
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut busy = KeepAlive::open(front);
        busy.ask();
        arrives.recv_timeout(PATIENCE).unwrap();
        // A client of HTTP/2 that says nothing, and hears nothing.
        let mut silent = TcpStream::connect(front).unwrap();
        silent
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        let mut settings = [0; 9];
        silent.read_exact(&mut settings).unwrap();
        proxy.signal_end();
        // From now on nobody gets in.
        while TcpStream::connect(front).is_ok() {
            std::thread::yield_now();
        }
        answer.send(()).unwrap();
        let (head, body) = busy.answer();
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("connection: close\r\n"),
            "{head}"
        );
        assert_eq!(body, "late");
        proxy.wait()
    });
    assert_eq!(ended.await.unwrap(), Some(0));
}

/// The time that it is given is over by then.
#[tokio::test]
async fn a_process_that_was_told_to_stop_long_before_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (backend, arrives, _answer) = waiting_backend();
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let bootstrap = crate::bootstrap(folder.path(), ads.address, admin);
    let proxy = Proxy::start_with(&bootstrap, admin, &["--drain-time-s", "5"]);
    let mut session = ads.session().await;
    crate::configure(&mut session, backend, front.port()).await;
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut busy = KeepAlive::open(front);
        busy.ask();
        arrives.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ask(admin, "POST", "/drain_listeners").unwrap().0, 200);
        assert!(
            arrives.recv_timeout(Duration::from_secs(5)).is_err(),
            "nobody else asks"
        );
        let ending = Instant::now();
        assert_eq!(proxy.terminate(), Some(0));
        assert!(ending.elapsed() < Duration::from_secs(4), "{:?}", ending.elapsed());
    });
    ended.await.unwrap();
}

#[tokio::test]
async fn an_open_connection_goes_on_when_its_routes_get_another_name() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let mut ads = Ads::start(folder.path(), 0).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::start(&crate::bootstrap(folder.path(), ads.address, admin), admin);
    let mut session = ads.session().await;
    let backend = crate::backend("first");
    crate::configure(&mut session, backend, front.port()).await;
    wait_for(proxy.admin, "/ready", 200, "LIVE").await;
    let mut client = KeepAlive::open(front);
    assert_eq!(client.get().1, "first");
    for (before, now, version) in [("r", "s", "2"), ("s", "t", "3")] {
        let listener =
            crate::listener(front.port()).replace("route_config_name: r", &format!("route_config_name: {now}"));
        session.push(LISTENER, &[("tcp-80", version, listener)], &[]).await;
        let routes = crate::routes("a").replace("name: r", &format!("name: {now}"));
        session.push(ROUTES, &[(now, version, routes)], &[before]).await;
        let (head, body) = client.get();
        assert!(
            head.starts_with("HTTP/1.1 200") && !head.contains("connection: close"),
            "{head}"
        );
        assert_eq!(body, "first");
    }
}
