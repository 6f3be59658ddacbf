//! Infrastructure of this machine: one proxy process a fleet.
//!
//! [`run`] follows the published fleets and keeps one supervisor task for each. A supervisor starts its process,
//! starts it again with growing pauses when it dies, leaves by itself or hangs, replaces it when what it was started
//! with changes (the new one is ready before the old one is drained; both listen, thanks to SO_REUSEPORT), and takes it
//! down when the fleet goes.
//! The data plane outlives the controller: processes that an earlier one has left are adopted by the records in the
//! runtime folder, and only those of fleets that are gone leave: not those whose Gateway may be what can't be read.
//! Deliberately absent: rate limit service, autoscaling, and anything that needs a cluster.

use crate::{
    machine_ports::OwnProxies,
    metrics::Metrics,
    state::{Address, AdminAddresses, Availability, Coverage, Published, Report, Reports},
    task::Stop,
};
use edge_ir::{FleetKey, Infra};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
};

mod binary;
mod bootstrap;
mod folder;
mod identity;
mod launch;
mod log_file;
mod ports;
mod process;
mod proxy_admin;
mod proxy_ports;
mod reach;
mod record;
mod supervise;
#[cfg(test)]
mod tests;

pub use bootstrap::render;
pub use folder::{RuntimeFolder, StateFolder};

use process::Process;
use proxy_admin::WaitFor;
use record::Record;
use supervise::{ProcessSpec, Supervisor};

/// The field and the flag that name the proxy's binary, for messages.
pub(crate) const BINARY_FIELD: &str = "provider.custom.infrastructure.host.proxyBinary (or --proxy-binary)";
/// How long a process that was asked to end may take before it is killed.
const PROCESS_GRACE: Duration = Duration::from_secs(5);
/// How long a proxy may take until it is ready: several times what a slow one takes to fetch its configuration.
pub(crate) const READY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a proxy that serves may answer nothing: longer than one is busy with a configuration.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

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

impl HostFolders {
    /// Where statuses are written.
    pub fn status_document(&self) -> PathBuf {
        self.state_home.join("status.yaml")
    }
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
    /// Who signs the proxies' certificates, and whom the proxies trust.
    pub issuer: Issuer,
    /// Renders a fleet's bootstrap.
    pub bootstrap: RenderBootstrap,
    /// How long a proxy may take until it is ready.
    pub ready_patience: Duration,
    /// How long a proxy that serves may answer nothing.
    pub answer_patience: Duration,
    /// What becomes of the proxies when the controller is asked to stop.
    pub at_stop: AtStop,
}

/// Who signs the certificates that proxies show the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Folder of the machine's certificates, the authority's among them.
    pub certificates: PathBuf,
    /// Namespace of the controller, which every proxy's certificate names.
    pub namespace: Arc<str>,
}

/// What becomes of the proxies when the controller is asked to stop. One that is killed can't do anything: its proxies
/// go on in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtStop {
    /// They finish what they have, and end before it.
    #[default]
    End,
    /// They go on serving, and the next controller adopts them.
    Keep,
}

/// Makes the bootstrap that a proxy starts with, or says why it can't be made.
pub type RenderBootstrap = fn(&BootstrapInput<'_>) -> Result<Rendered, String>;

/// A bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Where the bootstrap puts the admin interface, if it has one that can be told.
    pub admin: Option<SocketAddr>,
    /// Its text.
    pub bootstrap: String,
}

/// What a bootstrap on this machine is made from.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapInput<'a> {
    /// The fleet.
    pub infra: &'a Infra,
    /// Where the controller is.
    pub xds: SocketAddr,
    /// Where the SDS resource of the client certificate will be.
    pub sds_certificate: &'a Path,
    /// Where the SDS resource of the authority will be.
    pub sds_authority: &'a Path,
    /// Port for the admin interface, on loopback.
    pub admin_port: u16,
    /// Port for the statistics listener.
    pub stats_port: u16,
}

/// What is told of the processes, each by its fleet.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// How they do, for statuses.
    pub reports: Arc<watch::Sender<Option<Reports>>>,
    /// Where they answer.
    pub admins: Arc<watch::Sender<AdminAddresses>>,
}

