//! Listeners that need what the machine doesn't give, an address or a file: rejected, and tried again until it does.
//!
//! A port may be free a moment later, and a file be there, and nobody would send the same listener again for that. So
//! its last version is kept beside the rejection, until it is taken, or another version comes, or it is removed. Once
//! it is taken it serves, and the server is asked for it by name: that makes it send the listener once more, and the
//! answer takes the rejection back.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::config::listener::ListenAddress;
use crate::control::Control;
use crate::xds::assembly::Origin;
use crate::xds::delta::Incoming;
use crate::xds::{Kind, Rejected};

/// The first pause between two attempts; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest: whoever frees a port doesn't wait for more.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What a listener waits for.
#[derive(Clone, Debug)]
enum Need {
    /// These are free.
    Addresses(Vec<ListenAddress>),
    /// One of these is another than before the last attempt.
    Files(BTreeMap<PathBuf, Option<Version>>),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => {
                let addresses = addresses.iter().map(|listened| listened.address);
                f.debug_list().entries(addresses).finish()
            }
            Self::Files(files) => f.debug_list().entries(files.keys()).finish(),
        }
    }
}

/// What tells a file from the one before.
type Version = (SystemTime, u64);

/// What a file is now; `None` where there is none.
fn version(path: &PathBuf) -> Option<Version> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

/// Listeners that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By name: what each needs, and the resource to take once it has it.
    listeners: RefCell<BTreeMap<Arc<str>, (Need, Incoming)>>,
    arrived: Notify,
    /// Taken since the server was last told.
    returned: RefCell<BTreeSet<String>>,
}

impl Waiting {
    fn add(&self, need: Need, resource: &Incoming) {
        let name = resource.name.as_str().into();
        self.listeners.borrow_mut().insert(name, (need, resource.clone()));
        self.arrived.notify_one();
    }
}

impl Control {
    /// Another version has come, or none is wanted any more.
    pub(super) fn forget_waiting(&self, added: &[Incoming], removed: &[String]) {
        let mut waiting = self.waiting.listeners.borrow_mut();
        let known = added.iter().map(|resource| &resource.name).chain(removed);
        known.for_each(|name| drop(waiting.remove(name.as_str())));
    }

    /// Keeps listeners for later that were rejected for the sake of files.
    pub(super) fn wait_for_files(&self, added: &[Incoming]) {
        for (name, files) in self.assembly.borrow_mut().take_unusable() {
            if let Some(resource) = added.iter().find(|resource| resource.name == name) {
                // What it was when it was read nobody knows: one that is there is tried once more.
                let files = files.into_iter().map(|path| (path, None));
                self.waiting.add(Need::Files(files.collect()), resource);
            }
        }
    }

    /// Binds the sockets of listeners that have just arrived; those that can't be are rejected and kept for later.
    pub(super) fn bind_new(&self, added: &[Incoming]) -> Vec<Rejected> {
        let mut assembly = self.assembly.borrow_mut();
        let mut sockets = self.sockets.borrow_mut();
        // What was removed in the same response gives its address free.
        sockets.retain(|listener, address| assembly.uses_address(listener, address));
        let mut rejected = Vec::new();
        for (name, addresses) in assembly.unchecked_listeners() {
            let Err(reason) = sockets.bind(&name, &addresses) else {
                continue;
            };
            if let Some(resource) = added.iter().find(|resource| resource.name == *name) {
                self.waiting.add(Need::Addresses(addresses), resource);
            }
            rejected.push(assembly.refuse_listener(&name, reason));
        }
        rejected
    }

    /// The listeners to ask the server for by name.
    pub fn take_returned(&self) -> BTreeSet<String> {
        self.waiting.returned.take()
    }

    /// Tries all again that may have now what they need.
    fn try_again(self: &Rc<Self>) {
        let waiting: Vec<_> = self.waiting.listeners.borrow().clone().into_iter().collect();
        let mut has_taken = false;
        for (name, (need, resource)) in waiting {
            let may_have = match &need {
                Need::Addresses(addresses) => self.sockets.borrow_mut().bind(&name, addresses).is_ok(),
                Need::Files(files) => files.iter().any(|(path, before)| version(path) != *before),
            };
            if may_have && self.take(&name, &need, resource) {
                tracing::info!(listener = &*name, %need, "a listener that was rejected serves now: what it needs is there");
                self.waiting.returned.borrow_mut().insert(name.to_string());
                has_taken = true;
            }
        }
        if has_taken {
            self.settle();
        }
    }

    /// Takes a listener that has waited, if it can be now.
    fn take(&self, name: &str, need: &Need, resource: Incoming) -> bool {
        let looked = match need {
            Need::Addresses(_) => BTreeMap::new(),
            Need::Files(files) => files.keys().map(|path| (path.clone(), version(path))).collect(),
        };
        let rejected = self.apply(Kind::Listener, Origin::Dynamic, &[resource], &[]);
        if let Some((Need::Files(files), _)) = self.waiting.listeners.borrow_mut().get_mut(name) {
            for (path, before) in files {
                *before = looked.get(path).copied().flatten();
            }
        }
        rejected.is_empty()
    }
}

/// Tries again for as long as something waits, and sleeps otherwise. Runs until the process ends.
pub async fn follow(control: Rc<Control>) {
    let mut pause = FIRST_PAUSE;
    loop {
        if control.waiting.listeners.borrow().is_empty() {
            control.waiting.arrived.notified().await;
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        control.try_again();
    }
}
