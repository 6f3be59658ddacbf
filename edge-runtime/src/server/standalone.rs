//! What only standalone mode has: certificates of its own making, files, processes and the status document.

use super::{
    FETCHES, TASK_GRACE,
    hub::{Ends, Hub},
};
use crate::{
    Error,
    certs::{self, CONTROLLER, TlsFiles, Upkeep},
    config::{Config, Proxies, Standalone},
    fetches,
    host_infra::{self, AtStop, HostSettings, Issuer, Outputs, RuntimeFolder, StateFolder},
    provider::file::{
        self,
        kept::{Before, CopyStore},
    },
    state::{Batch, Input, ProviderName},
    status,
    task::{StopSource, Task},
    world::Pace,
    xds_server::Authorizer,
};
use edge_translate::Change;
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// How long processes may take to stop. Each fleet's drain time bounds that already; this is for one that was set too
/// high.
const PROCESS_GRACE: Duration = Duration::from_secs(3600);
/// How often certificates are looked at.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);

/// What can fail and was tried before anything runs.
pub(super) struct Prepared {
    standalone: Standalone,
    issuer: Issuer,
    upkeep: Upkeep,
    folder: Option<RuntimeFolder>,
    state: Option<StateFolder>,
}

impl Prepared {
    /// Makes certificates.
    pub(super) fn new(config: &Config, standalone: Standalone) -> Result<Self, Error> {
        let certificates = standalone.folders.config_home.join("certs");
        let upkeep = Upkeep {
            folder: certificates.clone(),
            namespace: Arc::clone(&config.settings.controller_namespace),
            dns_domain: Arc::clone(&config.settings.dns_domain),
        };
        upkeep.renew_due()?;
        Ok(Self {
            standalone,
            upkeep,
            issuer: Issuer {
                certificates,
                namespace: Arc::clone(&config.settings.controller_namespace),
            },
            folder: None,
            state: None,
        })
    }

    /// Takes the state folder and the runtime folder.
    pub(super) fn claim(&mut self) -> Result<(), Error> {
        self.state = Some(StateFolder::open(&self.standalone.folders.state_home)?);
        if matches!(self.standalone.proxies, Proxies::Processes(_)) {
            self.folder = Some(RuntimeFolder::open(&self.standalone.folders.runtime_dir)?);
        }
        Ok(())
    }

    /// The certificate of the xDS server.
    pub(super) fn certificate(&self) -> TlsFiles {
        TlsFiles::below(&self.issuer.certificates, CONTROLLER)
    }

    /// Whom the xDS server gives a fleet's configuration to.
    pub(super) fn authorizer(&self, config: &Config) -> Authorizer {
        authorizer(&self.standalone, config)
    }

    /// Whom the world waits for, and for how long.
    pub(super) fn inputs(&self) -> (BTreeSet<ProviderName>, Pace) {
        inputs(before(self.folder.as_ref()))
    }

    /// Where fetched documents are kept.
    pub(super) fn storage(&self) -> fetches::Storage {
        fetches::Storage::below_state(&self.standalone.folders.state_home)
    }

    /// Says where things are, for whoever has just started it.
    pub(super) fn greet(&self, config: &Config) {
        let Self { standalone, .. } = self;
        for path in standalone.paths.iter() {
            tracing::info!(path = %path.display(), "resources are read from here and followed");
        }
        let status = standalone.folders.status_document();
        tracing::info!(file = %status.display(), page = format!("http://{}/status", config.admin), "statuses are here");
        match &standalone.proxies {
            Proxies::Processes(_) => {
                let logs = standalone.folders.state_home.join("proxies");
                tracing::info!(logs = %logs.display(), "proxies run as processes of this machine");
            }
            Proxies::Foreign => tracing::info!("no infrastructure is configured: start proxies yourself"),
        }
    }

    /// What the pages say about this mode.
    pub(super) fn info(&self, info: &mut Value) {
        info["mode"] = "standalone".into();
        info["watched"] = json!(self.standalone.paths);
        info["statusFile"] = json!(self.standalone.folders.status_document());
    }
}

