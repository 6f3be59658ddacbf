//! The open client connections of a worker, so that drains and configuration changes reach them.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::config::{RouteTableId, Snapshot};
use crate::connection::Connection;

/// Open connections; a place is used again after its connection has gone.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    places: RefCell<Places>,
}

#[derive(Debug, Default)]
struct Places {
    open: Vec<Option<Rc<Connection>>>,
    free: Vec<usize>,
}

impl Registry {
    /// Adds a connection; the place is for [`Self::remove`].
    pub(crate) fn add(&self, connection: Rc<Connection>) -> usize {
        let mut places = self.places.borrow_mut();
        match places.free.pop() {
            Some(place) => {
                places.open[place] = Some(connection);
                place
            }
            None => {
                places.open.push(Some(connection));
                places.open.len() - 1
            }
        }
    }

    /// Takes a connection out.
    pub(crate) fn remove(&self, place: usize) {
        let mut places = self.places.borrow_mut();
        if places.open.get_mut(place).and_then(Option::take).is_some() {
            places.free.push(place);
        }
    }

    /// Tells connections to leave after their next response.
    pub(crate) fn discourage(&self, which: impl Fn(&Connection) -> bool) {
        self.each(which, Connection::discourage);
    }

    /// Ends connections as soon as they have no request.
    pub(crate) fn drain(&self, which: impl Fn(&Connection) -> bool) {
        self.each(which, Connection::drain);
    }

    /// Lets connections take over what a new configuration says about them.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.each(|_| true, |connection| connection.follow(snapshot));
    }

    /// Route tables that connections on their way out still need.
    pub(crate) fn last_routes(&self) -> FxHashSet<RouteTableId> {
        let places = self.places.borrow();
        let open = places.open.iter().flatten();
        open.filter_map(|connection| connection.leaves_with()).collect()
    }

    fn each(&self, which: impl Fn(&Connection) -> bool, act: impl Fn(&Connection)) {
        for connection in self.places.borrow().open.iter().flatten() {
            if which(connection) {
                act(connection);
            }
        }
    }
}
