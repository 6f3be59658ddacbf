//! What is kept of a stream or a session for its logs.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::access_log::{self, Client, Record, Spoken};
use crate::config::access_log::AccessLogs;
use crate::config::listener::Listener;
use crate::connection::peer::{Agreed, PeerCertificate};
use crate::local::Local;
use crate::proxy_protocol::Addresses;

/// Writes its line when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamLog {
    worker: Rc<Local>,
    about: About,
    record: RefCell<Record>,
}

/// Whom a stream or a session is with, and on what.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) listener: Arc<Listener>,
    /// The chain's name; empty where there is none.
    pub(crate) chain: Arc<str>,
    pub(crate) addresses: Addresses,
    pub(crate) direct: Addresses,
    pub(crate) server_name: Option<Arc<str>>,
    pub(crate) certificate: Option<Rc<PeerCertificate>>,
    pub(crate) agreed: Option<Agreed>,
    pub(crate) spoken: Spoken,
}

impl StreamLog {
    /// Of something that has begun then.
    pub(crate) fn new(worker: &Rc<Local>, logs: &Arc<AccessLogs>, about: About, begun: Instant) -> Self {
        let mut record = Record::new(Some(Arc::clone(logs)), begun, worker.random.next());
        record.times.calendar -= worker.clock.now().saturating_duration_since(begun);
        Self {
            worker: Rc::clone(worker),
            about,
            record: RefCell::new(record),
        }
    }

    /// Takes something in.
    pub(crate) fn note(&self, tell: impl FnOnce(&mut Record)) {
        tell(&mut self.record.borrow_mut());
    }
}

impl Drop for StreamLog {
    fn drop(&mut self) {
        let about = &self.about;
        let client = Client {
            addresses: about.addresses,
            direct: about.direct,
            server_name: about.server_name.as_deref(),
            certificate: about.certificate.as_deref(),
            agreed: about.agreed,
            listener: &about.listener.name,
            chain: &about.chain,
            spoken: about.spoken,
        };
        let record = self.record.get_mut();
        record.times.over = self.worker.clock.now();
        access_log::write(&self.worker, client, record);
    }
}
