//! The process: starts the threads, and ends in order.
//!
//! The control half runs on the main thread in one single-threaded runtime; every worker is a thread of its own
//! (`workers`). What the bootstrap itself has is loaded first (`resources`); signals and orders are followed until one
//! ends the process (`ending`).

mod ending;
mod resources;
mod workers;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Locality;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::admin::{self, Admin};
use crate::bootstrap::{self, Bootstrap, Sources};
use crate::cli::{Arguments, Mode};
use crate::compile::{self, At, Context, endpoint::place, files::Disk};
use crate::config::metrics::Sink;
use crate::config::zones::LocalProxies;
use crate::control::{Binding, Control, waiting};
use crate::discovery::{ads, files, sds};
use crate::logging::Levels;
use crate::metrics::Pushing;
use crate::server::ending::wait_for_the_end;
use crate::server::resources::load_static;
use crate::server::workers::Workers;
use crate::shared;
use crate::xds::assembly::Assembly;

/// Names that are resolved at a time: a server of names that doesn't answer must not hold up the others. The threads
/// are small and end when there is nothing to look up.
const MOST_LOOKUPS: usize = 64;

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
    let (shared, publishers) = shared::share(workers, admin_address);
    shared.flags.limit_connections(bootstrap.max_connections);
    shared.flags.set_drain_time(Duration::from_secs(arguments.drain_time_s));
    let mut context = compile_context(&bootstrap, workers);
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
    let (send_orders, mut orders) = mpsc::channel(ORDERS);
    if let Some(listener) = admin_listener {
        let admin = Admin {
            control: control.clone(),
            bootstrap: bootstrap.clone(),
            arguments: Rc::new(arguments),
            levels,
            orders: send_orders.clone(),
        };
        tokio::task::spawn_local(admin::serve(listener, Rc::new(admin)));
    }
    let workers = Workers::start(&shared)?;
    let pushing = Pushing::begin(&shared, &bootstrap.kept, sinks, control.started_at);
    follow_sources(&control, &bootstrap);
    tracing::info!(workers = shared.workers, admin = ?admin_address, "started");
    let ended = workers
        .serve_until(wait_for_the_end(&control, &mut orders), &control)
        .await;
    pushing.finish().await;
    shared.logs.finish();
    tracing::info!("ended");
    ended
}

/// What resources are compiled with: who this proxy is, and what its bootstrap names.
fn compile_context(bootstrap: &Bootstrap, workers: usize) -> Context {
    let mut context = Context::new(Box::new(Disk), bootstrap.prefixed.clone(), workers);
    context.ads_cluster.clone_from(&bootstrap.ads_cluster);
    context.node.clone_from(&bootstrap.node);
    let locality = bootstrap.node.locality.as_ref().map(place).unwrap_or_default();
    let local = bootstrap.local_cluster.as_deref();
    context.local = local.map(|cluster| Arc::new(LocalProxies::new(cluster, &locality)));
    context
}

/// Follows whatever configuration comes from: servers, files, and what listeners wait for.
fn follow_sources(control: &Rc<Control>, bootstrap: &Bootstrap) {
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
