//! The control half's state: one thread owns it, nothing in it is shared but the sending sides of [`Shared`].
//!
//! Joins the pure [`Assembly`] with what is not pure: sockets, files, DNS and publication.

mod secret_files;
pub mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret as ProtoSecret;
use tokio::sync::{Notify, watch};

use crate::compile::secret::SecretKey;
use crate::control::secret_files::SecretFiles;
use crate::control::waiting::Waiting;
use crate::dns::{OnResolved, Resolvers};
use crate::health::{Warmed, Watches};
use crate::shared::{Drain, Publishers, Shared};
use crate::sockets::Sockets;
use crate::xds::assembly::{Assembly, Origin};
use crate::xds::delta::Incoming;
use crate::xds::{Kind, Rejected};

/// Names of secrets, by the cluster of the server that has them.
pub type OfServers = BTreeMap<String, BTreeSet<String>>;

/// How far starting has come, as `/server_info` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The bootstrap's clusters are not all usable.
    PreInitializing,
    /// The first configuration of the server is not complete.
    Initializing,
    /// Serving.
    Live,
}

/// What the first configuration of the server still lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// No answer about clusters yet.
    pub clusters: bool,
    /// No answer about listeners yet.
    pub listeners: bool,
}

/// What the control half knows, and the only way to change it.
#[derive(Debug)]
pub struct Control {
    /// What workers and the admin interface read.
    pub shared: Arc<Shared>,
    /// When the process started.
    pub started: Instant,
    /// The same for people.
    pub started_at: SystemTime,
    /// Woken after every change.
    pub progressed: Notify,
    /// What the server still owes.
    pub awaited: Cell<Awaited>,
    assembly: RefCell<Assembly>,
    sockets: RefCell<Sockets>,
    publishers: Publishers,
    resolvers: Resolvers,
    watches: Watches,
    secret_files: SecretFiles,
    of_servers: watch::Sender<OfServers>,
    progress: Cell<Progress>,
    /// False from when no connection is to be taken any more: sockets are closed, and none is handed out again.
    accepting: Cell<bool>,
    /// What the server left unanswered is not waited for: starting goes on without it.
    impatient: Cell<bool>,
    /// Listeners that were rejected for what the machine doesn't give, and are tried again.
    waiting: Waiting,
    binding: Binding,
}

/// What becomes of the sockets of listeners that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// They are bound, and a listener whose socket can't be is rejected.
    Bound,
    /// They are left alone: whether a port is free says nothing about a configuration that is only validated.
    Skipped,
}

impl Control {
    /// Nothing configured yet.
    pub fn new(assembly: Assembly, shared: Arc<Shared>, publishers: Publishers, binding: Binding) -> Rc<Self> {
        Rc::new(Self {
            sockets: RefCell::new(Sockets::new(shared.workers)),
            shared,
            started: Instant::now(),
            started_at: SystemTime::now(),
            progressed: Notify::new(),
            awaited: Cell::new(Awaited::default()),
            assembly: RefCell::new(assembly),
            publishers,
            resolvers: Resolvers::default(),
            watches: Watches::default(),
            secret_files: SecretFiles::default(),
            of_servers: watch::Sender::default(),
            progress: Cell::new(Progress::PreInitializing),
            accepting: Cell::new(true),
            impatient: Cell::new(false),
            waiting: Waiting::default(),
            binding,
        })
    }

    /// Whether listeners may be asked for: every cluster can be used, or is no longer waited for.
    pub fn clusters_ready(&self) -> bool {
        self.impatient.get() || self.read(Assembly::clusters_ready)
    }

    /// What the server has not sent is waited for no longer; what needs it stays closed until it comes.
    pub fn stop_waiting(self: &Rc<Self>) {
        if self.progress.get() != Progress::Live && !self.impatient.replace(true) {
            tracing::warn!("the server leaves resources unanswered that others refer to; serving without them");
            self.settle();
        }
    }

    /// The server has begun to answer about the next type.
    pub fn wait_again(&self) {
        self.impatient.set(false);
    }

    /// Reads the assembly.
    pub fn read<T>(&self, read: impl FnOnce(&Assembly) -> T) -> T {
        read(&self.assembly.borrow())
    }