/// The tasks of this mode.
pub(super) struct Running {
    status: Task,
    certificates: Task,
    /// Tells the status task that the proxies leave.
    leaving: StopSource,
    files: Task,
    proxies: Option<HostTask>,
    wanted: watch::Sender<file::FileSources>,
    at_stop: AtStop,
    issuer: Issuer,
    xds: SocketAddr,
}

/// The task that runs proxies, and what it follows.
struct HostTask {
    settings: watch::Sender<Arc<HostSettings>>,
    task: Task,
}

impl Running {
    /// Starts the tasks.
    pub(super) fn start(prepared: Prepared, at_stop: AtStop, xds: SocketAddr, hub: &Hub, ends: Ends) -> Self {
        let Prepared {
            standalone,
            issuer,
            upkeep,
            folder,
            state,
        } = prepared;
        let (wanted, watched) = watch::channel(wanted(&standalone));
        let document = standalone.folders.status_document();
        if folder.is_some() {
            // The queue is empty yet, and this must come before the resources.
            let _ = hub.inputs.try_send(own_proxies(&standalone));
        }
        if let Some(signing) = signing_secret(&issuer) {
            let _ = hub.inputs.try_send(signing);
        }
        let (sources, metrics) = (ends.sources, Arc::clone(&hub.metrics));
        let (inputs, found) = (hub.inputs.clone(), ends.found);
        let supervision = &hub.supervision;
        let (leaving, is_leaving) = StopSource::new();
        let status = Task::vital("status", supervision, |stop| async move {
            let end = status::End {
                leaving: is_leaving,
                stop,
            };
            status::run(sources, document, metrics, end).await;
            // The next controller may write now.
            drop(state);
        });
        let before = before(folder.as_ref());
        let kept = CopyStore::below_state(&standalone.folders.state_home, before);
        let files = Task::vital("file provider", supervision, |stop| {
            file::run(watched, kept, inputs, found, stop)
        });
        let certificates = Task::vital("certificates", supervision, |stop| upkeep.run(UPKEEP_EVERY, stop));
        let mut running = Self {
            status,
            certificates,
            leaving,
            files,
            proxies: None,
            wanted,
            at_stop,
            issuer,
            xds,
        };
        running.proxies = folder.map(|folder| running.run_proxies(&standalone, folder, hub));
        running
    }

    /// Brings what is running in line with changed settings.
    pub(super) async fn follow(&mut self, old: &Standalone, new: &Standalone, hub: &Hub) {
        if wanted(new) != wanted(old) {
            self.wanted.send_replace(wanted(new));
        }
        if new.proxies != old.proxies {
            self.change_proxies(new, hub).await;
        }
    }

    /// Running proxies go on until others are ready to take their place.
    async fn change_proxies(&mut self, new: &Standalone, hub: &Hub) {
        // The world ends only with the controller.
        let _ = hub.inputs.send(own_proxies(new)).await;
        match (self.proxies.take(), &new.proxies) {
            (Some(proxies), Proxies::Processes(_)) => {
                proxies
                    .settings
                    .send_replace(Arc::new(self.settings(new, self.at_stop)));
                self.proxies = Some(proxies);
            }
            (Some(proxies), Proxies::Foreign) => {
                proxies.settings.send_replace(Arc::new(self.settings(new, AtStop::End)));
                proxies.task.stop(PROCESS_GRACE).await;
            }
            (None, Proxies::Processes(_)) => match RuntimeFolder::open(&new.folders.runtime_dir) {
                Ok(folder) => self.proxies = Some(self.run_proxies(new, folder, hub)),
                Err(error) => tracing::error!("{error}; no proxies run until that is mended"),
            },
            (None, Proxies::Foreign) => {}
        }
    }

    /// No new input, then the proxies with everything still there to serve them. What is left tells how it ended.
    pub(super) async fn stop_first(self) -> Task {
        self.files.stop(TASK_GRACE).await;
        self.certificates.stop(TASK_GRACE).await;
        self.leaving.stop();
        if let Some(proxies) = self.proxies {
            proxies.task.stop(PROCESS_GRACE).await;
        }
        self.status
    }

