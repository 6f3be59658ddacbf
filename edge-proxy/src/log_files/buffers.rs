//! Lines that wait on a worker for the thread that writes them.
//!
//! A buffer for each file, handed over when it is full, or a while after its first line. A line must not
//! cost a wake-up of another thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::config::access_log::LogFile;
use crate::log_files::writer::{Batch, LogWriter};
use crate::stats::ServerCells;

/// A buffer of that size is handed over at once.
const FULL: usize = 64 * 1024;
/// Room that a buffer begins with.
const BEGUN: usize = 4096;
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
    pub(crate) fn append(
        &self,
        writer: &LogWriter,
        cells: &ServerCells,
        file: &Arc<LogFile>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut batches = self.batches.borrow_mut();
        if batches.is_empty() {
            self.begun.notify_one();
        }
        let at = match batches.iter().position(|batch| Arc::ptr_eq(&batch.file, file)) {
            Some(at) => at,
            None => {
                // Of many files most have little to say.
                batches.push(begin(file, BEGUN));
                batches.len() - 1
            }
        };
        let batch = &mut batches[at];
        write(&mut batch.text);
        batch.lines += 1;
        if batch.text.len() >= FULL {
            // This one has much: its next buffer needn't grow.
            let full = std::mem::replace(batch, begin(file, FULL + BEGUN));
            hand_over(writer, cells, full);
        }
    }

    /// Hands over what there is.
    pub(crate) fn flush(&self, writer: &LogWriter, cells: &ServerCells) {
        let batches = std::mem::take(&mut *self.batches.borrow_mut());
        for mut batch in batches.into_iter().filter(|batch| batch.lines > 0) {
            // What waits for the thread is counted by its room.
            batch.text.shrink_to_fit();
            hand_over(writer, cells, batch);
        }
    }

    /// Ready a while after the first line was written since all was handed over.
    pub(crate) async fn gathered(&self) {
        self.begun.notified().await;
        tokio::time::sleep(PATIENCE).await;
    }
}

fn begin(file: &Arc<LogFile>, room: usize) -> Batch {
    Batch {
        file: Arc::clone(file),
        text: Vec::with_capacity(room),
        lines: 0,
    }
}

fn hand_over(writer: &LogWriter, cells: &ServerCells, batch: Batch) {
    let lines = batch.lines;
    // Whoever comes next counts them: the thread has no counters of its own.
    cells.access_log_failed.add(writer.take_failed());
    match writer.take(batch) {
        Ok(()) => cells.access_log_buffered.add(lines),
        Err(_) => cells.access_log_dropped.add(lines),
    }
}
