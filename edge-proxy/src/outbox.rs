//! Entries that wait on a worker to be sent to services.
//!
//! For each service one list of encoded entries, bounded in bytes. Whoever observes something adds to it and goes
//! on; a task of the worker (`calls/reports`) takes all that is there and sends it. What comes when the list is
//! full is dropped and counted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::config::collector::{Collector, Form};
use crate::stats::{Counter, ServerCells};

/// So much may wait for a service.
const MOST: usize = 1 << 20;

/// The lists of a worker.
#[derive(Debug, Default)]
pub(crate) struct Outboxes {
    open: RefCell<Vec<Rc<Outbox>>>,
    /// Those that nobody serves yet.
    fresh: RefCell<Vec<Rc<Outbox>>>,
    /// Rung when there is such a one.
    pub(crate) begun: Notify,
}

/// What waits for a service.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) collector: Arc<Collector>,
    waiting: RefCell<Entries>,
    /// Rung with the first entry.
    pub(crate) begun: Notify,
    /// Rung when there is enough to be sent at once.
    pub(crate) full: Notify,
    is_full: Cell<bool>,
    /// Entries have been taken, and nobody knows yet what became of them.
    is_sending: Cell<bool>,
    /// Rung when that is known.
    settled: Notify,
}

/// Encoded entries, each as a field of the message that will have them.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
}

impl Outboxes {
    /// Adds the entry that `write` writes.
    pub(crate) fn put(&self, cells: &ServerCells, collector: &Arc<Collector>, write: impl FnOnce(&mut Vec<u8>)) {
        let outbox = self.of(collector);
        let mut waiting = outbox.waiting.borrow_mut();
        if waiting.bytes.len() >= MOST {
            counted(cells, &collector.form).dropped.inc();
            return;
        }
        if waiting.bytes.is_empty() {
            outbox.begun.notify_one();
        }
        write(&mut waiting.bytes);
        waiting.count += 1;
        if waiting.bytes.len() >= collector.full && !outbox.is_full.replace(true) {
            outbox.full.notify_one();
        }
    }

    fn of(&self, collector: &Arc<Collector>) -> Rc<Outbox> {
        let mut open = self.open.borrow_mut();
        if let Some(known) = open.iter().find(|known| Arc::ptr_eq(&known.collector, collector)) {
            return Rc::clone(known);
        }
        let outbox = Rc::new(Outbox {
            collector: Arc::clone(collector),
            waiting: RefCell::default(),
            begun: Notify::new(),
            full: Notify::new(),
            is_full: Cell::new(false),
            is_sending: Cell::new(false),
            settled: Notify::new(),
        });
        open.push(Rc::clone(&outbox));
        self.fresh.borrow_mut().push(Rc::clone(&outbox));
        self.begun.notify_one();
        outbox
    }

    /// Those that nobody serves yet.
    pub(crate) fn fresh(&self) -> Vec<Rc<Outbox>> {
        self.fresh.take()
    }

    /// Lets everything that waits go at once, and waits until it has gone.
    pub(crate) async fn flush(&self) {
        let open = self.open.borrow().clone();
        for outbox in &open {
            outbox.full.notify_one();
        }
        for outbox in &open {
            while outbox.is_sending.get() || !outbox.waiting.borrow().bytes.is_empty() {
                outbox.settled.notified().await;
            }
        }
    }

    /// Forgets one that nobody serves any more; false when something waits in it.
    pub(crate) fn close(&self, outbox: &Rc<Outbox>) -> bool {
        let is_over = outbox.waiting.borrow().bytes.is_empty();
        if is_over {
            self.open.borrow_mut().retain(|one| !Rc::ptr_eq(one, outbox));
        }
        is_over
    }
}

/// What is counted of entries.
pub(crate) struct Counted<'a> {
    /// Those that were sent.
    pub(crate) written: &'a Counter,
    /// Those that nobody got.
    pub(crate) dropped: &'a Counter,
}

/// The counters of a kind of service.
pub(crate) fn counted<'a>(cells: &'a ServerCells, form: &Form) -> Counted<'a> {
    let (written, dropped) = match form {
        Form::HttpLogs { .. } | Form::StreamLogs { .. } => (&cells.service_logs_written, &cells.service_logs_dropped),
        Form::OtlpLogs { .. } => (&cells.otlp_logs_written, &cells.otlp_logs_dropped),
        Form::OtlpSpans { .. } => (&cells.otlp_spans_sent, &cells.otlp_spans_dropped),
        Form::OtlpMetrics { .. } => (&cells.otlp_metrics_sent, &cells.otlp_metrics_dropped),
        Form::ZipkinSpans { .. } => (&cells.zipkin_spans_sent, &cells.zipkin_spans_dropped),
    };
    Counted { written, dropped }
}

impl Outbox {
    /// All that waits.
    pub(crate) fn take(&self) -> Entries {
        self.is_full.set(false);
        self.is_sending.set(true);
        self.waiting.take()
    }

    /// What was taken is sent, or lost.
    pub(crate) fn settle(&self) {
        self.is_sending.set(false);
        self.settled.notify_one();
    }
}
