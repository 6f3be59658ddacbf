//! The admin interface: Envoy's paths, on the control thread, never on a worker.
//!
//! Nothing here is authenticated: the bootstrap binds it to a loopback address. Handlers that change something want
//! POST, as Envoy's do, so that a page in a browser can't call them by a link.

mod dump;
mod stats;
#[cfg(test)]
mod tests;
mod text;

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::bootstrap::Bootstrap;
use crate::cli::Arguments;
use crate::control::{Control, Progress};
use crate::logging::Levels;
use crate::shared::Drain;

/// What the admin interface asks the process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `/quitquitquit`: end now.
    Quit,
    /// `/drain_listeners`: stop accepting now.
    StopAccepting,
    /// `/drain_listeners?graceful`: tell clients to leave, stop accepting after the drain time. With `skip_exit` the
    /// process stays, which it does in any case.
    DiscourageThenStop,
}

/// What handlers see.
#[derive(Debug)]
pub(crate) struct Admin {
    /// The control half.
    pub control: Rc<Control>,
    /// For `/config_dump`.
    pub bootstrap: Rc<Bootstrap>,
    /// For `/server_info`.
    pub arguments: Rc<Arguments>,
    /// For `/logging`.
    pub levels: Levels,
    /// Where orders go. A full queue means that the same order waits already.
    pub orders: mpsc::Sender<Order>,
}

/// An answer before it becomes a response.
pub(crate) struct Answer {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl Answer {
    pub(crate) fn text(body: impl Into<String>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "text/plain; charset=UTF-8",
            body: body.into(),
        }
    }

    pub(crate) fn json(body: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "application/json",
            body,
        }
    }

    pub(crate) fn error(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=UTF-8",
            body: body.into(),
        }
    }
}

/// Accepts until the process ends. A connection is a task of the local set and ends with it.
pub(crate) async fn serve(listener: TcpListener, admin: Rc<Admin>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: give others the time to free some.
                tracing::warn!(%error, "the admin interface can't accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let admin = admin.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request| {
                let admin = admin.clone();
                async move { Ok::<_, Infallible>(respond(&admin, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(60))
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an admin connection ended");
            }
        });
    }
}

async fn respond(admin: &Admin, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = handle(
        admin,
        request.method(),
        request.uri().path(),
        request.uri().query().unwrap_or(""),
    )
    .await;
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// Paths, what they do, and whether they want POST.
const PATHS: [(&str, &str, bool); 17] = [
    ("/", "this list", false),
    ("/clusters", "upstream cluster status (format=json)", false),
    ("/config_dump", "the configuration (include_eds, resource=)", false),
    ("/drain_listeners", "drain listeners (graceful, skip_exit)", true),
    (
        "/healthcheck/fail",
        "make health checks fail and drain connections",
        true,
    ),
    ("/healthcheck/ok", "undo /healthcheck/fail", true),
    ("/help", "this list", false),
    ("/listeners", "listener addresses (format=json)", false),
    ("/logging", "show log levels; POST ?level= changes them", false),
    ("/memory", "memory use", false),
    ("/quitquitquit", "end the process", true),
    ("/ready", "LIVE when serving, else 503", false),
    ("/reopen_logs", "open access logs anew", true),
    ("/server_info", "version, state and command line", false),
    (
        "/stats",
        "statistics (filter=, usedonly, format=json|prometheus)",
        false,
    ),
    ("/stats/prometheus", "statistics for Prometheus", false),
    ("/stats/recentlookups", "always empty: names are never looked up", false),
];

async fn handle(admin: &Admin, method: &Method, path: &str, query: &str) -> Answer {
    let changes = PATHS
        .iter()
        .find(|(known, _, _)| *known == path)
        .is_some_and(|(_, _, changes)| *changes);
    if changes && method != Method::POST {
        return Answer::error(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("Method {method} not allowed, POST required.\n"),
        );
    }
    match path {
        "/" | "/help" => help(),
        "/clusters" => text::clusters(&admin.control, query),
        "/config_dump" => dump::config_dump(admin, query).await,
        "/drain_listeners" => drain_listeners(admin, query),
        "/healthcheck/fail" => {
            admin.control.shared.flags.fail_health();
            Answer::text("OK\n")
        }
        "/healthcheck/ok" => {
            admin.control.shared.flags.restore_health();
            Answer::text("OK\n")
        }
        "/listeners" => text::listeners(&admin.control, query),
        "/logging" => logging(admin, method, query),
        "/memory" => text::memory(),
        "/quitquitquit" => order(admin, Order::Quit),
        "/ready" => ready(admin),
        "/reopen_logs" => {
            admin.control.shared.logs.reopen();
            Answer::text("OK\n")
        }
        "/server_info" => text::server_info(admin, state(admin)),
        "/stats" => stats::stats(admin, query),
        "/stats/prometheus" => stats::prometheus(admin, query),
        "/stats/recentlookups" => Answer::text("   Count Lookup\n\ntotal: 0\n"),
        _ => {
            let mut answer = help();
            answer.status = StatusCode::NOT_FOUND;
            answer.body.insert_str(0, "invalid path. admin commands are:\n");
            answer
        }
    }
}

fn help() -> Answer {
    let line = |(path, about, changes): &(&str, &str, bool)| {
        format!("  {path}{}: {about}\n", if *changes { " (POST)" } else { "" })
    };
    Answer::text(PATHS.iter().map(line).collect::<String>())
}

/// The state as Envoy words it.
fn state(admin: &Admin) -> &'static str {
    let draining = *admin.control.shared.drain.borrow() >= Drain::Draining;
    match admin.control.progress() {
        _ if draining || admin.control.shared.flags.health_failed() => "DRAINING",
        Progress::PreInitializing => "PRE_INITIALIZING",
        Progress::Initializing => "INITIALIZING",
        Progress::Live => "LIVE",
    }
}

