//! The process: starts the threads, follows signals, ends in order.
//!
//! The control half runs on the main thread in one single-threaded runtime; every worker is a thread of its own.
//! SIGTERM and SIGINT begin a graceful end: no new connections, open ones finish within the drain time; a second
//! signal ends at once. SIGHUP is ignored, as nothing is read from files again by hand.

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Locality;
use prost::Message;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::admin::{self, Admin, Order};
use crate::bootstrap::{self, Bootstrap, Sources};
use crate::cli::{Arguments, Mode};
use crate::compile::{self, At, Context, endpoint::place, files::Disk, route_table::unknown_cluster};
use crate::config::Snapshot;
use crate::config::metrics::Sink;
use crate::config::zones::LocalProxies;
use crate::control::{Binding, Control, Publishers, waiting};
use crate::discovery::{ads, files, sds};
use crate::log_files::writer::LogWriter;
use crate::logging::Levels;
use crate::metrics::Pushing;
use crate::shared::{Drain, RuntimeFlags, Shared};
use crate::stats::{Merge, SecretScopes, ServerStats, Value, WorkerIndex};
use crate::xds::Kind;
use crate::xds::assembly::{Assembly, Origin};
use crate::xds::delta::Incoming;

/// Names that are resolved at a time: a server of names that doesn't answer must not hold up the others. The threads
/// are small and end when there is nothing to look up.
const MOST_LOOKUPS: usize = 64;

/// How often the end looks whether every connection is gone.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// Orders of the admin interface that wait; a second one of a kind changes nothing.
const ORDERS: usize = 4;

/// Runs until the process is to end. An error is one that keeps it from starting.
pub fn run(arguments: Arguments, levels: Levels) -> anyhow::Result<()> {
    let sources = Sources {
        path: arguments.config_path.clone(),
        text: arguments.config_yaml.clone(),
    };
    let mut bootstrap = bootstrap::load(&sources)?;
    identify(&mut bootstrap, &arguments);
    for warning in &bootstrap.warnings {
        tracing::warn!(warning, "bootstrap");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_LOOKUPS)
        .thread_keep_alive(Duration::from_secs(1))
        .thread_stack_size(512 << 10)
        .build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, start(arguments, Rc::new(bootstrap), levels))
}

/// The command line says who this is, if it says anything.
fn identify(bootstrap: &mut Bootstrap, arguments: &Arguments) {
    let node = &mut bootstrap.node;
    if let Some(cluster) = &arguments.service_cluster {
        node.cluster.clone_from(cluster);
    }
    if let Some(id) = &arguments.service_node {
        node.id.clone_from(id);
    }
    if let Some(zone) = &arguments.service_zone {
        node.locality
            .get_or_insert_with(Locality::default)
            .zone
            .clone_from(zone);
    }
    if node.user_agent_name.is_empty() {
        node.user_agent_name = "edge-proxy".to_owned();
    }
}

async fn start(arguments: Arguments, bootstrap: Rc<Bootstrap>, levels: Levels) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = arguments.concurrency.filter(|count| *count > 0).unwrap_or(cores);
    let admin_listener = match (bootstrap.admin, arguments.mode) {
        (Some(address), Mode::Serve) => Some(bind_admin(address).await?),
        _ => None,
    };
    let admin_address = admin_listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let (shared, publishers) = share(workers, admin_address);
    shared.flags.limit_connections(bootstrap.max_connections);
    shared.flags.set_drain_time(Duration::from_secs(arguments.drain_time_s));
    let mut context = Context::new(Box::new(Disk), bootstrap.prefixed.clone(), workers);
    context.ads_cluster.clone_from(&bootstrap.ads_cluster);
    context.node.clone_from(&bootstrap.node);
    let locality = bootstrap.node.locality.as_ref().map(place).unwrap_or_default();
    let local = bootstrap.local_cluster.as_deref();
    context.local = local.map(|cluster| Arc::new(LocalProxies::new(cluster, &locality)));
    let sinks = metric_sinks(&mut context, &bootstrap);
    let binding = match arguments.mode {
        Mode::Serve => Binding::Bound,
        Mode::Validate => Binding::Skipped,
    };
    let control = Control::new(Assembly::new(context), shared.clone(), publishers, binding);
    load_static(&control, &bootstrap)?;
    if arguments.mode == Mode::Validate {
        tracing::info!("configuration OK");
        return Ok(());
    }
    if let (Some(path), Some(address)) = (&arguments.admin_address_path, admin_address) {
        std::fs::write(path, address.to_string())
            .map_err(|error| anyhow::anyhow!("--admin-address-path {}: {error}", path.display()))?;
    }
    let (orders, mut waiting) = mpsc::channel(ORDERS);
    if let Some(listener) = admin_listener {
        let arguments = Rc::new(arguments.clone());
        let admin = Admin {
            control: control.clone(),
            bootstrap: bootstrap.clone(),
            arguments,
            levels,
            orders: orders.clone(),
        };
        tokio::task::spawn_local(admin::serve(listener, Rc::new(admin)));
    }
    let (threads, mut gone) = start_workers(&shared)?;
    let pushing = Pushing::begin(&shared, &bootstrap.kept, sinks, control.started_at);
    match &bootstrap.ads_cluster {
        // It settles by itself, once it has noted what it waits for.
        Some(cluster) => {
            tokio::task::spawn_local(ads::follow(control.clone(), bootstrap.node.clone(), cluster.clone()));
        }
        None => control.settle(),
    }
    tokio::task::spawn_local(files::follow(control.clone()));
    tokio::task::spawn_local(sds::follow(control.clone(), bootstrap.node.clone()));
    tokio::task::spawn_local(waiting::follow(control.clone()));
    tracing::info!(workers, admin = ?admin_address, "started");
    // A worker that has gone takes its share of the sockets along, and whoever comes there waits for ever: it is better
    // to be started again.
    let ended = tokio::select! {
        ended = wait_for_the_end(&control, &mut waiting) => ended,
        Some(worker) = gone.recv() => Err(anyhow::anyhow!("worker {worker} has ended before its time")),
    };
    control.drain(Drain::Stop);
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a worker failed"),
            Err(_) => tracing::error!("a worker panicked"),
        }
    }
    pushing.finish().await;
    shared.logs.finish();
    tracing::info!("ended");
    ended
}

