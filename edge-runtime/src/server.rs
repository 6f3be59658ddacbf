//! The running controller: which tasks there are, in which order they start and stop, and what a changed configuration
//! means for them.
//!
//! Everything that can fail at start is tried before anything runs: certificates, sockets, the runtime folder. After
//! that nothing ends the controller but a request to stop, or a bug in a task that can't begin again ([`crate::task`]);
//! what goes wrong is told and the rest goes on.

use crate::{
    Error,
    admin::Pages,
    certs::{self, CONTROLLER, Existing, Outcome, PROXY, ServerTls, TlsFiles},
    config::{self, Config, Mode, Overrides, Proxies, Standalone},
    http::{self, Query, Reply},
    infra::host::{self, AtStop, HostSettings, RuntimeFolder},
    logging::LogControl,
    metrics::Metrics,
    provider::file,
    state::{Findings, Input, Ledger, Published, Rejections, Reports},
    status::{self, Sources},
    task::{Stop, Supervision, Task},
    world::{self, Outputs, Pace, Terms},
    xds_server::{self, Shared},
};
use edge_translate::{Feature, load::LoadFinding};
use serde_json::{Value, json};
use std::{
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

mod parts;

use parts::{Socket, Sockets};

/// How long a task may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long processes may take. Each fleet's drain time bounds that already; this is for one that was set too high.
const PROCESS_GRACE: Duration = Duration::from_secs(3600);
/// Readers of the status page that wait for an answer; more of them wait for a place.
const QUESTIONS: usize = 16;

/// Where the controller listens, apart from the admin pages, which the configuration places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// xDS.
    pub xds: SocketAddr,
    /// Health.
    pub health: SocketAddr,
    /// Metrics.
    pub metrics: SocketAddr,
}

/// How this process was started.
#[derive(Debug)]
pub struct Start {
    /// The configuration file, if there is one to follow.
    pub config_path: Option<PathBuf>,
    /// What the command line says.
    pub overrides: Overrides,
    /// Where to listen.
    pub addresses: Addresses,
    /// Control over the logging that was started.
    pub log: Option<LogControl>,
    /// What becomes of the proxies when the controller is asked to stop.
    pub at_stop: AtStop,
}

/// The version of this build.
pub fn version() -> Value {
    json!({
        "edgeGatewayVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gatewayAPIVersion": "v1.7.0",
        "edgeProxyVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommitID": option_env!("EDGE_GATEWAY_COMMIT").unwrap_or("unknown"),
    })
}

/// Runs until asked to stop. An error means that nothing was started, or that a task failed without which nothing works;
/// proxies on this machine are left to the next controller then.
pub async fn run(config: Config, start: Start, mut stop: Stop) -> Result<(), Error> {
    let (changed, mut changes) = mpsc::channel(1);
    let (path, overrides, current) = (start.config_path.clone(), start.overrides.clone(), config.clone());
    let mut server = Server::start(config, start).await?;
    let supervision = server.hub.supervision.clone();
    let follow = path.map(|path| {
        Task::lasting("configuration", &supervision, move |stop| {
            config::follow(path.clone(), overrides.clone(), current.clone(), changed.clone(), stop)
        })
    });
    let result = loop {
        tokio::select! {
            () = stop.requested() => break Ok(()),
            (task, how) = supervision.fatal() => {
                server.keep_proxies();
                break Err(Error::Task { task, how });
            }
            Some(config) = changes.recv() => server.follow(config).await,
        }
    };
    if let Some(follow) = follow {
        follow.stop(STOP_GRACE).await;
    }
    server.stop().await;
    result
}

/// All tasks and what connects them.
struct Server {
    config: Config,
    start: Start,
    certificates: PathBuf,
    xds_socket: Socket,
    xds_address: SocketAddr,
    hub: Hub,
    core: Core,
    xds: Task,
    proxies: Option<HostTask>,
    admin: Task,
    health: Task,
    metrics: Option<Task>,
}

