//! The thread that writes logs into files.
//!
//! Takes batches from a queue that is bounded by what it holds, opens files when their first lines come, and
//! appends. A file that can't be opened or written loses the batch and says so once; the next batch tries again. A file
//! that no configuration names any more is closed after a while. The thread starts with the first batch: a process
//! without logs has none.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::config::access_log::LogFile;

/// So much may wait for the thread; what comes when it does is dropped. It isn't counted in batches: a worker hands
/// over those of all files at once, each of which may be a line long.
const QUEUE: usize = 2 << 20;
/// What a batch costs beside the room of its text.
const BATCH: usize = 128;
/// How often files are looked for that nobody names any more.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long the end of the process waits for what is not written yet.
const FAREWELL: Duration = Duration::from_secs(2);

/// Lines for a file.
#[derive(Debug)]
pub struct Batch {
    /// Where they go.
    pub file: Arc<LogFile>,
    /// All of them.
    pub text: Vec<u8>,
    /// How many they are.
    pub lines: u64,
}

impl Batch {
    fn cost(&self) -> usize {
        self.text.capacity() + BATCH
    }
}

/// The queue is full, or there is no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

enum Order {
    Write(Batch),
    /// Say so when everything before is written.
    Finish(SyncSender<()>),
}

/// What hands lines to the thread.
#[derive(Debug, Default)]
pub struct LogWriter {
    queue: OnceLock<Option<Sender<Order>>>,
    /// What is in the queue.
    waiting: Arc<AtomicUsize>,
    reopen: Arc<AtomicBool>,
    /// Lines that couldn't be written, and aren't counted yet.
    failed: Arc<AtomicU64>,
}

impl LogWriter {
    /// Takes lines if there is room for them. Never waits.
    pub fn take(&self, batch: Batch) -> Result<(), Refused> {
        let queue = self.queue.get_or_init(|| self.start());
        let queue = queue.as_ref().ok_or(Refused)?;
        let cost = batch.cost();
        if self.waiting.fetch_add(cost, Ordering::AcqRel) + cost > QUEUE {
            self.waiting.fetch_sub(cost, Ordering::AcqRel);
            return Err(Refused);
        }
        queue.send(Order::Write(batch)).map_err(|_| Refused)
    }

    /// How many lines couldn't be written since this was asked.
    pub fn take_failed(&self) -> u64 {
        self.failed.swap(0, Ordering::AcqRel)
    }

    /// Files are opened anew by their paths before the next line is written: somebody has moved them away.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    /// Waits until what was taken is written, but not for ever: a pipe may have no reader.
    pub fn finish(&self) {
        if let Some(Some(queue)) = self.queue.get() {
            let (done, wait) = sync_channel(1);
            if queue.send(Order::Finish(done)).is_ok() {
                // Whether in time or not, the process ends now.
                let _ = wait.recv_timeout(FAREWELL);
            }
        }
    }

    fn start(&self) -> Option<Sender<Order>> {
        let (queue, orders) = channel();
        let files = Files {
            open: HashMap::new(),
            waiting: Arc::clone(&self.waiting),
            reopen: Arc::clone(&self.reopen),
            failed: Arc::clone(&self.failed),
        };
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        match thread
            .stack_size(128 << 10)
            .spawn(move || files.serve(&orders, LOOK_EVERY))
        {
            Ok(_) => Some(queue),
            Err(error) => {
                tracing::error!(%error, "access logs can't be written: no thread for them");
                None
            }
        }
    }
}

#[derive(Default)]
struct Files {
    open: HashMap<PathBuf, Open>,
    waiting: Arc<AtomicUsize>,
    reopen: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
}

/// A file that was written to.
struct Open {
    /// `None` for one that failed, which was said.
    file: Option<File>,
    /// Who names it: a configuration, or lines on their way.
    named: Weak<LogFile>,
}

