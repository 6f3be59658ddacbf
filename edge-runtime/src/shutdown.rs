//! The shutdown manager, beside each proxy in its pod: when the pod is to end, the proxy first finishes what it has.
//!
//! The cluster runs two hooks then. The proxy's asks the manager's server for `/shutdown/ready` and waits for the
//! answer; the manager's own is another process of this program, which tells the proxy to drain, watches its
//! connections, and writes the file that the server waits for. The cluster ends the containers after their hooks.

use crate::{
    Error,
    http::{self, Query, Reply, fetch},
    proxy_stats::OpenToClients,
    task::{Stop, Task},
};
use ::http::{Method, StatusCode};
use edge_ir::pod_port;
use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    time::{self, Instant},
};

/// The admin interface of the proxy in the same pod.
pub const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), pod_port::ADMIN);
/// How often the file and the connections are looked at.
pub const LOOK: Duration = Duration::from_secs(1);
/// How long the server goes on after it was asked to stop: whoever waits learns that the proxy is drained.
const LINGER: Duration = Duration::from_secs(2);

/// The file that says that the proxy is drained, in the manager's own container.
pub fn drained_file() -> PathBuf {
    std::env::temp_dir().join("shutdown-ready")
}

/// Serves until asked to stop.
pub async fn serve(ready_timeout: Duration, mut stop: Stop) -> Result<(), Error> {
    let listener = listen().await?;
    let file = drained_file();
    // A container that is started again has the file of its last end.
    let _ = fs::remove_file(&file);
    let page = move |query: Query| page(query, file.clone(), LOOK, ready_timeout);
    let server = Task::spawn("shutdown manager", |stop| http::serve(listener, page, stop));
    stop.requested().await;
    time::sleep(LINGER).await;
    server.stop(LOOK).await;
    Ok(())
}

/// Every address of the pod, of whatever family it is.
async fn listen() -> Result<TcpListener, Error> {
    let remedy = "it belongs to the shutdown manager";
    match http::listen(
        (Ipv6Addr::UNSPECIFIED, pod_port::SHUTDOWN).into(),
        "the shutdown manager",
        remedy,
    )
    .await
    {
        Ok(listener) => Ok(listener),
        Err(_) => {
            http::listen(
                (Ipv4Addr::UNSPECIFIED, pod_port::SHUTDOWN).into(),
                "the shutdown manager",
                remedy,
            )
            .await
        }
    }
}

async fn page(query: Query, file: PathBuf, look_every: Duration, timeout: Duration) -> Reply {
    match query.path.as_str() {
        "/healthz" => http::text(StatusCode::OK, "ok\n"),
        "/shutdown/ready" => match time::timeout(timeout, drained(&file, look_every)).await {
            Ok(()) => http::text(StatusCode::OK, "the proxy is drained\n"),
            Err(_) => http::text(StatusCode::INTERNAL_SERVER_ERROR, "the proxy did not drain in time\n"),
        },
        _ => http::text(StatusCode::NOT_FOUND, "here are /healthz and /shutdown/ready\n"),
    }
}

async fn drained(file: &Path, look_every: Duration) {
    let mut clock = time::interval(look_every);
    loop {
        clock.tick().await;
        if file.exists() {
            return;
        }
    }
}

/// How a proxy is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The proxy's admin interface.
    pub admin: SocketAddr,
    /// How long it still passes health checks.
    pub health_check_failure_delay: Duration,
    /// The longest it may take.
    pub timeout: Duration,
    /// The least it takes: others need time to learn that the proxy leaves.
    pub least: Duration,
    /// So many connections are few enough to end.
    pub exit_at_connections: u64,
    /// How often its connections are counted.
    pub look_every: Duration,
    /// The file that says that it is done.
    pub file: PathBuf,
}

/// Drains the proxy, and says so by the file in any case: a proxy that doesn't answer must not hold up the pod's end.
pub async fn drain(terms: &Drain) -> Result<(), Error> {
    if !terms.health_check_failure_delay.is_zero() {
        post(terms.admin, "/drain_listeners?graceful&skip_exit").await;
        time::sleep(terms.health_check_failure_delay).await;
    }
    // Clients are told by their next response to come back elsewhere.
    post(terms.admin, "/healthcheck/fail").await;
    let begun = Instant::now();
    let mut clock = time::interval(terms.look_every);
    loop {
        clock.tick().await;
        let elapsed = begun.elapsed();
        if elapsed >= terms.timeout {
            break;
        }
        let is_drained = |count: u64| count <= terms.exit_at_connections;
        if elapsed >= terms.least && connections(terms.admin).await.is_some_and(is_drained) {
            break;
        }
    }
    fs::write(&terms.file, b"").map_err(|source| Error::File {
        purpose: "can't say that the proxy is drained in",
        path: terms.file.clone(),
        remedy: "the folder must be writable".to_owned(),
        source,
    })
}