/// The task that runs proxies, and what it follows.
struct HostTask {
    settings: watch::Sender<Arc<HostSettings>>,
    task: Task,
}

/// The tasks that don't depend on sockets or processes: from files to published states and statuses.
struct Core {
    world: Task,
    status: Task,
    files: Task,
}

/// The channels between tasks.
struct Hub {
    inputs: mpsc::Sender<Input>,
    paths: watch::Sender<Arc<[PathBuf]>>,
    published: watch::Receiver<Option<Arc<Published>>>,
    reports: Arc<watch::Sender<Option<Reports>>>,
    rejections: Arc<watch::Sender<Rejections>>,
    metrics: Arc<Metrics>,
    supervision: Supervision,
    pages: Pages,
}

impl Server {
    async fn start(config: Config, start: Start) -> Result<Self, Error> {
        let Mode::Standalone(standalone) = &config.mode;
        let certificates = standalone.folders.config_home.join("certs");
        make_certificates(&config, &certificates)?;
        // Read for the first time here, so that what is wrong with them is told before anything runs.
        ServerTls::read(TlsFiles::below(&certificates, CONTROLLER))?;
        let sockets = Sockets::open(&config, &start.addresses).await?;
        let folder = match standalone.proxies {
            Proxies::Processes(_) => Some(RuntimeFolder::open(&standalone.folders.runtime_dir)?),
            Proxies::Foreign => None,
        };
        greet(&config, &start, &sockets);

        let (hub, core) = Hub::start(&config, standalone, info(&config, &start, &sockets));
        let xds_address = sockets.xds_address();
        let xds = hub.serve_xds(sockets.xds.clone(), &certificates, &config);
        let proxies = folder.map(|folder| {
            let settings = host_settings(standalone, start.at_stop, &certificates, xds_address);
            hub.run_proxies(settings, folder)
        });
        let admin = hub.serve_pages("admin pages", sockets.admin, Pages::admin);
        let health = hub.serve_pages("health pages", sockets.health, Pages::health);
        let metrics = sockets
            .metrics
            .map(|socket| hub.serve_pages("metrics pages", socket, Pages::metrics));
        Ok(Self {
            config,
            start,
            certificates,
            xds_socket: sockets.xds,
            xds_address,
            hub,
            core,
            xds,
            proxies,
            admin,
            health,
            metrics,
        })
    }

    /// In the order in which things stop needing each other: no new input, then the proxies with everything still
    /// there to serve them, then the servers, and last what tells how it ended.
    async fn stop(self) {
        self.core.files.stop(STOP_GRACE).await;
        if let Some(proxies) = self.proxies {
            proxies.task.stop(PROCESS_GRACE).await;
        }
        self.xds.stop(STOP_GRACE).await;
        self.health.stop(STOP_GRACE).await;
        if let Some(metrics) = self.metrics {
            metrics.stop(STOP_GRACE).await;
        }
        self.admin.stop(STOP_GRACE).await;
        self.core.status.stop(STOP_GRACE).await;
        drop(self.hub);
        // The world ends when nobody sends to it any more.
        self.core.world.stop(STOP_GRACE).await;
        tracing::info!("stopped");
    }

    /// Proxies go on without us.
    fn keep_proxies(&self) {
        if let Some(proxies) = &self.proxies {
            proxies.settings.send_modify(|settings| {
                *settings = Arc::new(HostSettings {
                    at_stop: AtStop::Keep,
                    ..HostSettings::clone(settings)
                });
            });
        }
    }
}

/// What the file provider reads from and writes to.
type FileChannels = (
    watch::Receiver<Arc<[PathBuf]>>,
    mpsc::Sender<Input>,
    watch::Sender<Findings>,
);