/// Whom metrics are pushed to. A sink that can't be told is left out: nothing that is served depends on it.
fn metric_sinks(context: &mut Context, bootstrap: &Bootstrap) -> Vec<Sink> {
    let at = At::root();
    let list = at.field("stats_sinks");
    let sinks = bootstrap.sinks.iter().enumerate().map(|(index, message)| {
        let (at, interval) = (list.index(index), bootstrap.push_interval);
        compile::metrics::sink(context, &at, message, interval, &bootstrap.clusters)
    });
    let told = sinks.filter_map(|sink| {
        sink.inspect_err(|error| tracing::warn!(%error, "no metrics are pushed to a sink"))
            .ok()
    });
    told.collect()
}

async fn bind_admin(address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("admin.address: cannot bind {address}: {error}"))
}

/// What workers read, and the sending sides of it.
pub(crate) fn share(workers: usize, admin_address: Option<std::net::SocketAddr>) -> (Arc<Shared>, Publishers) {
    let (snapshot, snapshot_reader) = watch::channel(Arc::new(Snapshot::default()));
    let (sockets, sockets_reader) = watch::channel(Arc::from([]));
    let (drain, drain_reader) = watch::channel(Drain::Serving);
    let stats = Arc::new(ServerStats::new("", "", workers));
    stats
        .control()
        .concurrency
        .set(i64::try_from(workers).unwrap_or(i64::MAX));
    let shared = Arc::new(Shared {
        workers,
        snapshot: snapshot_reader,
        sockets: sockets_reader,
        drain: drain_reader,
        flags: RuntimeFlags::default(),
        stats,
        secrets: SecretScopes::default(),
        logs: LogWriter::default(),
        admin_address,
    });
    (
        shared,
        Publishers {
            snapshot,
            sockets,
            drain,
        },
    )
}

/// The bootstrap's own resources. One that can't be honoured keeps the process from starting.
fn load_static(control: &Rc<Control>, bootstrap: &Bootstrap) -> anyhow::Result<()> {
    for secret in &bootstrap.secrets {
        control
            .put_static_secret(secret)
            .map_err(|bad| anyhow::anyhow!("static_resources: secret {:?}: {}", bad.name, bad.reason))?;
    }
    let clusters: Vec<Incoming> = bootstrap
        .clusters
        .iter()
        .map(|cluster| incoming(&cluster.name, cluster))
        .collect();
    let listeners: Vec<Incoming> = bootstrap
        .listeners
        .iter()
        .enumerate()
        .map(|(index, listener)| match listener.name.as_str() {
            "" => incoming(&format!("listener-{index}"), listener),
            name => incoming(name, listener),
        })
        .collect();
    for (kind, word, resources) in [
        (Kind::Cluster, "cluster", clusters),
        (Kind::Listener, "listener", listeners),
    ] {
        if let Some(bad) = control.apply(kind, Origin::Static, &resources, &[]).first() {
            anyhow::bail!("static_resources: {word} {:?}: {}", bad.name, bad.reason);
        }
    }
    let known = bootstrap.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    for listener in &bootstrap.listeners {
        if let Some(problem) = unknown_cluster(listener, &known) {
            anyhow::bail!("static_resources: listener {:?}: {problem}", listener.name);
        }
    }
    if let Some(ads) = &bootstrap.ads_cluster
        && !bootstrap.clusters.iter().any(|cluster| cluster.name == *ads)
    {
        anyhow::bail!("dynamic_resources.ads_config: cluster {ads:?} is not in static_resources.clusters");
    }
    Ok(())
}