/// Follows the published fleets and the settings until asked to stop; [`HostSettings::at_stop`] says what becomes of
/// the processes then.
///
/// Holding the runtime folder proves that no other controller has processes there. What an earlier one has left goes on
/// serving until it is known which fleets there are.
pub async fn run(
    mut settings: watch::Receiver<Arc<HostSettings>>,
    folder: RuntimeFolder,
    mut published: watch::Receiver<Option<Arc<Published>>>,
    outputs: Outputs,
    metrics: Arc<Metrics>,
    mut stop: Stop,
) {
    outputs.reports.send_replace(Some(Reports::new()));
    let mut fleets = Fleets {
        settings: Arc::clone(&settings.borrow_and_update()),
        left: Process::adopt_all(folder.path()),
        unread: BTreeSet::new(),
        folder,
        outputs,
        metrics,
        running: BTreeMap::new(),
        supervisors: JoinSet::new(),
    };
    loop {
        let state = published.borrow_and_update().clone();
        if let Some(state) = state {
            fleets.follow(&state);
        }
        tokio::select! {
            () = stop.requested() => break,
            changed = published.changed() => if changed.is_err() { break },
            Ok(()) = settings.changed() => fleets.settings = Arc::clone(&settings.borrow_and_update()),
            Some(ended) = fleets.supervisors.join_next_with_id(), if !fleets.supervisors.is_empty() => {
                fleets.ended(ended);
            }
        }
    }
    let at_stop = settings.borrow().at_stop;
    if at_stop == AtStop::End {
        fleets.dismiss(|_| false, Leaving::WithController);
        while let Some(ended) = fleets.supervisors.join_next_with_id().await {
            fleets.ended(ended);
        }
    }
    fleets.outputs.reports.send_replace(None);
    fleets.outputs.admins.send_replace(AdminAddresses::new());
}

/// The processes that serve for the controller whose runtime folder this is.
pub fn own_proxies(runtime_dir: &Path) -> OwnProxies {
    OwnProxies {
        folder: runtime_dir.to_owned(),
        read: Record::running,
    }
}

struct Fleets {
    settings: Arc<HostSettings>,
    folder: RuntimeFolder,
    /// Processes that an earlier controller has left, and that no supervisor has taken over yet.
    left: Vec<Process>,
    /// Fleets of such processes whose Gateways may be among what can't be read.
    unread: BTreeSet<FleetKey>,
    outputs: Outputs,
    metrics: Arc<Metrics>,
    running: BTreeMap<FleetKey, Running>,
    /// Supervisors, those of fleets that are gone included.
    supervisors: JoinSet<FleetKey>,
}

/// Why a proxy leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Its Gateway is gone, which its owner may not have meant.
    NoGateway,
    /// The controller was asked to stop.
    WithController,
}

/// The supervisor of a fleet.
struct Running {
    id: Id,
    wanted: watch::Sender<Option<ProcessSpec>>,
}

impl Fleets {
    /// Ends the proxies of fleets that don't stay.
    fn dismiss(&mut self, stays: impl Fn(&FleetKey) -> bool, why: Leaving) {
        for process in self.left.extract_if(.., |process| !stays(process.fleet())) {
            let (fleet, pid) = (process.fleet(), process.id());
            if why == Leaving::NoGateway {
                tracing::warn!(%fleet, pid, "a proxy is left whose fleet no Gateway makes any more; it leaves");
            }
            let (_, what) = watch::channel(WaitFor::Work);
            let (key, patience) = (
                process.fleet().clone(),
                Duration::from_secs(launch::DEFAULT_DRAIN_SECONDS.into()),
            );
            self.supervisors.spawn(async move {
                process.leave(what, patience).await;
                key
            });
        }
        for (key, running) in self.running.extract_if(.., |key, _| !stays(key)) {
            if why == Leaving::NoGateway {
                tracing::warn!(fleet = %key, "no Gateway makes this fleet any more; its proxy leaves");
            }
            running.wanted.send_replace(None);
        }
    }

