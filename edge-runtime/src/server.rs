//! The running controller: which tasks there are, in which order they start and stop, and what a changed configuration
//! means for them.
//!
//! Everything that can fail at start is tried before anything runs: certificates, sockets, the runtime folder, the
//! client of a cluster. After that nothing ends the controller but a request to stop, or a bug in a task that can't
//! begin again ([`crate::task`]); what goes wrong is told and the rest goes on. What only one mode has stands in
//! [`standalone`] and [`cluster`].

use crate::{
    Error,
    admin::Pages,
    certs::{ServerTls, TlsFiles},
    config::{self, Cluster, Config, Mode, Overrides},
    fetches,
    host_infra::AtStop,
    logging::LogControl,
    modules::Modules,
    state::{Input, ProviderName},
    task::{Stop, Task},
    world::Pace,
    xds_server::Authorizer,
};
use edge_translate::{Feature, api::GATEWAY_API_VERSION, load::LoadFinding};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::mpsc;

mod cluster;
mod hub;
mod sockets;
mod standalone;

pub use sockets::Listen;

use hub::Hub;
use sockets::{ADMIN_FIELD, Addresses, Socket, Sockets};

/// How long a task may take to stop.
const TASK_GRACE: Duration = Duration::from_secs(3);
/// How long a controller that begins beside proxies waits for what it has to fetch: as long as a server may take.
const FETCHES: Duration = Duration::from_secs(10);

/// How this process was started.
#[derive(Debug)]
pub struct Start {
    /// The configuration file, if there is one to follow.
    pub config_path: Option<PathBuf>,
    /// What the command line says.
    pub overrides: Overrides,
    /// Where to listen.
    pub listen: Listen,
    /// Control over the logging that was started.
    pub log: Option<LogControl>,
    /// What becomes of the proxies when the controller is asked to stop.
    pub at_stop: AtStop,
}

/// The version of this build.
pub fn version() -> Value {
    json!({
        "edgeGatewayVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gatewayAPIVersion": GATEWAY_API_VERSION,
        "edgeProxyVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommitID": option_env!("EDGE_GATEWAY_COMMIT").unwrap_or("unknown"),
    })
}

/// Runs until asked to stop. An error means that nothing was started, or that a task failed without which nothing
/// works; proxies on this machine are left to the next controller then.
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
        follow.stop(TASK_GRACE).await;
    }
    server.stop().await;
    result
}

/// All tasks and what connects them.
struct Server {
    config: Config,
    start: Start,
    certificate: TlsFiles,
    xds_socket: Socket,
    authorizer: Authorizer,
    hub: Hub,
    world: Task,
    fetches: Task,
    extensions: Task,
    running: Running,
    xds: Task,
    admin: Task,
    health: Task,
    metrics: Option<Task>,
    /// Tells the service of global rate limits what to count, where there shall be one.
    limits: Option<Task>,
}

/// The tasks that only one mode has.
enum Running {
    Standalone(standalone::Running),
    Cluster(cluster::Running),
}

/// What a mode tried before anything runs.
enum Prepared {
    Standalone(Box<standalone::Prepared>),
    Cluster(Box<cluster::Prepared>),
}

impl Prepared {
    /// Tries what can fail and needs no socket.
    async fn new(config: &Config) -> Result<Self, Error> {
        Ok(match &config.mode {
            Mode::Standalone(standalone) => {
                Self::Standalone(Box::new(standalone::Prepared::new(config, standalone.clone())?))
            }
            Mode::Cluster(cluster) => Self::Cluster(Box::new(cluster::Prepared::new(Cluster::clone(cluster)).await?)),
        })
    }

    /// The certificate of the xDS server.
    fn certificate(&self) -> TlsFiles {
        match self {
            Self::Standalone(prepared) => prepared.certificate(),
            Self::Cluster(prepared) => prepared.certificate(),
        }
    }

    /// Whom the xDS server gives a fleet's configuration to.
    fn authorizer(&self, config: &Config) -> Authorizer {
        match self {
            Self::Standalone(prepared) => prepared.authorizer(config),
            Self::Cluster(prepared) => prepared.authorizer(config),
        }
    }

