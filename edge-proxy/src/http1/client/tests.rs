use std::future::poll_fn;

use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::clock::Clock;
use crate::http1::framing::Framing;
use crate::http1::inbound::Inbound;
use crate::message::body::{Arrival, RequestBody};
use crate::message::head::Head;
use crate::message::incoming::Incoming;
use crate::message::outgoing::Extras;

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test)
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (one, listener.accept().await.unwrap().0)
}

/// A client, and the backend's end of its connection.
async fn client() -> (Client<RequestBody>, TcpStream) {
    client_that_passes(Passing::default()).await
}

/// The same, for more of what its ends say.
async fn client_that_passes(passing: Passing) -> (Client<RequestBody>, TcpStream) {
    let (ours, theirs) = pair().await;
    (Client::new(Transport::Tcp(ours), Rc::default(), passing), theirs)
}

fn head(method: Method) -> Head {
    let mut head = Head::empty();
    head.method = method;
    head.authority = HeaderValue::from_static("h");
    head.target = PathAndQuery::from_static("/p");
    head
}

/// A request body that a client sends over the other end.
async fn upload(framing: Framing) -> (RequestBody, TcpStream) {
    let (ours, theirs) = pair().await;
    let inbound = Inbound::new(Transport::Tcp(ours), Bytes::new(), Rc::default());
    let body = inbound.begin(framing, false, Trailers::Passed).unwrap();
    let arrival = Arrival::new(&Clock::new().timer(), None, None);
    (RequestBody::Stream(Incoming::Http1(body), arrival), theirs)
}

async fn ask(client: &mut Client<RequestBody>, method: Method) -> Result<u16, Failure> {
    client.begin(head(method).in_http1(Extras::default()), RequestBody::Empty);
    let head = poll_fn(|cx| client.poll_response(cx)).await?;
    Ok(head.status.as_u16())
}

/// The whole body; false when it broke off.
async fn body(client: &mut Client<RequestBody>) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(frame) = poll_fn(|cx| client.poll_frame(cx)).await {
        match frame {
            Ok(frame) => content.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return (content, false),
        }
    }
    (content, true)
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0, "{read:?}");
    }
    read
}

#[test]
fn a_connection_serves_again_when_nothing_is_left_over() {
    // The response, its body, and whether another request may follow.
    for (response, content, again) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "", true),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "ok",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\na: b\r\n\r\n",
            "ok",
            true,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "", true),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", "", true),
        (
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            "ok",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
            "ok",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
            "ok",
            false,
        ),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok", false),
        (
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
            "ok",
            true,
        ),
    ] {
        run(async {
            let (mut client, mut backend) = client().await;
            backend.write_all(response.as_bytes()).await.unwrap();
            assert!(ask(&mut client, Method::GET).await.unwrap() >= 200, "{response:?}");
            assert_eq!(
                body(&mut client).await,
                (content.as_bytes().to_vec(), true),
                "{response:?}"
            );
            assert!(client.is_end_stream());
            assert_eq!(client.is_reusable(), again, "{response:?}");
            if again {
                backend.write_all(response.as_bytes()).await.unwrap();
                ask(&mut client, Method::GET).await.unwrap();
                assert_eq!(body(&mut client).await.0, content.as_bytes());
            }
        });
    }
}

#[test]
fn the_answer_to_head_has_no_body() {
    run(async {
        let (mut client, mut backend) = client().await;
        backend
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(ask(&mut client, Method::HEAD).await.unwrap(), 200);
        assert!(client.is_end_stream() && client.is_reusable());
    });
}

#[test]
fn responses_that_break_off_are_errors_except_those_that_end_with_the_connection() {
    for (response, content, whole) in [
        ("HTTP/1.1 200 OK\r\n\r\nall", "all", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "half", false),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            "ok",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nx",
            "ok",
            false,
        ),
    ] {
        run(async {
            let (mut client, mut backend) = client().await;
            backend.write_all(response.as_bytes()).await.unwrap();
            backend.shutdown().await.unwrap();
            assert_eq!(ask(&mut client, Method::GET).await.unwrap(), 200);
            assert_eq!(
                body(&mut client).await,
                (content.as_bytes().to_vec(), whole),
                "{response:?}"
            );
            assert!(client.is_end_stream() && !client.is_reusable());
        });
    }
}