    fn follow(&mut self, state: &Published) {
        // Of a fleet that an earlier controller knew, the Gateway may be what can't be read now.
        let unread = match state.coverage {
            Coverage::Whole => BTreeSet::new(),
            Coverage::Partial => self.left.iter().map(|process| process.fleet().clone()).collect(),
        };
        let is_wanted = |key: &FleetKey| state.fleets.contains_key(key);
        for fleet in unread
            .iter()
            .filter(|key| !is_wanted(key) && !self.unread.contains(*key))
        {
            tracing::warn!(%fleet, "no Gateway makes this fleet, but not all resources can be read; its proxy goes on");
        }
        self.dismiss(|key| is_wanted(key) || unread.contains(key), Leaving::NoGateway);
        self.unread = unread;
        for (key, fleet) in &state.fleets {
            let known = self.running.get(key).and_then(|running| {
                let wanted = running.wanted.borrow();
                wanted.as_ref().map(|wanted| Arc::clone(&wanted.infra))
            });
            // What can't be used changes nothing: a proxy that runs stays as it is.
            let Some(infra) = fleet.infra.clone().or(known) else {
                continue;
            };
            let new = ProcessSpec {
                infra,
                settings: Arc::clone(&self.settings),
            };
            match self.running.get(key) {
                Some(running) => drop(running.wanted.send_if_modified(|old| follow_one(old, new))),
                None => self.start(key, new),
            }
        }
    }

    fn start(&mut self, key: &FleetKey, wanted: ProcessSpec) {
        let left = self.left.extract_if(.., |process| process.fleet() == key).collect();
        let reporter = Reporter {
            key: key.clone(),
            outputs: self.outputs.clone(),
        };
        let (sender, receiver) = watch::channel(Some(wanted.clone()));
        let supervisor = Supervisor::new(wanted, reporter, Arc::clone(&self.metrics), left);
        let id = self.supervisors.spawn(supervisor.run(receiver)).id();
        self.running.insert(key.clone(), Running { id, wanted: sender });
    }

    /// A supervisor has ended: by a fault, if its fleet is still there. The next look at the fleets starts another one,
    /// which finds the processes by their records.
    fn ended(&mut self, ended: Result<(Id, FleetKey), JoinError>) {
        self.note_end(ended);
        let wanted = self.running.values().map(|running| running.wanted.borrow());
        let names: BTreeSet<Arc<str>> = wanted
            .filter_map(|wanted| Some(Arc::clone(&wanted.as_ref()?.infra.name)))
            .collect();
        identity::prune(self.folder.path(), &names);
    }

    fn note_end(&mut self, ended: Result<(Id, FleetKey), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => {
                tracing::error!(%error, "the supervisor of a proxy failed");
                error.id()
            }
        };
        let failed = self
            .running
            .iter()
            .find(|(_, running)| running.id == id)
            .map(|(key, _)| key.clone());
        if let Some(key) = failed {
            self.running.remove(&key);
            let left = Process::adopt_all(self.folder.path());
            self.left
                .extend(left.into_iter().filter(|process| *process.fleet() == key));
        } else if let Ok((_, key)) = ended
            && !self.running.contains_key(&key)
        {
            self.outputs
                .admins
                .send_if_modified(|admins| admins.remove(&key).is_some());
            self.outputs
                .reports
                .send_if_modified(|reports| reports.as_mut().is_some_and(|reports| reports.remove(&key).is_some()));
        }
    }
}

/// Says whether something about a fleet's process, or about where it is reached, may have changed.
fn follow_one(old: &mut Option<ProcessSpec>, new: ProcessSpec) -> bool {
    let differs = old.as_ref().is_none_or(|old| {
        !Arc::ptr_eq(&old.settings, &new.settings)
            || old.infra.name != new.infra.name
            || old.infra.proxy != new.infra.proxy
            || old.infra.addresses != new.infra.addresses
    });
    *old = Some(new);
    differs
}

/// Says how one fleet is doing.
#[derive(Debug)]
struct Reporter {
    key: FleetKey,
    outputs: Outputs,
}

impl Reporter {
    fn report(&self, infra: &Infra, availability: Availability, admin: Option<SocketAddr>) {
        let report = Report {
            availability,
            replicas: 1,
            stuck: None,
            addresses: reach::loopback(infra.proxy.ip_family).map(Address::Ip).collect(),
            asked: reach::asked(infra),
        };
        // First, so that whoever hears of a proxy that runs can find it.
        self.outputs.admins.send_if_modified(|admins| match admin {
            Some(admin) => admins.insert(self.key.clone(), admin) != Some(admin),
            None => admins.remove(&self.key).is_some(),
        });
        self.outputs.reports.send_if_modified(|reports| {
            let reports = reports.get_or_insert_default();
            if reports.get(&self.key) == Some(&report) {
                return false;
            }
            reports.insert(self.key.clone(), report);
            true
        });
    }
}
