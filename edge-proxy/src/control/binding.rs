//! Listeners whose address can't be bound: rejected, and tried again until it can.
//!
//! A port may be free a moment later, and nobody would send the same listener again for that. So its last version is
//! kept beside the rejection, until it is bound, or another version comes, or it is removed. Once it is bound it
//! serves, and the server is asked for it by name: that makes it send the listener once more, and the answer takes the
//! rejection back.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
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

/// A listener that waits: what it needs, and the resource to take once it has it.
type Waiting = (Vec<ListenAddress>, Incoming);

/// Listeners that wait for their addresses.
#[derive(Debug, Default)]
pub(super) struct Unbound {
    waiting: RefCell<BTreeMap<Arc<str>, Waiting>>,
    arrived: Notify,
    /// Bound since the server was last told.
    returned: RefCell<BTreeSet<String>>,
}

impl Control {
    /// Binds the sockets of listeners that have just arrived; those that can't be are rejected and kept for later.
    pub(super) fn bind_new(&self, added: &[Incoming], removed: &[String]) -> Vec<Rejected> {
        let mut waiting = self.unbound.waiting.borrow_mut();
        let known = added.iter().map(|resource| &resource.name).chain(removed);
        known.for_each(|name| drop(waiting.remove(name.as_str())));
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
                waiting.insert(name.clone(), (addresses, resource.clone()));
                self.unbound.arrived.notify_one();
            }
            rejected.push(assembly.refuse_listener(&name, reason));
        }
        rejected
    }

    /// The listeners to ask the server for by name.
    pub fn take_returned(&self) -> BTreeSet<String> {
        self.unbound.returned.take()
    }

    /// Tries all that wait once more.
    fn bind_again(self: &Rc<Self>) {
        let waiting: Vec<_> = self.unbound.waiting.borrow().clone().into_iter().collect();
        let mut bound = false;
        for (name, (addresses, resource)) in waiting {
            if self.sockets.borrow_mut().bind(&name, &addresses).is_err() {
                continue;
            }
            self.unbound.waiting.borrow_mut().remove(&name);
            let mut assembly = self.assembly.borrow_mut();
            assembly.tell_time(SystemTime::now());
            let rejected = assembly.apply(Kind::Listener, Origin::Dynamic, &[resource], &[]);
            if rejected.is_empty() {
                tracing::info!(listener = &*name, "its address could be bound after all");
                self.unbound.returned.borrow_mut().insert(name.to_string());
                bound = true;
            }
        }
        if bound {
            self.settle();
        }
    }
}

/// Tries again for as long as something waits, and sleeps otherwise. Runs until the process ends.
pub async fn follow(control: Rc<Control>) {
    let mut pause = FIRST_PAUSE;
    loop {
        if control.unbound.waiting.borrow().is_empty() {
            control.unbound.arrived.notified().await;
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        control.bind_again();
    }
}
