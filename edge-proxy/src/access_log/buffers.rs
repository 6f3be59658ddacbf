//! Lines that wait on a worker for the thread that writes them.
//!
//! What: a buffer for each file, handed over when it is full, or a while after its first line. Why: a line must not
//! cost a wake-up of another thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::access_log::writer::Batch;
use crate::config::access_log::LogFile;
use crate::worker::Worker;

/// A buffer of that size is handed over at once.
const FULL: usize = 32 * 1024;
/// How long a line waits for others.
const PATIENCE: Duration = Duration::from_millis(100);

/// The buffers of a worker.
#[derive(Debug, Default)]
pub(crate) struct LogBuffers {
    batches: RefCell<Vec<Batch>>,
    /// Rung with the first line after all was handed over.
    begun: Notify,
}

impl LogBuffers {
    /// Adds what `write` writes.
    pub(crate) fn append(&self, worker: &Worker, file: &Arc<LogFile>, write: impl FnOnce(&mut Vec<u8>)) {
        let mut batches = self.batches.borrow_mut();
        if batches.is_empty() {
            self.begun.notify_one();
        }
        let at = match batches.iter().position(|batch| Arc::ptr_eq(&batch.file, file)) {
            Some(at) => at,
            None => {
                batches.push(Batch {
                    file: Arc::clone(file),
                    text: Vec::with_capacity(FULL + 4096),
                    lines: 0,
                });
                batches.len() - 1
            }
        };
        let batch = &mut batches[at];
        write(&mut batch.text);
        batch.lines += 1;
        if batch.text.len() >= FULL {
            let full = batches.swap_remove(at);
            hand_over(worker, full);
        }
    }

    /// Hands over what there is.
    pub(crate) fn flush(&self, worker: &Worker) {
        let batches = std::mem::take(&mut *self.batches.borrow_mut());
        for batch in batches {
            hand_over(worker, batch);
        }
    }

    /// Hands lines over a while after they were written, as long as the worker runs.
    pub(crate) async fn drive(worker: std::rc::Rc<Worker>) {
        loop {
            worker.logs.begun.notified().await;
            tokio::time::sleep(PATIENCE).await;
            worker.logs.flush(&worker);
        }
    }
}

fn hand_over(worker: &Worker, batch: Batch) {
    let (lines, cells) = (batch.lines, worker.server_cells());
    match worker.shared.logs.take(batch) {
        Ok(()) => cells.access_log_buffered.add(lines),
        Err(_) => cells.access_log_dropped.add(lines),
    }
}
