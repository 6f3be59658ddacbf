//! Infrastructure of this machine: one proxy process a fleet.
//!
//! [`run`] follows the published fleets and keeps one supervisor task for each. A supervisor starts its process,
//! starts it again with growing pauses when it dies, replaces it when what it was started with changes (the new one is
//! ready before the old one is drained; both listen, thanks to SO_REUSEPORT), and takes it down when the fleet goes.
//! Deliberately absent: rate limit service, autoscaling, and anything that needs a cluster.

use crate::{
    certs::TlsFiles,
    guard::{Guard, GuardMessage},
    metrics::Metrics,
    state::{Address, Availability, Published, Report, Reports},
    task::{Stop, Task},
};
use edge_ir::{FleetKey, Infra};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

mod binary;
mod bootstrap;
mod launch;
mod log_file;
mod ports;
mod process;
mod record;
mod supervise;
#[cfg(test)]
mod tests;

pub use bootstrap::render;
pub use ports::ReadyPorts;
pub use record::RuntimeFolder;

/// The field and the flag that name the proxy's binary, for messages.
pub(crate) const BINARY_FIELD: &str = "provider.custom.infrastructure.host.proxyBinary (or --proxy-binary)";
/// Messages that wait for the guard; two a process, and processes are few.
const GUARD_QUEUE: usize = 256;
/// How long a process that was asked to end may take before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Folders of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFolders {
    /// What people configure; certificates lie below it.
    pub config_home: PathBuf,
    /// What is worth keeping: logs, statuses.
    pub state_home: PathBuf,
    /// What lives as long as the processes: bootstraps, process records.
    pub runtime_dir: PathBuf,
}

/// How processes are started, whatever the fleet.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// The proxy's binary; unset: `edge-proxy` beside our own binary, then on the search path.
    pub proxy_binary: Option<PathBuf>,
    /// Where logs, bootstraps and records go.
    pub folders: HostFolders,
    /// Where the proxies find the controller.
    pub xds: SocketAddr,
    /// What the proxies show the controller, and check it against.
    pub client: TlsFiles,
    /// Renders a fleet's bootstrap.
    pub bootstrap: RenderBootstrap,
    /// Our own binary, to be started as the guard over the proxies; unset: no guard.
    pub guard: Option<PathBuf>,
}

/// Makes the files that a proxy starts with, or says why they can't be made.
pub type RenderBootstrap = fn(&BootstrapInput<'_>) -> Result<StartFiles, String>;

/// The files that a proxy starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFiles {
    /// Where the bootstrap puts the admin interface, if it has one that can be told.
    pub admin: Option<SocketAddr>,
    /// The bootstrap.
    pub bootstrap: String,
    /// SDS resource of the client certificate.
    pub sds_certificate: String,
    /// SDS resource of the authority.
    pub sds_authority: String,
}

/// What a bootstrap on this machine is made from.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapInput<'a> {
    /// The fleet.
    pub infra: &'a Infra,
    /// Where the controller is.
    pub xds: SocketAddr,
    /// What the proxy shows the controller, and checks it against.
    pub client: &'a TlsFiles,
    /// Where the SDS resource of the client certificate will be.
    pub sds_certificate: &'a Path,
    /// Where the SDS resource of the authority will be.
    pub sds_authority: &'a Path,
    /// Port for the admin interface, on loopback.
    pub admin_port: u16,
    /// Port for the statistics listener.
    pub stats_port: u16,
}