impl Core {
    fn start(
        (config, standalone): (&Config, &Standalone),
        supervision: &Supervision,
        inputs: mpsc::Receiver<Input>,
        outputs: Outputs,
        sources: Sources,
        (watched, world, found): FileChannels,
    ) -> Self {
        let path = standalone.folders.state_home.join("status.yaml");
        let metrics = Arc::clone(&outputs.metrics);
        let terms = Terms {
            settings: config.settings.clone(),
            providers: [file::NAME].into(),
            pace: Pace::default(),
        };
        Self {
            world: Task::vital_blocking("world", supervision, move || world::run(terms, inputs, outputs)),
            status: Task::vital("status", supervision, |stop| status::run(sources, path, metrics, stop)),
            files: Task::vital("file provider", supervision, |stop| {
                file::run(watched, world, found, stop)
            }),
        }
    }
}

impl Hub {
    /// Makes the channels and starts the tasks that only need these.
    fn start(config: &Config, standalone: &Standalone, info: Value) -> (Self, Core) {
        let (inputs, world_inputs) = mpsc::channel(world::QUEUE);
        let (published, published_state) = watch::channel(None);
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let ledger = Arc::new(Ledger::default());
        let (found, findings) = watch::channel(Findings::default());
        let (paths, watched) = watch::channel(Arc::clone(&standalone.paths));
        let metrics = Arc::new(Metrics::default());
        let supervision = Supervision::new(Arc::clone(&metrics));
        let reports = Arc::new(watch::Sender::new(None));
        let rejections = Arc::new(watch::Sender::new(Rejections::new()));
        let outputs = Outputs {
            published,
            ledger: Arc::clone(&ledger),
            metrics: Arc::clone(&metrics),
        };
        let sources = Sources {
            ledger,
            questions,
            published: published_state.clone(),
            reports: reports.subscribe(),
            rejections: rejections.subscribe(),
            findings,
        };
        let pages = Pages {
            published: published_state.clone(),
            failures: supervision.failures(),
            reports: reports.subscribe(),
            status: ask,
            metrics: Arc::clone(&metrics),
            info: Arc::new(info),
            started: Instant::now(),
        };
        let core = Core::start(
            (config, standalone),
            &supervision,
            world_inputs,
            outputs,
            sources,
            (watched, inputs.clone(), found),
        );
        let published = published_state;
        let hub = Self {
            inputs,
            paths,
            published,
            reports,
            rejections,
            metrics,
            supervision,
            pages,
        };
        (hub, core)
    }

    fn serve_xds(&self, socket: Socket, certificates: &Path, config: &Config) -> Task {
        let shared = Shared {
            published: self.published.clone(),
            rejections: Arc::clone(&self.rejections),
            namespace: Arc::clone(&config.settings.controller_namespace),
            metrics: Arc::clone(&self.metrics),
        };
        let limits = config.xds.clone();
        let files = TlsFiles::below(certificates, CONTROLLER);
        Task::lasting("xDS server", &self.supervision, move |stop| {
            let (socket, files) = (socket.clone(), files.clone());
            let (limits, shared) = (limits.clone(), shared.clone());
            async move {
                match (ServerTls::read(files), socket.listener()) {
                    (Ok(tls), Ok(listener)) => xds_server::serve(listener, tls, limits, shared, stop).await,
                    (Err(error), _) => tracing::error!("{error}"),
                    (_, Err(error)) => tracing::error!(%error, "the socket of the xDS server can't be used"),
                }
            }
        })
    }

    fn run_proxies(&self, settings: HostSettings, folder: RuntimeFolder) -> HostTask {
        let (settings, followed) = watch::channel(Arc::new(settings));
        let (published, reports) = (self.published.clone(), Arc::clone(&self.reports));
        let metrics = Arc::clone(&self.metrics);
        let task = Task::vital("host infrastructure", &self.supervision, |stop| {
            host::run(followed, folder, published, reports, metrics, stop)
        });
        HostTask { settings, task }
    }

