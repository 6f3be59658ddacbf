//! The shutdown manager, beside each proxy in its pod: when the pod is to end, the proxy first finishes what it has.
//!
//! The cluster runs two hooks then. The proxy's asks the manager's server for `/shutdown/ready` and waits for the
//! answer; the manager's own is another process of this program, which tells the proxy to drain, watches its
//! connections, and writes the file that the server waits for. The cluster ends the containers after their hooks. It
//! runs the hook of a container that it starts again as well: how the two are told apart says [`hooks`].

use crate::{
    Error,
    http::{self, Query, Reply, fetch},
    proxy_stats::OpenToClients,
    task::{Stop, Task},
};
use ::http::{Method, StatusCode};
use edge_ir::pod_port;
use hooks::Ending;
use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    time::{self, Instant},
};

mod hooks;

pub use hooks::Hooks;

/// The admin interface of the proxy in the same pod.
pub const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), pod_port::ADMIN);
/// How often the file and the connections are looked at.
pub const LOOK: Duration = Duration::from_secs(1);
/// How long the server goes on after it was asked to stop: whoever waits learns that the proxy is drained.
const LINGER: Duration = Duration::from_secs(2);

/// Serves until asked to stop. `admin`: the proxy's admin interface.
pub async fn serve(admin: SocketAddr, ready_timeout: Duration, mut stop: Stop) -> Result<(), Error> {
    let listener = listen().await?;
    let hooks = Hooks::of_this_pod();
    // A container that is started again may have the files of its last end.
    hooks.forget();
    let page = move |query: Query| page(query, hooks.clone(), ready_timeout);
    let server = Task::spawn("shutdown manager", |stop| http::serve(listener, page, stop));
    resume(admin).await;
    stop.requested().await;
    time::sleep(LINGER).await;
    server.stop(LOOK).await;
    Ok(())
}

/// Has the proxy serve again that a manager before this one may have told to drain: a kubelet starts no container of a
/// pod that ends, so this one goes on, and nobody else would ever undo it.
async fn resume(admin: SocketAddr) {
    match fetch(Method::POST, admin, "/healthcheck/ok").await {
        Ok((StatusCode::OK, _)) => {}
        Ok((status, _)) => tracing::warn!(%status, "the proxy can't be told to go on"),
        // Mostly it just begins as well.
        Err(error) => tracing::debug!(%error, "there is no proxy yet that could be told to go on"),
    }
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

async fn page(query: Query, hooks: Hooks, timeout: Duration) -> Reply {
    match query.path.as_str() {
        "/healthz" => http::text(StatusCode::OK, "ok\n"),
        "/shutdown/ready" => match time::timeout(timeout, hooks.proxy_may_end()).await {
            Ok(Ending::Pod) => http::text(StatusCode::OK, "the proxy is drained\n"),
            Ok(Ending::Container) => http::text(StatusCode::OK, "the proxy is started again, and its pod goes on\n"),
            Err(_) => http::text(StatusCode::INTERNAL_SERVER_ERROR, "the proxy did not drain in time\n"),
        },
        _ => http::text(StatusCode::NOT_FOUND, "here are /healthz and /shutdown/ready\n"),
    }
}

/// When a proxy is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Now.
    Asked,
    /// Where its pod ends, and not where its manager's container is started again.
    PodEnds,
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
    /// When it is done at all.
    pub occasion: Occasion,
    /// Who is told that it is done.
    pub hooks: Hooks,
}