fn incoming<M: Message>(name: &str, message: &M) -> Incoming {
    Incoming {
        name: name.to_owned(),
        version: String::new(),
        body: message.encode_to_vec().into(),
        parts: None,
    }
}

type Workers = Vec<JoinHandle<std::io::Result<()>>>;

/// The threads, and which of them has gone.
fn start_workers(shared: &Arc<Shared>) -> anyhow::Result<(Workers, mpsc::Receiver<usize>)> {
    let mut threads = Vec::with_capacity(shared.workers);
    // Each tells once.
    let (gone, ends) = mpsc::channel(shared.workers.max(1));
    for index in 0..shared.workers {
        let (shared, leaving) = (
            shared.clone(),
            Leaving {
                index,
                gone: gone.clone(),
            },
        );
        threads.push(start_worker(leaving, move || {
            crate::worker::run(shared, WorkerIndex(index))
        })?);
    }
    shared.stats.control().workers_started.set(1);
    Ok((threads, ends))
}

fn start_worker<T: Send + 'static>(
    leaving: Leaving,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(format!("worker-{}", leaving.index));
    builder.spawn(move || {
        let _leaving = leaving;
        work()
    })
}

/// Says that a worker has gone, also when it has panicked.
struct Leaving {
    index: usize,
    gone: mpsc::Sender<usize>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // Nobody may listen any more.
        let _ = self.gone.try_send(self.index);
    }
}

/// Serves until a signal or an order ends it, then waits for connections to finish.
async fn wait_for_the_end(control: &Rc<Control>, orders: &mut mpsc::Receiver<Order>) -> anyhow::Result<()> {
    let drain_time = control.shared.flags.drain_time();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut logs_moved = signal(SignalKind::user_defined1())?;
    let mut stop_accepting_at = None;
    let mut stopped_at = None;
    loop {
        let stop_accepting = async {
            match stop_accepting_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = logs_moved.recv() => control.shared.logs.reopen(),
            _ = hang_up.recv() => tracing::debug!("SIGHUP is ignored"),
            () = stop_accepting => {
                stop_accepting_at = None;
                stop(control);
                stopped_at.get_or_insert(tokio::time::Instant::now());
            }
            order = orders.recv() => match order {
                Some(Order::StopAccepting) => {
                    stop(control);
                    stopped_at.get_or_insert(tokio::time::Instant::now());
                }
                Some(Order::DiscourageThenStop) => {
                    control.drain(Drain::Discouraging);
                    stop_accepting_at = Some(tokio::time::Instant::now() + drain_time);
                }
                Some(Order::Quit) | None => return Ok(()),
            },
        }
    }
    tracing::info!(?drain_time, "draining");
    stop(control);
    // Whoever was told to stop before has had a part of the time, or all of it.
    let since = stopped_at.unwrap_or_else(tokio::time::Instant::now);
    let deadline = tokio::time::sleep_until(since + drain_time);
    tokio::pin!(deadline);
    let mut check = tokio::time::interval(DRAIN_CHECK);
    loop {
        tokio::select! {
            () = &mut deadline => {
                tracing::warn!(connections = open_connections(control), "drain time is over");
                return Ok(());
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            Some(Order::Quit) = orders.recv() => return Ok(()),
            _ = check.tick() => if open_connections(control) == 0 {
                return Ok(());
            },
        }
    }
}

fn stop(control: &Control) {
    control.drain(Drain::Draining);
    control.stop_accepting();
}

/// Client connections over all listeners and workers.
fn open_connections(control: &Control) -> i64 {
    let snapshot = control.shared.snapshot.borrow().clone();
    let mut open = 0;
    for listener in snapshot.listeners.values() {
        listener.stats.merge(&mut |name, value| {
            if let ("downstream_cx_active", Value::Gauge(count)) = (name, value) {
                open += count;
            }
        });
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_panics_is_missed() {
        let (gone, mut ends) = mpsc::channel(1);
        let worker = start_worker(Leaving { index: 3, gone }, || Vec::<u8>::new().swap_remove(0)).unwrap();
        assert_eq!(ends.recv().await, Some(3));
        assert!(worker.join().is_err());
    }
}
