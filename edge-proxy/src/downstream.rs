//! The client's side: accepting, TLS, and running HTTP on a connection or handing bytes on.
//!
//! One module a protocol ([`http1`], [`http2`], [`tcp`], [`udp`]) between a client's socket and what serves it.
//! What a request needs to know of its connection is [`crate::connection`]'s, what becomes of a request is
//! [`crate::http`]'s.

pub(crate) mod accept;
mod frames;
mod http1;
mod http2;
mod io;
pub mod proxied;
mod recorded;
mod registry;
mod serve;
mod tcp;
mod udp;

use std::rc::Rc;

use tokio::sync::Notify;

use crate::config::Snapshot;
use crate::local::Local;
use crate::upstream::Upstreams;
use registry::Registry;

/// All client state of a worker.
#[derive(Debug)]
pub(crate) struct Clients {
    /// The state of the worker's thread.
    pub(crate) worker: Rc<Local>,
    /// Backend connections and balancing state.
    pub(crate) upstreams: Rc<Upstreams>,
    /// Open connections that speak HTTP.
    pub(crate) connections: Registry,
    /// Rung when listeners have come, gone or changed.
    listeners_changed: Notify,
}

impl Clients {
    /// No client yet.
    pub(crate) fn new(upstreams: Rc<Upstreams>) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(&upstreams.worker),
            upstreams,
            connections: Registry::default(),
            listeners_changed: Notify::new(),
        })
    }

    /// Takes over what other listeners mean for open connections.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.connections.follow(snapshot);
        self.worker.forget_routes(&self.connections.last_routes());
        self.listeners_changed.notify_waiters();
    }
}