    /// Takes what only one controller can have. Sockets come before that, because they tell a second one better.
    fn claim(&mut self) -> Result<(), Error> {
        match self {
            Self::Standalone(prepared) => prepared.claim(),
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Whom the world waits for, and how long a change waits for others.
    fn inputs(&self) -> (BTreeSet<ProviderName>, Pace) {
        match self {
            Self::Standalone(prepared) => prepared.inputs(),
            Self::Cluster(_) => cluster::inputs(),
        }
    }

    /// Where fetched documents are kept for the next controller.
    fn storage(&self) -> fetches::Storage {
        match self {
            Self::Standalone(prepared) => prepared.storage(),
            Self::Cluster(prepared) => prepared.storage(),
        }
    }

    fn greet(&self, config: &Config) {
        match self {
            Self::Standalone(prepared) => prepared.greet(config),
            Self::Cluster(prepared) => prepared.greet(),
        }
    }

    fn info(&self, info: &mut Value) {
        match self {
            Self::Standalone(prepared) => prepared.info(info),
            Self::Cluster(prepared) => prepared.info(info),
        }
    }
}

impl Server {
    async fn start(mut config: Config, start: Start) -> Result<Self, Error> {
        let mut prepared = Prepared::new(&config).await?;
        let certificate = prepared.certificate();
        let addresses = Addresses::of(&start.listen, &config.mode);
        vouch(&mut config, &certificate.authorities()?.into(), &addresses);
        // Read for the first time here, so that what is wrong with it is told before anything runs.
        ServerTls::read(certificate.clone())?;
        let sockets = Sockets::open(&config, &addresses).await?;
        prepared.claim()?;
        greet(&config, &start, &sockets, &addresses, &prepared);
        let (providers, pace) = prepared.inputs();
        let info = info(&config, &start, &sockets, &addresses, &prepared);
        let (hub, ends, world) = Hub::start(&config, providers, pace, info);
        let fetches = hub.fetch(Modules::new(addresses.modules, certificate.clone()), prepared.storage());
        let extensions = hub.call_extensions();
        let authorizer = prepared.authorizer(&config);
        let xds = hub.serve_xds(sockets.xds.clone(), certificate.clone(), authorizer.clone(), &config);
        let running = match prepared {
            Prepared::Standalone(prepared) => {
                let xds = sockets.xds_address();
                Running::Standalone(standalone::Running::start(*prepared, start.at_stop, xds, &hub, ends))
            }
            Prepared::Cluster(prepared) => {
                Running::Cluster(cluster::Running::start(*prepared, &config.settings, &hub, ends))
            }
        };
        let admin = hub.serve_pages("admin pages", sockets.admin, Pages::admin);
        let health = hub.serve_pages("health pages", sockets.health, Pages::health);
        let metrics = sockets
            .metrics
            .map(|socket| hub.serve_pages("metrics pages", socket, Pages::metrics));
        let limits = sockets
            .rate_limit
            .map(|socket| hub.serve_limits(socket, certificate.clone(), &config));
        Ok(Self {
            config,
            start,
            certificate,
            xds_socket: sockets.xds,
            authorizer,
            hub,
            world,
            fetches,
            extensions,
            running,
            xds,
            admin,
            health,
            metrics,
            limits,
        })
    }

    /// In the order in which things stop needing each other: no new input and, on this machine, the proxies with
    /// everything still there to serve them, then the servers, and last what tells how it ended.
    async fn stop(self) {
        let last = match self.running {
            Running::Standalone(running) => running.stop_first().await,
            Running::Cluster(running) => running.stop_first().await,
        };
        self.xds.stop(TASK_GRACE).await;
        if let Some(limits) = self.limits {
            limits.stop(TASK_GRACE).await;
        }
        self.health.stop(TASK_GRACE).await;
        if let Some(metrics) = self.metrics {
            metrics.stop(TASK_GRACE).await;
        }
        self.admin.stop(TASK_GRACE).await;
        self.fetches.stop(TASK_GRACE).await;
        self.extensions.stop(TASK_GRACE).await;
        last.stop(TASK_GRACE).await;
        drop(self.hub);
        // The world ends when nobody sends to it any more.
        self.world.stop(TASK_GRACE).await;
        tracing::info!("stopped");
    }

    /// Proxies go on without us.
    fn keep_proxies(&self) {
        match &self.running {
            Running::Standalone(running) => running.keep_proxies(),
            // They are the cluster's.
            Running::Cluster(_) => {}
        }
    }

    /// Brings what is running in line with a changed configuration. What can't be followed is told and stays.
    async fn follow(&mut self, new: Config) {
        tracing::info!("the configuration has changed");
        let (mut new, waiting) = config::followed(new, &self.config);
        for field in waiting {
            tracing::warn!("{field} takes effect at the next start");
        }
        let addresses = Addresses::of(&self.start.listen, &new.mode);
        if let Some(authorities) = self.authorities() {
            vouch(&mut new, &authorities, &addresses);
        }
        if let Some(log) = &self.start.log {
            log.follow(&new.logging);
        }
        tell(&new, Some(&self.config));
        if new.settings != self.config.settings {
            let settings = Box::new(new.settings.clone());
            // The world ends only with the controller.
            let _ = self.hub.inputs.send(Input::Settings(settings)).await;
        }
        if new.admin != self.config.admin {
            self.move_admin(&new).await;
        }
        self.follow_limits(&new).await;
        let authorizer = match (&self.config.mode, &new.mode) {
            (Mode::Standalone(old), Mode::Standalone(now)) => standalone::other_authorizer(old, now, &new),
            _ => None,
        };
        if new.xds != self.config.xds || authorizer.is_some() {
            self.authorizer = authorizer.unwrap_or_else(|| self.authorizer.clone());
            self.restart_xds(&new).await;
        }
        match (&mut self.running, &self.config.mode, &new.mode) {
            (Running::Standalone(running), Mode::Standalone(old), Mode::Standalone(now)) => {
                running.follow(old, now, &self.hub).await;
            }
            (Running::Cluster(running), Mode::Cluster(old), Mode::Cluster(now)) => running.follow(old, now),
            // The mode waits for the next start.
            _ => {}
        }
        self.config = new;
    }

    /// Those who vouch for us. While their file can't be read, the ones that did before go on doing so: without any,
    /// everything that a global rate limit covers would answer 500.
    fn authorities(&self) -> Option<Arc<str>> {
        match self.certificate.authorities() {
            Ok(read) => Some(read.into()),
            Err(error) => {
                tracing::error!("{error}; what it held before stays in force");
                self.config.settings.modules.authorities.clone()
            }
        }
    }

    /// Tells the service of global rate limits what to count, as long as there shall be one.
    async fn follow_limits(&mut self, new: &Config) {
        match (self.limits.take(), &new.settings.rate_limit) {
            (Some(limits), None) => limits.stop(TASK_GRACE).await,
            (None, Some(_)) => {
                let addresses = Addresses::of(&self.start.listen, &new.mode);
                match Sockets::rate_limit(&addresses).await {
                    Ok(socket) => self.limits = Some(self.hub.serve_limits(socket, self.certificate.clone(), new)),
                    Err(error) => tracing::error!(
                        "{error}; the rate limit service learns of no limits until the configuration file changes again"
                    ),
                }
            }
            (same, _) => self.limits = same,
        }
    }

    async fn move_admin(&mut self, new: &Config) {
        let remedy = format!("choose another address with {ADMIN_FIELD}");
        match Socket::open(new.admin, "the admin pages", &remedy).await {
            Ok(socket) => {
                let next = self.hub.serve_pages("admin pages", socket, Pages::admin);
                std::mem::replace(&mut self.admin, next).stop(TASK_GRACE).await;
                tracing::info!(admin = %new.admin, "the admin pages have moved");
            }
            Err(error) => tracing::error!("{error}; the admin pages stay at {}", self.config.admin),
        }
    }

    /// Proxies reconnect, to the same socket, and are sent only what they don't have.
    async fn restart_xds(&mut self, new: &Config) {
        // One after the other: streams are numbered by their server. Who connects in between waits in the socket.
        let nothing = Task::spawn("xDS server", |_| async {});
        std::mem::replace(&mut self.xds, nothing).stop(TASK_GRACE).await;
        let (socket, certificate) = (self.xds_socket.clone(), self.certificate.clone());
        self.xds = self.hub.serve_xds(socket, certificate, self.authorizer.clone(), new);
    }
}

/// Lets proxies know the service of global rate limits and the server of Wasm modules by our authority: they are never
/// spoken to in clear. The server is where we listen, unless a cluster's Service leads there.
fn vouch(config: &mut Config, authorities: &Arc<str>, addresses: &Addresses) {
    if let Some(service) = &mut config.settings.rate_limit {
        service.authorities = Some(Arc::clone(authorities));
    }
    let modules = &mut config.settings.modules;
    modules.authorities = Some(Arc::clone(authorities));
    if matches!(config.mode, Mode::Standalone(_)) {
        let at = addresses.modules;
        modules.address = Some((at.ip().to_string().into(), at.port()));
    }
}

/// Says where things are, for whoever has just started it.
fn greet(config: &Config, start: &Start, sockets: &Sockets, addresses: &Addresses, prepared: &Prepared) {
    let version = env!("CARGO_PKG_VERSION");
    let file = start
        .config_path
        .as_ref()
        .map(|path| tracing::field::display(path.display()));
    let mode = match prepared {
        Prepared::Standalone(_) => "standalone mode",
        Prepared::Cluster(_) => "in a cluster",
    };
    tracing::info!(version, config = file, "edge gateway controller, {mode}");
    let (xds, health) = (sockets.xds_address(), addresses.health);
    let metrics = sockets.metrics.as_ref();
    let metrics = metrics.map(|_| tracing::field::display(addresses.metrics));
    tracing::info!(%xds, admin = %config.admin, %health, metrics, "listening");
    prepared.greet(config);
    tell(config, None);
}

/// Says of a configuration what its reader should know and hasn't been told yet.
fn tell(config: &Config, told: Option<&Config>) {
    let is_new = |remark: &&LoadFinding| told.is_none_or(|told| !told.remarks.contains(remark));
    let remarks = config.remarks.iter().filter(is_new);
    remarks.for_each(|remark| tracing::warn!("{remark}"));
    if config.dump == Feature::Enabled && told.is_none_or(|told| told != config) {
        tracing::info!(?config, "the configuration in force");
    }
}

fn info(config: &Config, start: &Start, sockets: &Sockets, addresses: &Addresses, prepared: &Prepared) -> Value {
    let mut info = version();
    info["controllerName"] = (*config.settings.controller_name).into();
    info["configPath"] = json!(start.config_path);
    info["addresses"] = json!({
        "xds": sockets.xds_address(),
        "admin": config.admin,
        "health": addresses.health,
        "metrics": addresses.metrics,
    });
    prepared.info(&mut info);
    info
}

/// Whether metrics are to be had.
fn wants_metrics(config: &Config) -> bool {
    config.metrics == Feature::Enabled
}
