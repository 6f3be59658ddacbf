//! Where clients are, by databases (Envoy's `geoip` filter with its `maxmind` provider).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs, io};

use http::HeaderName;
use maxminddb::{PathElement, Reader};

use crate::config::filter::credential_injector::Slot;

/// The filter.
#[derive(Debug)]
pub struct GeoIp {
    /// Whose place is looked up.
    pub client: ClientSource,
    /// Where, and what of it goes into which header.
    pub lookups: Box<[Lookup]>,
}

/// Where the address is found. Where it isn't, it is the client's as the connection manager knows it.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientSource {
    /// The connection manager knows it.
    Manager,
    /// The entry of `x-forwarded-for` so many places from its right end.
    Forwarded(usize),
    /// A header that holds nothing else.
    Header(HeaderName),
}

/// What is looked up in a database.
#[derive(Debug)]
pub struct Lookup {
    /// The database.
    pub database: Arc<Database>,
    /// What of it.
    pub facts: Box<[Fact]>,
}

/// Something that a database tells of an address.
#[derive(Debug)]
pub struct Fact {
    /// The header that is set to it.
    pub header: HeaderName,
    /// Where in a record it is.
    pub path: &'static [PathElement<'static>],
    /// How it is told.
    pub telling: Telling,
}

/// How something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// As it is.
    Plain,
    /// Whether it is this.
    Whether(&'static str),
}

/// A database that is read.
pub type Records = Reader<Vec<u8>>;

/// How often the file of a database is looked at, while requests ask for it.
const AGAIN: Duration = Duration::from_secs(5);

/// A database in a file. It is exchanged on the disk while proxies serve: who maintains one gets a new one every week.
pub struct Database {
    path: PathBuf,
    records: Slot<Arc<Records>>,
    version: Slot<Version>,
    born: Instant,
    /// When its file was looked at last, in milliseconds since then.
    looked: AtomicU64,
}

/// What tells a file from the one before.
type Version = (SystemTime, u64);

/// Its records are somebody else's.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.path).finish()
    }
}

impl Database {
    /// Reads the content of a file as a database.
    pub fn new(path: &Path, content: Vec<u8>) -> Result<Self, String> {
        let records = Reader::from_source(content).map_err(|error| error.to_string())?;
        let database = Self {
            path: path.to_owned(),
            records: Slot::default(),
            version: Slot::default(),
            born: Instant::now(),
            looked: AtomicU64::new(0),
        };
        if let Ok(version) = version(path) {
            database.version.set(version);
        }
        database.records.set(Arc::new(records));
        Ok(database)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it.
    pub fn records(&self) -> Option<Arc<Records>> {
        self.records.get()
    }

    /// Whether it is time to look at its file; true for one that asks at a time.
    pub fn is_due(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.born).as_millis() as u64;
        let looked = self.looked.load(Ordering::Relaxed);
        let is_old = now.saturating_sub(looked) >= AGAIN.as_millis() as u64;
        is_old
            && self
                .looked
                .compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Reads it again if its file is another than before; true if it was. What can't be read leaves what there was.
    pub fn renew(&self) -> Result<bool, String> {
        let found = version(&self.path).map_err(|error| error.to_string())?;
        if self.version.get() == Some(found) {
            return Ok(false);
        }
        let content = fs::read(&self.path).map_err(|error| error.to_string())?;
        // Told once for each version that can't be read.
        self.version.set(found);
        let records = Reader::from_source(content).map_err(|error| error.to_string())?;
        self.records.set(Arc::new(records));
        Ok(true)
    }
}

fn version(path: &Path) -> io::Result<Version> {
    let file = fs::metadata(path)?;
    Ok((file.modified()?, file.len()))
}