    /// Proxies go on without us.
    pub(super) fn keep_proxies(&self) {
        if let Some(proxies) = &self.proxies {
            proxies.settings.send_modify(|settings| {
                *settings = Arc::new(HostSettings {
                    at_stop: AtStop::Keep,
                    ..HostSettings::clone(settings)
                });
            });
        }
    }

    fn run_proxies(&self, standalone: &Standalone, folder: RuntimeFolder, hub: &Hub) -> HostTask {
        let settings = self.settings(standalone, self.at_stop);
        let (settings, followed) = watch::channel(Arc::new(settings));
        let published = hub.published.clone();
        let outputs = Outputs {
            reports: Arc::clone(&hub.reports),
            admins: Arc::clone(&hub.admins),
        };
        let metrics = Arc::clone(&hub.metrics);
        let task = Task::vital("host infrastructure", &hub.supervision, |stop| {
            host_infra::run(followed, folder, published, outputs, metrics, stop)
        });
        HostTask { settings, task }
    }

    /// How proxies are started on this machine.
    fn settings(&self, standalone: &Standalone, at_stop: AtStop) -> HostSettings {
        HostSettings {
            proxy_binary: match &standalone.proxies {
                Proxies::Processes(binary) => binary.clone(),
                Proxies::Foreign => None,
            },
            folders: standalone.folders.clone(),
            xds: self.xds,
            issuer: self.issuer.clone(),
            bootstrap: host_infra::render,
            ready_patience: host_infra::READY_PATIENCE,
            answer_patience: host_infra::ANSWER_PATIENCE,
            at_stop,
        }
    }
}

/// What the file provider reads.
fn wanted(standalone: &Standalone) -> file::FileSources {
    file::FileSources {
        paths: Arc::clone(&standalone.paths),
        custom: Arc::clone(&standalone.custom),
    }
}

/// Tells the world whether we run proxies on this machine, and which are ours.
fn own_proxies(standalone: &Standalone) -> Input {
    Input::Proxies(match standalone.proxies {
        Proxies::Processes(_) => Some(host_infra::own_proxies(&standalone.folders.runtime_dir)),
        Proxies::Foreign => None,
    })
}

/// What cookies of logins are signed with, as the Secret that a cluster has for it. None is told as what it is:
/// policies that need it say so.
fn signing_secret(issuer: &Issuer) -> Option<Input> {
    let bytes = certs::hmac_secret(&issuer.certificates)?;
    let secret = edge_translate::signing_secret(&issuer.namespace, bytes);
    Some(Input::Batch(Batch {
        changes: vec![Change::Put(secret)],
        places: Vec::new(),
        since: Instant::now(),
    }))
}

/// Proxies of ours prove their fleet; those of others show what there is for them.
fn authorizer(standalone: &Standalone, config: &Config) -> Authorizer {
    let namespace = Arc::clone(&config.settings.controller_namespace);
    match standalone.proxies {
        Proxies::Processes(_) => Authorizer::FleetCertificate { namespace },
        Proxies::Foreign => Authorizer::Certificate { namespace },
    }
}

/// The authorizer of changed settings, if it is another one.
pub(super) fn other_authorizer(old: &Standalone, new: &Standalone, config: &Config) -> Option<Authorizer> {
    let is_other = std::mem::discriminant(&old.proxies) != std::mem::discriminant(&new.proxies);
    is_other.then(|| authorizer(new, config))
}

/// Whether proxies ran before. Of those that others start nobody knows.
fn before(folder: Option<&RuntimeFolder>) -> Before {
    match folder.is_none_or(RuntimeFolder::has_proxies) {
        true => Before::Proxies,
        false => Before::Nothing,
    }
}

/// Whom the world waits for. A change waits for no others: the file provider has waited already until files are whole.
pub(super) fn inputs(before: Before) -> (BTreeSet<ProviderName>, Pace) {
    let pace = Pace {
        fetches: match before {
            Before::Proxies => FETCHES,
            Before::Nothing => Duration::ZERO,
        },
        ..Pace::default()
    };
    ([file::NAME].into(), pace)
}