/// Drains the proxy, and says so by the file in any case: a proxy that doesn't answer must not hold up the pod's end.
pub async fn drain(terms: &Drain) -> Result<(), Error> {
    let running = terms.hooks.manager_ends();
    // Who can't say that it runs can't be told anything either, and drains to be safe.
    if terms.occasion == Occasion::PodEnds && running.is_ok() && terms.hooks.ending().await == Ending::Container {
        tracing::info!("only the shutdown manager is started again; the proxy goes on");
        return Ok(());
    }
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
    let file = terms.hooks.drained_file();
    fs::write(&file, b"").map_err(|source| Error::File {
        purpose: "can't say that the proxy is drained in",
        path: file,
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
    use super::{hooks::Waits, *};
    use std::{path::Path, sync::Arc};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::Mutex,
    };

    const SOON: Duration = Duration::from_millis(5);

    fn hooks(folder: &Path) -> Hooks {
        let waits = Waits {
            for_manager: SOON * 3,
            for_proxy: SOON * 3,
            look_every: SOON,
        };
        Hooks::within(folder.to_owned(), waits)
    }

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
            occasion: Occasion::Asked,
            hooks: hooks(folder.path()),
        };
        drain(&terms).await.unwrap();
        assert!(terms.hooks.drained_file().exists());
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
            occasion: Occasion::Asked,
            hooks: hooks(folder.path()),
        };
        let begun = Instant::now();
        drain(&terms).await.unwrap();
        assert!(begun.elapsed() >= SOON * 5 && terms.hooks.drained_file().exists());
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
    async fn the_hook_of_the_proxy_is_answered_when_the_proxy_is_drained_or_ends_alone() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks(folder.path());
        let ask = |path: &str, timeout: Duration| {
            let query = Query {
                path: path.to_owned(),
                query: String::new(),
            };
            page(query, hooks.clone(), timeout)
        };
        assert_eq!(ask("/healthz", SOON).await.status(), StatusCode::OK);
        let alone = ask("/shutdown/ready", Duration::from_secs(60)).await;
        assert_eq!(alone.status(), StatusCode::OK, "its pod goes on");
        let running = hooks.manager_ends().unwrap();
        assert_eq!(
            ask("/shutdown/ready", SOON * 6).await.status(),
            StatusCode::INTERNAL_SERVER_ERROR
        );
        fs::write(hooks.drained_file(), b"").unwrap();
        assert_eq!(
            ask("/shutdown/ready", Duration::from_secs(60)).await.status(),
            StatusCode::OK
        );
        drop(running);
    }

    /// An admin interface that notes what it is told.
    async fn admin() -> (SocketAddr, Arc<Mutex<Vec<String>>>, Task) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let server = Task::spawn("admin", |mut stop| async move {
            loop {
                let (mut socket, _) = tokio::select! {
                    () = stop.requested() => return,
                    accepted = listener.accept() => accepted.unwrap(),
                };
                let mut head = [0; 1024];
                let read = socket.read(&mut head).await.unwrap();
                let line = String::from_utf8_lossy(&head[..read])
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                seen.lock().await.push(line);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                socket.write_all(answer).await.unwrap();
            }
        });
        (address, told, server)
    }

    #[tokio::test]
    async fn a_proxy_goes_on_where_only_its_manager_is_started_again() {
        let (admin, told, server) = admin().await;
        let folder = tempfile::tempdir().unwrap();
        let terms = Drain {
            admin,
            health_check_failure_delay: Duration::ZERO,
            timeout: SOON,
            least: Duration::ZERO,
            exit_at_connections: 0,
            look_every: SOON,
            occasion: Occasion::PodEnds,
            hooks: hooks(folder.path()),
        };
        drain(&terms).await.unwrap();
        assert!(told.lock().await.is_empty() && !terms.hooks.drained_file().exists());
        let (ended, drained) = tokio::join!(terms.hooks.proxy_may_end(), drain(&terms));
        drained.unwrap();
        assert_eq!(ended, Ending::Pod);
        assert_eq!(told.lock().await[0], "POST /healthcheck/fail HTTP/1.1");
        told.lock().await.clear();
        // Whatever the one before has told it.
        resume(admin).await;
        assert_eq!(*told.lock().await, ["POST /healthcheck/ok HTTP/1.1"]);
        server.stop(Duration::from_secs(1)).await;
    }
}
