//! What a proxy is asked and told through its admin interface, which is Envoy's.

use super::proxy_ports::{Listener, is_closed, takes_over};
use crate::{http::fetch, proxy_stats::OpenToClients};
use bytes::Bytes;
use http::{Method, StatusCode};
use std::{io::ErrorKind, net::SocketAddr, time::Duration};
use tokio::{
    sync::watch,
    time::{self, Instant, MissedTickBehavior},
};

/// How often a starting proxy is asked whether it is ready, and a leaving one whether it is idle.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// How often a proxy that serves is asked whether it still does.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// A proxy isn't taken for dead before it has left so many questions unanswered, however long that took: perhaps it was
/// we who stood still.
const FEW: u32 = 3;

/// Why a proxy that runs doesn't serve any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It is on its way out, which it wasn't asked for from here, and takes no connections.
    Leaving,
    /// It has answered nothing for so long.
    Silent(Duration),
}

/// What a leaving proxy is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// What is in flight: requests, and connections that aren't HTTP. Nobody takes its place, so waiting for clients
    /// that only keep a connection would gain nothing.
    Work,
    /// Every connection: another process serves, and there is time.
    Connections,
}

/// Resolves when a starting proxy serves: when its admin interface says so. One that has none is looked at from
/// outside: it listens wherever the one does whose place it takes. Where there is no such one, nobody is served worse
/// than before.
pub(super) async fn ready(admin: Option<SocketAddr>, new: Listener, before: Option<Listener>) {
    let mut clock = ask_clock();
    loop {
        clock.tick().await;
        let is_ready = match (admin, before) {
            (Some(admin), _) => matches!(fetch(Method::GET, admin, "/ready").await, Ok((StatusCode::OK, _))),
            (None, Some(before)) => takes_over(new, before).await,
            (None, None) => true,
        };
        if is_ready {
            return;
        }
    }
}

/// Resolves when a proxy that is there doesn't serve any more: it leaves by itself, or hasn't answered for as long as
/// `patience`.
pub(super) async fn lost(admin: SocketAddr, listener: Listener, patience: Duration) -> Lost {
    let mut clock = time::interval(WATCH_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut answered, mut n_unanswered) = (Instant::now(), 0);
    loop {
        clock.tick().await;
        match fetch(Method::GET, admin, "/ready").await {
            Ok((_, said)) => {
                (answered, n_unanswered) = (Instant::now(), 0);
                // One whose health somebody has made fail says so, too, but serves.
                if said.starts_with(b"DRAINING") && is_closed(listener).await {
                    return Lost::Leaving;
                }
            }
            Err(error) => {
                tracing::debug!(%admin, %error, "a proxy doesn't answer");
                n_unanswered += 1;
                let silence = answered.elapsed();
                if n_unanswered >= FEW && silence >= patience {
                    return Lost::Silent(silence);
                }
            }
        }
    }
}

/// Whether a proxy answers.
pub(super) async fn answers(admin: SocketAddr) -> bool {
    fetch(Method::GET, admin, "/ready").await.is_ok()
}

/// Tells a proxy to end at once. Says whether it has understood.
pub(super) async fn quit(admin: SocketAddr) -> bool {
    matches!(
        fetch(Method::POST, admin, "/quitquitquit").await,
        Ok((StatusCode::OK, _))
    )
}

/// Tells a proxy to leave: health checks fail, open connections hear that they should end, and no new ones are taken.
/// Says whether it has understood.
pub(super) async fn leave(admin: SocketAddr) -> bool {
    let mut understood = true;
    for path in [
        "/healthcheck/fail",
        "/drain_listeners?graceful&skip_exit",
        "/drain_listeners",
    ] {
        understood &= matches!(
            ask_until_gone(Method::POST, admin, path).await,
            Some((StatusCode::OK, _))
        );
    }
    understood
}

/// Resolves when a leaving proxy has nothing left to do, or is gone. What it is waited for may change. `own`: ports
/// that it has for itself.
pub(super) async fn idle(admin: SocketAddr, what: &watch::Receiver<WaitFor>, own: &[u16]) {
    let mut clock = ask_clock();
    loop {
        clock.tick().await;
        let answer = ask_until_gone(Method::GET, admin, "/stats?filter=downstream_(cx|rq)_active").await;
        let Some((StatusCode::OK, page)) = answer else { return };
        let open = OpenToClients::of(&String::from_utf8_lossy(&page), own);
        if count(&open, *what.borrow()) == 0 {
            return;
        }
    }
}

/// Asks until there is an answer: a busy machine may cost one, and a proxy that is taken for dead loses what it serves.
/// None when nobody is there.
async fn ask_until_gone(method: Method, admin: SocketAddr, path: &str) -> Option<(StatusCode, Bytes)> {
    let mut clock = ask_clock();
    loop {
        clock.tick().await;
        match fetch(method.clone(), admin, path).await {
            Ok(answer) => return Some(answer),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return None,
            Err(error) => tracing::debug!(%admin, path, %error, "a leaving proxy doesn't answer yet"),
        }
    }
}

fn ask_clock() -> time::Interval {
    let mut clock = time::interval(ASK_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock
}

/// How much there still is of what a leaving proxy is waited for.
fn count(open: &OpenToClients, what: WaitFor) -> u64 {
    match what {
        WaitFor::Connections => open.connections,
        WaitFor::Work => open.requests + open.connections.saturating_sub(open.http),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_requests_and_connections_that_are_not_http() {
        let open = OpenToClients {
            connections: 5,
            http: 2,
            requests: 5,
        };
        assert_eq!(count(&open, WaitFor::Connections), 5);
        assert_eq!(count(&open, WaitFor::Work), 5 + 3);
        let idle = OpenToClients {
            connections: 2,
            http: 2,
            requests: 0,
        };
        assert_eq!(count(&idle, WaitFor::Work), 0, "nobody waits for an answer");
    }
}
