//! The overload limit on client connections.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Proxy, echo, rest, run, until};

async fn greeted(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.read(&mut byte).await, Ok(1))
}

#[test]
fn connections_over_the_limit_of_the_process_are_refused() {
    run(async {
        let proxy = Proxy::start();
        proxy.shared.flags.limit_connections(Some(2));
        proxy.cluster("a", &[echo("!").await]);
        let address = proxy.tcp("cluster: a", "");
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(greeted(&mut first).await && greeted(&mut second).await);
        let mut third = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest(&mut third).await, "");
        assert_eq!(proxy.of_listener("tcp", "downstream_global_cx_overflow"), 1);
        assert_eq!(proxy.of_listener("tcp", "downstream_cx_total"), 2);
        drop(second);
        until("there is room", || {
            proxy.of_listener("tcp", "downstream_cx_active") == 1
        })
        .await;
        let mut fourth = TcpStream::connect(address).await.unwrap();
        assert!(greeted(&mut fourth).await);
        first.write_all(b"x").await.unwrap();
        assert!(greeted(&mut first).await);
    });
}

#[test]
fn a_listener_that_must_answer_is_not_limited() {
    run(async {
        let proxy = Proxy::start();
        proxy.shared.flags.limit_connections(Some(1));
        proxy.cluster("a", &[echo("!").await]);
        let address = proxy.tcp_listener("cluster: a", "", "bypass_overload_manager: true");
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(greeted(&mut stream).await);
            open.push(stream);
        }
        assert_eq!(proxy.of_listener("tcp", "downstream_global_cx_overflow"), 0);
    });
}