#[test]
fn no_response_and_nonsense_are_told_apart() {
    for (response, malformed) in [("", false), ("HTTP/1.1 200 OK\r\nx", false), ("SSH-2.0\r\n\r\n", true)] {
        run(async {
            let (mut client, mut backend) = client().await;
            backend.write_all(response.as_bytes()).await.unwrap();
            backend.shutdown().await.unwrap();
            let failure = ask(&mut client, Method::GET).await.unwrap_err();
            assert_eq!(
                matches!(failure, Failure::Malformed(_)),
                malformed,
                "{response:?}: {failure:?}"
            );
            assert!(!client.is_reusable());
        });
    }
}

#[test]
fn bodies_are_sent_as_they_come_and_framed_anew() {
    run(async {
        for (framing, sent, expected) in [
            (
                Framing::Length(5),
                &b"hello"[..],
                &b"\r\ncontent-length: 5\r\n\r\nhello"[..],
            ),
            (
                Framing::Chunked,
                b"5;x=y\r\nhello\r\n0\r\n\r\n",
                b"\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
        ] {
            let (mut client, mut backend) = client().await;
            let (body, mut downstream) = upload(framing).await;
            client.begin(head(Method::POST).in_http1(Extras::default()), body);
            let answered = poll_fn(|cx| client.poll_response(cx));
            let backend = async {
                read_until(&mut backend, b"\r\n\r\n").await;
                downstream.write_all(sent).await.unwrap();
                let tail = &expected[expected.len() - 5..];
                read_until(&mut backend, tail).await;
                backend
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .await
                    .unwrap();
            };
            let (answered, ()) = tokio::join!(answered, backend);
            assert_eq!(answered.unwrap().status, 200);
            assert!(client.is_reusable());
        }
    });
}

#[test]
fn trailers_pass_in_both_directions_where_they_are_wanted() {
    run(async {
        for (trailers, request_ends, got) in [
            (Trailers::Dropped, &b"hello\r\n0\r\n\r\n"[..], None),
            (
                Trailers::Passed,
                b"hello\r\n0\r\nx-sum: 1\r\n\r\n",
                Some(HeaderValue::from_static("2")),
            ),
        ] {
            let names = Names::Lowered;
            let (mut client, mut backend) = client_that_passes(Passing { trailers, names }).await;
            let (body, mut downstream) = upload(Framing::Chunked).await;
            client.begin(head(Method::POST).in_http1(Extras::default()), body);
            let answered = poll_fn(|cx| client.poll_response(cx));
            let backend = async {
                read_until(&mut backend, b"\r\n\r\n").await;
                let sent = b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n";
                downstream.write_all(sent).await.unwrap();
                let read = read_until(&mut backend, request_ends).await;
                assert!(!read.windows(6).any(|part| part == b"length"), "{read:?}");
                backend
                    .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 2\r\n\r\n")
                    .await
                    .unwrap();
            };
            let (answered, ()) = tokio::join!(answered, backend);
            answered.unwrap();
            let mut came = None;
            while let Some(frame) = poll_fn(|cx| client.poll_frame(cx)).await {
                came = frame.unwrap().into_trailers().ok().or(came);
            }
            assert_eq!(came.and_then(|mut fields| fields.remove("x-sum")), got);
            assert!(client.is_reusable());
        }
    });
}

#[test]
fn names_of_responses_are_kept_where_they_are_wanted() {
    run(async {
        for (names, kept) in [(Names::Lowered, None), (Names::AsWritten, Some(Bytes::from("X-Own")))] {
            let trailers = Trailers::Dropped;
            let (mut client, mut backend) = client_that_passes(Passing { trailers, names }).await;
            backend
                .write_all(b"HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 0\r\n\r\n")
                .await
                .unwrap();
            client.begin(head(Method::GET).in_http1(Extras::default()), RequestBody::Empty);
            let answered = poll_fn(|cx| client.poll_response(cx)).await.unwrap();
            assert_eq!(answered.headers["x-own"], "1");
            let spelling = answered.spelling.as_deref().and_then(|names| names.get("x-own"));
            assert_eq!(spelling.cloned(), kept);
        }
    });
}

#[test]
fn a_response_that_comes_before_the_request_is_sent_ends_the_connection() {
    run(async {
        let (mut client, mut backend) = client().await;
        let (upload, _downstream) = upload(Framing::Length(5)).await;
        backend
            .write_all(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\nno")
            .await
            .unwrap();
        client.begin(head(Method::POST).in_http1(Extras::default()), upload);
        let answered = poll_fn(|cx| client.poll_response(cx)).await.unwrap();
        assert_eq!(answered.status, 413);
        assert_eq!(body(&mut client).await, (b"no".to_vec(), true));
        assert!(!client.is_reusable());
    });
}

#[test]
fn a_client_that_breaks_off_its_body_breaks_off_the_request() {
    run(async {
        let (mut client, _backend) = client().await;
        let (upload, downstream) = upload(Framing::Length(5)).await;
        drop(downstream);
        client.begin(head(Method::POST).in_http1(Extras::default()), upload);
        let failure = poll_fn(|cx| client.poll_response(cx)).await.unwrap_err();
        assert!(matches!(failure, Failure::Request), "{failure:?}");
        assert!(!client.is_reusable());
    });
}

#[test]
fn an_idle_connection_that_was_closed_or_speaks_unasked_is_not_alive() {
    for unasked in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        run(async {
            let (mut client, mut backend) = client().await;
            backend
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
            ask(&mut client, Method::GET).await.unwrap();
            assert!(client.is_alive());
            backend.write_all(unasked.as_bytes()).await.unwrap();
            drop(backend);
            while client.is_alive() {
                tokio::task::yield_now().await;
            }
        });
    }
}

#[test]
fn a_request_of_which_nothing_could_be_written_is_given_back() {
    run(async {
        let (mut client, backend) = client().await;
        socket2::SockRef::from(&backend)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(backend);
        poll_fn(|cx| client.transport.poll_readable(cx)).await.unwrap();
        let failure = ask(&mut client, Method::POST).await.unwrap_err();
        assert!(matches!(failure, Failure::Connection(_)), "{failure:?}");
        assert!(!client.has_written());
        assert!(matches!(client.take_request_body(), Some(RequestBody::Empty)));
    });
}

#[test]
fn after_a_101_the_bytes_are_somebody_elses() {
    run(async {
        let (mut client, mut backend) = client().await;
        backend
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nearly")
            .await
            .unwrap();
        let extras = Extras {
            upgrade: Some("x"),
            ..Extras::default()
        };
        client.begin(head(Method::GET).in_http1(extras), RequestBody::Empty);
        assert_eq!(poll_fn(|cx| client.poll_response(cx)).await.unwrap().status, 101);
        let sent = read_until(&mut backend, b"\r\n\r\n").await;
        assert!(sent.ends_with(b"connection: upgrade\r\nupgrade: x\r\n\r\n"));
        assert!(!client.is_reusable());
        assert_eq!(client.into_transport().unwrap().1, "early");
    });
}

#[test]
fn interim_responses_have_a_limit() {
    run(async {
        for (n_interim, answered) in [(MOST_INTERIM, true), (MOST_INTERIM + 1, false)] {
            let (mut client, mut backend) = client().await;
            let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(n_interim.into());
            let response = format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            backend.write_all(response.as_bytes()).await.unwrap();
            let answer = ask(&mut client, Method::GET).await;
            assert_eq!(answer.is_ok(), answered, "{n_interim}");
        }
    });
}

#[test]
fn a_backend_that_has_begun_to_answer_was_heard() {
    run(async {
        for (answer, heard) in [
            ("", false),
            ("H", true),
            ("HTTP/1.1 200 OK\r\nx-a: 1\r\n", true),
            ("HTTP/1.1 103 Early Hints\r\n\r\n", true),
        ] {
            let (mut client, mut theirs) = client().await;
            theirs.write_all(answer.as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
            let failed = ask(&mut client, Method::GET).await;
            assert!(matches!(failed, Err(Failure::Connection(_))), "{answer:?}: {failed:?}");
            assert_eq!(client.has_heard(), heard, "{answer:?}");
        }
    });
}