/// Follows the published fleets until asked to stop; then all processes are taken down.
///
/// Holding the runtime folder proves that no other controller has processes there; leftovers of one that was killed
/// are ended first.
pub async fn run(
    settings: Arc<HostSettings>,
    folder: RuntimeFolder,
    mut published: watch::Receiver<Option<Arc<Published>>>,
    reports: Arc<watch::Sender<Option<Reports>>>,
    metrics: Arc<Metrics>,
    mut stop: Stop,
) {
    folder.end_leftovers().await;
    reports.send_replace(Some(Reports::new()));
    let mut guard = settings.guard.as_deref().and_then(start_guard);
    let (sender, mut to_guard) = mpsc::channel(GUARD_QUEUE);
    let running = BTreeMap::new();
    let mut fleets = Fleets {
        settings,
        reports,
        metrics,
        guard: sender,
        running,
        leaving: JoinSet::new(),
    };
    loop {
        let state = published.borrow_and_update().clone();
        if let Some(state) = state {
            fleets.follow(&state);
        }
        tokio::select! {
            () = stop.requested() => break,
            changed = published.changed() => if changed.is_err() { break },
            _ = fleets.leaving.join_next(), if !fleets.leaving.is_empty() => {}
            Some(message) = to_guard.recv() => tell(&mut guard, &message),
        }
    }
    fleets.follow(&Published::default());
    while fleets.leaving.join_next().await.is_some() {}
    fleets.reports.send_replace(None);
    while let Ok(message) = to_guard.try_recv() {
        tell(&mut guard, &message);
    }
}

fn start_guard(edgegateway: &Path) -> Option<Guard> {
    Guard::start(edgegateway)
        .inspect_err(
            |error| tracing::warn!(%error, "no guard over the proxies; they would outlive a killed controller"),
        )
        .ok()
}

fn tell(guard: &mut Option<Guard>, message: &GuardMessage) {
    if let Some(guard) = guard {
        guard.tell(message);
    }
}

struct Fleets {
    settings: Arc<HostSettings>,
    reports: Arc<watch::Sender<Option<Reports>>>,
    metrics: Arc<Metrics>,
    guard: mpsc::Sender<GuardMessage>,
    running: BTreeMap<FleetKey, (watch::Sender<Arc<Infra>>, Task)>,
    /// Supervisors that are taking their process down.
    leaving: JoinSet<()>,
}

impl Fleets {
    fn follow(&mut self, state: &Published) {
        let gone: Vec<FleetKey> = self
            .running
            .keys()
            .filter(|key| !state.fleets.contains_key(*key))
            .cloned()
            .collect();
        for key in gone {
            if let Some((_, task)) = self.running.remove(&key) {
                let reports = Arc::clone(&self.reports);
                self.leaving.spawn(async move {
                    task.stop(STOP_GRACE * 3).await;
                    reports.send_modify(|reports| drop(reports.as_mut().and_then(|reports| reports.remove(&key))));
                });
            }
        }
        for (key, fleet) in &state.fleets {
            // What can't be used changes nothing: a proxy that runs stays as it is.
            let Some(new) = &fleet.infra else { continue };
            match self.running.get(key) {
                Some((infra, _)) => {
                    infra.send_if_modified(|old| {
                        let differs = old.name != new.name || old.proxy != new.proxy;
                        *old = Arc::clone(new);
                        differs
                    });
                }
                None => self.start(key, new),
            }
        }
    }

    fn start(&mut self, key: &FleetKey, infra: &Arc<Infra>) {
        let (sender, receiver) = watch::channel(Arc::clone(infra));
        let reporter = Reporter {
            key: key.clone(),
            reports: Arc::clone(&self.reports),
        };
        let supervisor = supervise::Supervisor::new(
            Arc::clone(&self.settings),
            receiver,
            reporter,
            Arc::clone(&self.metrics),
            self.guard.clone(),
        );
        let task = Task::spawn("proxy supervisor", |stop| supervisor.run(stop));
        self.running.insert(key.clone(), (sender, task));
    }
}

/// Says how one fleet is doing.
#[derive(Debug)]
struct Reporter {
    key: FleetKey,
    reports: Arc<watch::Sender<Option<Reports>>>,
}

impl Reporter {
    fn report(&self, availability: Availability, admin: Option<SocketAddr>) {
        // A host process binds what the listeners say on every interface; loopback is the address that always works.
        let report = Report {
            availability,
            replicas: 1,
            addresses: vec![Address::Ip(Ipv4Addr::LOCALHOST.into())],
            admin,
        };
        self.reports.send_if_modified(|reports| {
            let reports = reports.get_or_insert_default();
            if reports.get(&self.key) == Some(&report) {
                return false;
            }
            reports.insert(self.key.clone(), report);
            true
        });
    }
}
