//! Which settings a connection is served by, while the configuration changes under it.
//!
//! A connection follows its socket. As long as something listens where it was accepted, and a chain would take it
//! by the same TLS, that chain's settings and routes serve its next request, whatever they are called by now. A
//! connection whose client was let in by other rules (certificates, trusted authorities), or whose listener has gone,
//! is told to leave with its next response, and until then goes on with what it had, the last routes included.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Kind;
use crate::config::http_manager::{Codec, HttpManager, RouteSource};
use crate::config::listener::{FilterChain, Listener};
use crate::config::table::RouteTable;
use crate::config::{RouteTableId, Snapshot};
use crate::connection::Connection;
use crate::message::Protocol;

/// The settings of a connection.
#[derive(Debug)]
pub(super) struct ConnectionSettings {
    pub(super) listener: Arc<Listener>,
    pub(super) http: Arc<HttpManager>,
}

/// The settings of HTTP as they are for what begins now; they stay the same while this is held.
#[derive(Clone, Debug)]
pub(crate) struct Manager(pub(super) Rc<ConnectionSettings>);

impl Deref for Manager {
    type Target = HttpManager;

    fn deref(&self) -> &HttpManager {
        &self.0.http
    }
}

impl Manager {
    /// The name of the listener that it is of.
    pub(crate) fn listener_name(&self) -> &str {
        &self.0.listener.name
    }
}

impl Connection {
    /// Takes over what the configuration says about it now. Costs a comparison when that was done already.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        if self.followed.replace(snapshot.version) == snapshot.version {
            return;
        }
        let settings = Rc::clone(&self.settings.borrow());
        let Some(listener) = successor(&settings.listener, snapshot) else {
            return self.abandon();
        };
        if Arc::ptr_eq(listener, &settings.listener) {
            return;
        }
        let hello = self.chain.hello(self.server_name.as_deref());
        let chain = listener.chain_for(hello, self.client.ip());
        let Some((chain, http)) = chain.and_then(|chain| Some((chain, chain.network.http()?))) else {
            return self.abandon();
        };
        if !self.may_be_served_by(chain, http) {
            return self.abandon();
        }
        let same = Arc::ptr_eq(http, &settings.http);
        let (listener, http) = (Arc::clone(listener), Arc::clone(http));
        *self.settings.borrow_mut() = Rc::new(ConnectionSettings { listener, http });
        if !same {
            self.restart_clock();
        }
    }

    fn may_be_served_by(&self, chain: &FilterChain, http: &HttpManager) -> bool {
        let speaks = match http.codec {
            Codec::Auto => true,
            Codec::Http1 => self.protocol == Protocol::Http1,
            Codec::Http2 => self.protocol == Protocol::Http2,
        };
        speaks && chain.transport == self.chain.transport
    }

    /// Nothing serves it any more. Its client hears so with the next response, or the drain time ends it.
    fn abandon(&self) {
        // Once: a configuration that goes on changing would else put the end off again and again.
        if self.left.replace(true) {
            return;
        }
        self.abandoned.notify_waiters();
        self.discourage();
        if self.protocol == Protocol::Http1 {
            let drain_time = self.worker.shared.flags.drain_time();
            self.timer.set(Kind::Drain, self.worker.clock.now(), Some(drain_time));
        }
    }

    /// Waits until nothing serves it any more, for what no response ends.
    pub(crate) async fn until_abandoned(&self) {
        while !self.left.get() {
            self.abandoned.notified().await;
        }
    }

    /// The routes that it still needs although the configuration has them no more.
    pub(crate) fn leaves_with(&self) -> Option<RouteTableId> {
        match self.settings.borrow().http.routes {
            RouteSource::Dynamic { id, .. } if self.left.get() => Some(id),
            _ => None,
        }
    }

    /// The routes for a request that find none in the configuration: those that there were last, for a connection that
    /// is on its way out with what they belonged to.
    pub(crate) fn last_routes(&self, source: &RouteSource) -> Option<Arc<RouteTable>> {
        match source {
            RouteSource::Dynamic { id, .. } if self.left.get() => self.worker.last_routes(*id),
            _ => None,
        }
    }
}

/// What listens now where a listener did.
pub(crate) fn successor<'a>(listener: &Listener, snapshot: &'a Snapshot) -> Option<&'a Arc<Listener>> {
    let mut others = snapshot.listeners.values();
    snapshot.listeners.get(&listener.name).or_else(|| {
        let address = listener.addresses.first()?;
        others.find(|other| other.addresses.first() == Some(address))
    })
}