    /// How far starting has come.
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Takes resources in and out; the sockets of new listeners are bound, and one that can't be is rejected.
    pub fn apply(&self, kind: Kind, origin: Origin, added: &[Incoming], removed: &[String]) -> Vec<Rejected> {
        let mut rejected = {
            let mut assembly = self.assembly.borrow_mut();
            assembly.tell_time(SystemTime::now());
            assembly.apply(kind, origin, added, removed)
        };
        if kind == Kind::Listener && self.binding == Binding::Bound {
            self.forget_waiting(added, removed);
            self.wait_for_files(added);
            rejected.extend(self.bind_new(added));
        }
        self.count(kind, origin, added.len(), removed.len(), rejected.len());
        rejected
    }

    fn count(&self, kind: Kind, origin: Origin, added: usize, removed: usize, rejected: usize) {
        let cells = self.shared.stats.control();
        let accepted = added.saturating_sub(rejected) as u64;
        let is_stream = origin == Origin::Dynamic;
        match kind {
            Kind::Listener => {
                cells.listener_added.add(accepted);
                cells.listener_removed.add(removed as u64);
                cells.listener_create_failure.add(rejected as u64);
                cells.lds_update_success.add(u64::from(is_stream && rejected == 0));
                cells.lds_update_rejected.add(u64::from(is_stream && rejected > 0));
            }
            Kind::Cluster => {
                cells.cluster_added.add(accepted);
                cells.cluster_removed.add(removed as u64);
                cells.cds_update_success.add(u64::from(is_stream && rejected == 0));
                cells.cds_update_rejected.add(u64::from(is_stream && rejected > 0));
            }
            Kind::Assignment | Kind::Routes | Kind::Secret => {}
        }
    }

    /// Takes a static secret of the bootstrap.
    pub fn put_static_secret(&self, message: &ProtoSecret) -> Result<(), Rejected> {
        self.assembly
            .borrow_mut()
            .put_secret_message(SecretKey::Named(message.name.clone()), message)
            .map_err(|error| Rejected {
                name: message.name.clone(),
                reason: error.to_string(),
            })
    }

    /// What is wanted of servers of secrets, now and from now on.
    pub fn wanted_of_servers(&self) -> watch::Receiver<OfServers> {
        self.of_servers.subscribe()
    }

    /// Takes a secret of a server. What uses it is rebuilt by the next [`settle`](Self::settle).
    ///
    /// # Errors
    /// When it can't be used; what it was before stays.
    pub fn put_secret_of_server(&self, cluster: &str, secret: &ProtoSecret, version: &str) -> Result<(), String> {
        let mut assembly = self.assembly.borrow_mut();
        assembly.tell_time(SystemTime::now());
        let put = assembly.put_secret_of_server(cluster, secret, version);
        self.shared.secrets.count(&secret.name, |cells| match &put {
            Ok(()) => cells.update_success.inc(),
            Err(_) => cells.update_rejected.inc(),
        });
        put.map_err(|error| error.to_string())
    }

    /// A server of secrets could not be asked, or has ended its stream.
    pub fn server_failed(&self, cluster: &str) {
        for name in self.of_servers.borrow().get(cluster).into_iter().flatten() {
            self.shared.secrets.count(name, |cells| cells.update_failure.inc());
        }
    }

    /// Activates and publishes whatever is ready.
    pub fn settle(self: &Rc<Self>) {
        let elsewhere = self.read(Assembly::wanted_elsewhere);
        self.load_files(&elsewhere.files);
        self.ask_servers(elsewhere.of_servers);
        self.activate();
        if self.watch_health() {
            self.activate();
        }
        self.resolvers
            .sync(self.assembly.borrow().dns_clusters(), &self.on_resolved());
        self.advance();
        self.publish_sockets();
        self.progressed.notify_one();
    }