fn ready(admin: &Admin) -> Answer {
    match state(admin) {
        "LIVE" => Answer::text("LIVE\n"),
        other => Answer::error(StatusCode::SERVICE_UNAVAILABLE, format!("{other}\n")),
    }
}

fn drain_listeners(admin: &Admin, query: &str) -> Answer {
    let graceful = parameter(query, "graceful").is_some();
    if parameter(query, "skip_exit").is_some() && !graceful {
        return Answer::error(StatusCode::BAD_REQUEST, "skip_exit requires graceful\n");
    }
    order(
        admin,
        if graceful {
            Order::DiscourageThenStop
        } else {
            Order::StopAccepting
        },
    )
}

fn order(admin: &Admin, order: Order) -> Answer {
    // A full queue holds the same kind of order already; nothing is lost.
    if admin.orders.try_send(order).is_err() {
        tracing::debug!(?order, "an order waits already");
    }
    Answer::text("OK\n")
}

fn logging(admin: &Admin, method: &Method, query: &str) -> Answer {
    let refused = |problem: &str| {
        let usage =
            "usage: /logging?level=<level> (change all levels)\nlevels: trace debug info warning error critical off\n";
        Answer::error(StatusCode::BAD_REQUEST, format!("error: {problem}\n\n{usage}"))
    };
    let mut parameters = query.split('&').filter(|pair| !pair.is_empty());
    let (name, value) = match (parameters.next(), parameters.next()) {
        (Some(one), None) => one.split_once('=').unwrap_or((one, "")),
        (Some(_), Some(_)) => return refused("invalid number of parameters"),
        (None, _) => ("level", ""),
    };
    // As in Envoy, nothing is changed to an empty value. Single components are set by the command line alone.
    match (name, value) {
        ("level" | "paths", "") => Answer::text(format!("active loggers:\n  all: {}\n", admin.levels.current())),
        _ if method != Method::POST => {
            Answer::error(StatusCode::METHOD_NOT_ALLOWED, "POST required to change levels.\n")
        }
        ("level", level) => match admin.levels.set(level) {
            Ok(()) => Answer::text(format!("active loggers:\n  all: {level}\n")),
            Err(error) => refused(&error),
        },
        _ => refused("unknown logger name"),
    }
}

/// The value of a query parameter; a bare name has the empty value.
pub(crate) fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}
