//! `edgegateway proxy …`: what runs beside a proxy in its pod.

use crate::{
    Error,
    shutdown::{self, ADMIN, Drain, Hooks, Occasion},
    task::StopSource,
};
use clap::{Args, Subcommand};
use edge_translate::api::DurationText;
use std::{net::SocketAddr, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Subcommand)]
pub(super) enum ProxyCommand {
    /// Answer the hooks of a pod that ends, until its proxy is drained.
    ShutdownManager(ManagerArgs),
    /// Drain the proxy of this pod.
    Shutdown(ShutdownArgs),
}

#[derive(Debug, Args)]
pub(super) struct ManagerArgs {
    /// How long the proxy may take to drain.
    #[arg(long, value_name = "DURATION", default_value = "610s", value_parser = duration)]
    ready_timeout: Duration,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(super) struct ShutdownArgs {
    /// How long the proxy goes on passing health checks.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    health_check_failure_delay: Duration,
    /// The longest that draining may take.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    drain_timeout: Duration,
    /// The least that it takes.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    min_drain_duration: Duration,
    /// So many connections are few enough to end.
    #[arg(long, value_name = "N", default_value_t = 0)]
    exit_at_connections: u64,
    /// Drain only if the whole pod ends, which the proxy's own hook tells; for the hook of the shutdown manager, which
    /// runs also when its container alone is started again.
    #[arg(long)]
    if_pod_ends: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct AdminArgs {
    /// Port of the proxy's admin interface.
    #[arg(long, value_name = "PORT", default_value_t = ADMIN.port())]
    admin_port: u16,
}

impl AdminArgs {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(ADMIN.ip(), self.admin_port)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    DurationText::from(text).parse().map_err(|error| error.to_string())
}

pub(super) fn run(command: ProxyCommand) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::System {
            purpose: "can't start",
            source,
        })?;
    match command {
        ProxyCommand::ShutdownManager(args) => runtime.block_on(manage(&args)),
        ProxyCommand::Shutdown(args) => runtime.block_on(shutdown::drain(&Drain {
            admin: args.admin.address(),
            health_check_failure_delay: args.health_check_failure_delay,
            timeout: args.drain_timeout,
            least: args.min_drain_duration,
            exit_at_connections: args.exit_at_connections,
            look_every: shutdown::LOOK,
            occasion: match args.if_pod_ends {
                true => Occasion::PodEnds,
                false => Occasion::Asked,
            },
            hooks: Hooks::of_this_pod(),
        })),
    }
}

async fn manage(args: &ManagerArgs) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|source| Error::System {
        purpose: "can't listen for signals",
        source,
    })?;
    let (source, stop) = StopSource::new();
    let server = shutdown::serve(args.admin.address(), args.ready_timeout, stop);
    tokio::pin!(server);
    tokio::select! {
        result = &mut server => return result,
        _ = terminate.recv() => source.stop(),
    }
    server.await
}