    /// Watches over the health of hosts of what is active now; true when a cluster turns out to have nothing to wait
    /// for.
    fn watch_health(self: &Rc<Self>) -> bool {
        let control = Rc::downgrade(self);
        let warmed: Warmed = Rc::new(move |cluster: &Arc<str>| {
            if let Some(control) = control.upgrade() {
                control.assembly.borrow_mut().put_warm(cluster);
                control.settle();
            }
        });
        let watched = self.read(Assembly::watched_clusters);
        self.watches.sync(&self.shared, watched, &warmed);
        let mut warm = self.read(Assembly::warming_clusters);
        warm.retain(|cluster| self.watches.is_warm(cluster));
        for cluster in &warm {
            self.assembly.borrow_mut().put_warm(&cluster.name);
        }
        !warm.is_empty()
    }

    fn activate(&self) {
        let settled = self.assembly.borrow_mut().settle();
        for ((kind, name), reason) in &settled.rejected {
            tracing::error!(
                ?kind,
                name,
                reason,
                "a resource can't be activated; the version before stays"
            );
        }
        let snapshot = self.assembly.borrow().snapshot().clone();
        if settled.changed {
            self.publishers.snapshot.send_replace(snapshot);
        }
    }

    fn advance(&self) {
        if self.progress.get() == Progress::Live {
            return;
        }
        let awaited = self.awaited.get();
        let clusters_ready = self.clusters_ready();
        if !clusters_ready && self.progress.get() == Progress::PreInitializing {
            return;
        }
        self.progress.set(Progress::Initializing);
        let listeners_ready = self.impatient.get() || self.read(Assembly::listeners_ready);
        if clusters_ready && listeners_ready && !awaited.clusters && !awaited.listeners {
            self.progress.set(Progress::Live);
            self.shared.stats.control().live.set(1);
            tracing::info!("all dependencies initialized, starting to accept connections");
        }
    }

    /// Hands out the sockets of active listeners; before the first configuration is complete, none.
    fn publish_sockets(&self) {
        if self.progress.get() != Progress::Live || !self.accepting.get() {
            return;
        }
        let assembly = self.assembly.borrow();
        let mut sockets = self.sockets.borrow_mut();
        sockets.retain(|listener, address| assembly.uses_address(listener, address));
        let open = sockets.open(assembly.snapshot());
        let cells = self.shared.stats.control();
        cells
            .total_listeners_active
            .set(i64::try_from(assembly.snapshot().listeners.len()).unwrap_or(0));
        cells
            .active_clusters
            .set(i64::try_from(assembly.snapshot().cluster_ids.len()).unwrap_or(0));
        self.publishers.sockets.send_if_modified(|current| {
            let same =
                current.len() == open.len() && current.iter().zip(open.iter()).all(|(old, new)| Arc::ptr_eq(old, new));
            if !same {
                *current = open;
            }
            !same
        });
    }

    /// Closes every listening socket.
    pub fn stop_accepting(&self) {
        self.accepting.set(false);
        self.publishers.sockets.send_replace(Arc::from([]));
        self.sockets.borrow_mut().retain(|_, _| false);
    }

    /// Moves on the way out; never back, except from discouraging.
    pub fn drain(&self, step: Drain) {
        self.publishers.drain.send_if_modified(|current| {
            let moves = step > *current;
            if moves {
                *current = step;
            }
            moves
        });
    }

    /// Tells those who ask servers of secrets what is wanted of them.
    fn ask_servers(&self, wanted: OfServers) {
        self.of_servers.send_if_modified(|current| {
            let differs = *current != wanted;
            if differs {
                let names = wanted.values().flatten().map(String::as_str).collect();
                self.shared.secrets.want(&names);
            }
            *current = wanted;
            differs
        });
    }

    /// Where answers of DNS go, for as long as we are there.
    fn on_resolved(self: &Rc<Self>) -> OnResolved {
        let control = Rc::downgrade(self);
        Rc::new(move |cluster, resolved| {
            let Some(control) = control.upgrade() else {
                return ControlFlow::Break(());
            };
            control.assembly.borrow_mut().put_resolved(cluster, resolved.clone());
            control.settle();
            ControlFlow::Continue(())
        })
    }

    /// Forgets what nothing refers to.
    pub fn forget_unwanted(&self) {
        self.assembly.borrow_mut().forget_unwanted();
    }
}