async fn post(admin: SocketAddr, path: &str) {
    match fetch(Method::POST, admin, path).await {
        Ok((StatusCode::OK, _)) => {}
        Ok((status, _)) => tracing::warn!(path, %status, "the proxy doesn't drain"),
        Err(error) => tracing::warn!(path, %error, "the proxy can't be told to drain"),
    }
}

/// Connections of clients to a proxy. One that has ended has none; of one that doesn't answer, or not with its
/// statistics, nobody knows how many.
async fn connections(admin: SocketAddr) -> Option<u64> {
    match fetch(Method::GET, admin, "/stats?filter=downstream_cx_active").await {
        Ok((StatusCode::OK, page)) => {
            let own = [pod_port::METRICS, pod_port::READY];
            Some(OpenToClients::of(&String::from_utf8_lossy(&page), &own).connections)
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Mutex;

    const SOON: Duration = Duration::from_millis(5);

    /// A proxy whose last connection ends when it is looked at for the third time.
    #[tokio::test]
    async fn a_proxy_drains_until_its_connections_are_few() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let admin = listener.local_addr().unwrap();
        let seen = Arc::clone(&asked);
        let server = Task::spawn("admin", |stop| {
            let page = move |query: Query| {
                let seen = Arc::clone(&seen);
                async move {
                    let mut seen = seen.lock().await;
                    seen.push(query.path);
                    let open = u32::from(seen.len() < 3);
                    http::text(StatusCode::OK, format!("listener.x.downstream_cx_active: {open}\n"))
                }
            };
            http::serve(listener, page, stop)
        });
        let folder = tempfile::tempdir().unwrap();
        let terms = Drain {
            admin,
            health_check_failure_delay: Duration::ZERO,
            timeout: Duration::from_secs(600),
            least: Duration::ZERO,
            exit_at_connections: 0,
            look_every: SOON,
            file: folder.path().join("done"),
        };
        drain(&terms).await.unwrap();
        assert!(terms.file.exists());
        // Pages are only for GET here, so the proxy's being told isn't seen.
        assert_eq!(*asked.lock().await, ["/stats"; 3]);
        server.stop(Duration::from_secs(1)).await;
    }

    #[tokio::test]
    async fn a_proxy_that_does_not_answer_holds_up_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let admin = listener.local_addr().unwrap();
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let terms = Drain {
            admin,
            health_check_failure_delay: SOON,
            timeout: Duration::from_secs(60),
            least: SOON * 4,
            exit_at_connections: 0,
            look_every: SOON,
            file: folder.path().join("done"),
        };
        let begun = Instant::now();
        drain(&terms).await.unwrap();
        assert!(begun.elapsed() >= SOON * 5 && terms.file.exists());
    }

    #[tokio::test]
    async fn a_proxy_that_cannot_say_how_many_connections_it_has_gets_all_of_its_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let admin = listener.local_addr().unwrap();
        assert!(connections(admin).await.is_none(), "nobody answers");
        let busy = Task::spawn("admin", |stop| {
            let page = |_: Query| async { http::text(StatusCode::SERVICE_UNAVAILABLE, "busy\n") };
            http::serve(listener, page, stop)
        });
        assert!(connections(admin).await.is_none(), "it says something else");
        drop(busy);
        let ended = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        assert_eq!(connections(ended).await, Some(0), "it has ended");
    }

    #[tokio::test]
    async fn the_hook_of_the_proxy_is_answered_when_the_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let ask = |path: &str, timeout: Duration| {
            let query = Query {
                path: path.to_owned(),
                query: String::new(),
            };
            page(query, file.clone(), SOON, timeout)
        };
        assert_eq!(ask("/healthz", SOON).await.status(), StatusCode::OK);
        assert_eq!(
            ask("/shutdown/ready", SOON * 3).await.status(),
            StatusCode::INTERNAL_SERVER_ERROR
        );
        fs::write(&file, b"").unwrap();
        assert_eq!(
            ask("/shutdown/ready", Duration::from_secs(60)).await.status(),
            StatusCode::OK
        );
    }
}