impl Files {
    fn serve(mut self, orders: &Receiver<Order>, look_every: Duration) {
        let mut looked = Instant::now();
        loop {
            match orders.recv_timeout(look_every) {
                Ok(Order::Write(batch)) => {
                    self.write(&batch);
                    self.waiting.fetch_sub(batch.cost(), Ordering::AcqRel);
                }
                // Whoever asked may have stopped waiting.
                Ok(Order::Finish(done)) => drop(done.try_send(())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() >= look_every {
                looked = Instant::now();
                self.open.retain(|_, open| open.named.strong_count() > 0);
            }
        }
    }

    fn write(&mut self, batch: &Batch) {
        if self.reopen.swap(false, Ordering::AcqRel) {
            self.open.clear();
        }
        let path = &batch.file.path;
        let known = self.open.remove(path);
        let has_failed = known.as_ref().is_some_and(|open| open.file.is_none());
        let file = known.and_then(|open| open.file);
        let written = file.map_or_else(|| open(path), Ok).and_then(|mut file| {
            file.write_all(&batch.text)?;
            Ok(file)
        });
        if let Err(error) = &written {
            self.failed.fetch_add(batch.lines, Ordering::AcqRel);
            if !has_failed {
                tracing::error!(path = %path.display(), %error, "an access log can't be written");
            }
        }
        let named = Arc::downgrade(&batch.file);
        let file = written.ok();
        self.open.insert(path.clone(), Open { file, named });
    }
}

/// Opens a file to append to. The process's own outputs are taken as they are: by its path a socket can't be opened.
fn open(path: &Path) -> io::Result<File> {
    let own = match path.to_str() {
        Some("/dev/stdout") => io::stdout().as_fd().try_clone_to_owned()?,
        Some("/dev/stderr") => io::stderr().as_fd().try_clone_to_owned()?,
        _ => return OpenOptions::new().append(true).create(true).open(path),
    };
    Ok(File::from(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let writer = LogWriter::default();
        let folder = tempfile::tempdir().unwrap();
        let batch = |path: PathBuf, lines| Batch {
            file: Arc::new(LogFile { path }),
            text: b"line\n".to_vec(),
            lines,
        };
        assert_eq!(writer.take(batch(folder.path().join("log"), 3)), Ok(()));
        // A folder is no file.
        assert_eq!(writer.take(batch(folder.path().into(), 4)), Ok(()));
        assert_eq!(writer.take(batch(folder.path().into(), 1)), Ok(()));
        writer.finish();
        assert_eq!((writer.take_failed(), writer.take_failed()), (5, 0));
    }

    #[test]
    fn a_file_is_open_as_long_as_somebody_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| {
            Arc::new(LogFile {
                path: folder.path().join(name),
            })
        };
        let (kept, gone) = (named("kept"), named("gone"));
        let paths = [kept.path.clone(), gone.path.clone()];
        let (queue, orders) = channel();
        for file in [Arc::clone(&kept), gone] {
            let text = b"line\n".to_vec();
            queue.send(Order::Write(Batch { file, text, lines: 1 })).unwrap();
        }
        let thread = std::thread::spawn(move || Files::default().serve(&orders, Duration::from_millis(10)));
        let is_open = |path: &Path| {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter_map(|fd| std::fs::read_link(fd.path()).ok())
                .any(|target| target == path)
        };
        let begun = Instant::now();
        while !paths.iter().all(|path| path.exists()) || is_open(&paths[1]) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it stays open");
            std::thread::yield_now();
        }
        assert!(is_open(&paths[0]));
        drop(queue);
        thread.join().unwrap();
    }

    #[test]
    fn lines_of_many_files_wait_and_too_many_lines_do_not() {
        let (queue, orders) = channel();
        let writer = LogWriter {
            queue: OnceLock::from(Some(queue)),
            ..LogWriter::default()
        };
        let lines = |file: u32, size| Batch {
            file: Arc::new(LogFile {
                path: format!("/logs/{file}").into(),
            }),
            text: vec![b'x'; size],
            lines: 1,
        };
        let roomy = |file| Batch {
            text: Vec::with_capacity(4096),
            ..lines(file, 0)
        };
        for file in 0..1000 {
            assert_eq!(writer.take(lines(file, 100)), Ok(()));
        }
        assert_eq!(orders.try_iter().count(), 1000);
        writer.waiting.store(0, Ordering::Release);
        let taken = (0..64).filter(|file| writer.take(lines(*file, 64 << 10)).is_ok());
        assert_eq!(taken.count(), QUEUE / lines(0, 64 << 10).cost());
        writer.waiting.store(0, Ordering::Release);
        // Room counts, too: it is what memory is full of.
        let taken = (0..1000).filter(|file| writer.take(roomy(*file)).is_ok());
        assert_eq!(taken.count(), QUEUE / roomy(0).cost());
    }
}