    fn serve_pages<F>(&self, name: &'static str, socket: Socket, page: fn(Pages, Query) -> F) -> Task
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let pages = self.pages.clone();
        Task::lasting(name, &self.supervision, move |stop| {
            let (socket, pages) = (socket.clone(), pages.clone());
            async move {
                match socket.listener() {
                    Ok(listener) => http::serve(listener, move |query| page(pages.clone(), query), stop).await,
                    Err(error) => tracing::error!(%error, "the socket of the {name} can't be used"),
                }
            }
        })
    }
}

/// How proxies are started on this machine.
fn host_settings(standalone: &Standalone, at_stop: AtStop, certificates: &Path, xds: SocketAddr) -> HostSettings {
    HostSettings {
        proxy_binary: match &standalone.proxies {
            Proxies::Processes(binary) => binary.clone(),
            Proxies::Foreign => None,
        },
        folders: standalone.folders.clone(),
        xds,
        client: TlsFiles::below(certificates, PROXY),
        bootstrap: host::render,
        ready_patience: host::READY_PATIENCE,
        at_stop,
    }
}

fn make_certificates(config: &Config, folder: &Path) -> Result<(), Error> {
    let settings = &config.settings;
    let outcome = certs::ensure(
        folder,
        &settings.controller_namespace,
        &settings.dns_domain,
        Existing::Keep,
    )?;
    let folder = folder.display();
    match outcome {
        Outcome::Kept => {}
        Outcome::Made => tracing::info!(%folder, "made certificates for controller and proxies"),
        Outcome::Renewed(which) => tracing::warn!(%folder, "certificates were renewed: {which}"),
    }
    Ok(())
}

/// Says where things are, for whoever has just started it.
fn greet(config: &Config, start: &Start, sockets: &Sockets) {
    let version = env!("CARGO_PKG_VERSION");
    let file = start
        .config_path
        .as_ref()
        .map(|path| tracing::field::display(path.display()));
    tracing::info!(version, config = file, "edge gateway controller, standalone mode");
    let Mode::Standalone(standalone) = &config.mode;
    for path in standalone.paths.iter() {
        tracing::info!(path = %path.display(), "resources are read from here and followed");
    }
    let (xds, health) = (sockets.xds_address(), start.addresses.health);
    tracing::info!(%xds, admin = %config.admin, %health, metrics = %start.addresses.metrics, "listening");
    let status = standalone.folders.state_home.join("status.yaml");
    tracing::info!(file = %status.display(), page = format!("http://{}/status", config.admin), "statuses are here");
    match &standalone.proxies {
        Proxies::Processes(_) => {
            let logs = standalone.folders.state_home.join("proxies");
            tracing::info!(logs = %logs.display(), "proxies run as processes of this machine");
        }
        Proxies::Foreign => tracing::info!("no infrastructure is configured: start proxies yourself"),
    }
    tell(config, None);
}

/// Says of a configuration what its reader should know and hasn't been told yet.
fn tell(config: &Config, told: Option<&Config>) {
    let is_new = |remark: &&LoadFinding| told.is_none_or(|told| !told.remarks.contains(remark));
    let remarks = config.remarks.iter().filter(is_new);
    remarks.for_each(|remark| tracing::warn!("{remark}"));
    if let Some(dump) = &config.dump
        && told.is_none_or(|told| told.dump.as_ref() != Some(dump))
    {
        tracing::info!(config = dump, "the configuration in force");
    }
}

fn info(config: &Config, start: &Start, sockets: &Sockets) -> Value {
    let Mode::Standalone(standalone) = &config.mode;
    let mut info = version();
    info["mode"] = "standalone".into();
    info["controllerName"] = (*config.settings.controller_name).into();
    info["configPath"] = json!(start.config_path);
    info["watched"] = json!(standalone.paths);
    info["statusFile"] = json!(standalone.folders.state_home.join("status.yaml"));
    info["addresses"] = json!({
        "xds": sockets.xds_address(),
        "admin": config.admin,
        "health": start.addresses.health,
        "metrics": start.addresses.metrics,
    });
    info
}

/// Whether metrics are to be had.
fn wants_metrics(config: &Config) -> bool {
    config.metrics == Feature::Enabled
}
