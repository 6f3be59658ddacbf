//! The last good text of each document, for the next controller.
//!
//! While it runs, the table knows what a provider said before its server failed. A controller that begins meanwhile
//! would know nothing of that, and close what proxies serve by it. So texts are kept, where the controller keeps what
//! is its own: on a machine in a folder below the state folder, in a cluster in a ConfigMap of its namespace, which all
//! replicas share. What stands at a URL is no secret, but the URL may hold one, so a text is kept under a digest of it.
//! They are few and small: what is too long isn't kept, nor what there is no room for beside others that are asked for.

use crate::{
    backoff::Backoff,
    cluster::{Api, fault::describe},
    due, files,
    modules::digest,
    trouble::Trouble,
};
use edge_infra::names::DOCUMENTS;
use futures_util::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api as Objects, Error,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    task,
    time::{self, Instant},
};

/// The longest text that is kept, and the most bytes of all: a ConfigMap holds 1 MiB.
const LONGEST: usize = 64 << 10;
const MOST: usize = 512 << 10;
/// The folder, beside the status document. Its name is hidden: whoever watches the state folder doesn't read it.
const FOLDER: &str = ".documents";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// How long reading them may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses before a write that failed is tried again.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// Where texts are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In files of this folder.
    Folder(PathBuf),
    /// In a ConfigMap of this namespace.
    ConfigMap(Box<Api>, Arc<str>),
}

/// Texts by the digest of their URL; none for one that is to go.
type Edits = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// What is kept.
pub(super) struct LastGood {
    storage: Storage,
    texts: BTreeMap<Arc<str>, Arc<str>>,
    is_read: bool,
    /// What isn't written yet.
    unwritten: Edits,
    /// A write that is under way.
    write: Option<BoxFuture<'static, Result<(), String>>>,
    /// What it is about.
    writing: Edits,
    /// When one that failed is tried again.
    again: Option<Instant>,
    backoff: Backoff,
    trouble: Trouble,
}

impl Storage {
    /// On a machine: below its state folder.
    pub fn below_state(state_home: &Path) -> Self {
        Self::Folder(state_home.join(FOLDER))
    }

    async fn read(&self) -> Result<BTreeMap<Arc<str>, Arc<str>>, String> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.clone();
                let read = task::spawn_blocking(move || read_folder(&folder)).await;
                read.map_err(|error| error.to_string())?
                    .map_err(|error| error.to_string())
            }
            Self::ConfigMap(api, namespace) => {
                let found = maps(api, namespace).get_opt(DOCUMENTS).await;
                let found = found.map_err(|error| describe(&error))?;
                let texts = found.and_then(|map| map.data).unwrap_or_default().into_iter();
                Ok(texts.map(|(key, text)| (key.into(), text.into())).collect())
            }
        }
    }

    async fn write(self, edits: Edits) -> Result<(), String> {
        match self {
            Self::Folder(folder) => {
                let written = task::spawn_blocking(move || write_folder(&folder, &edits)).await;
                let written = written.map_err(|error| error.to_string())?;
                written.map_err(|error| error.to_string())
            }
            Self::ConfigMap(api, namespace) => {
                let written = write_map(&maps(&api, &namespace), &edits).await;
                written.map_err(|error| describe(&error))
            }
        }
    }
}

impl LastGood {
    /// Nothing is read yet.
    pub(super) fn at(storage: Storage) -> Self {
        Self {
            storage,
            texts: BTreeMap::new(),
            is_read: false,
            unwritten: Edits::new(),
            write: None,
            writing: Edits::new(),
            again: None,
            backoff: PAUSES,
            trouble: Trouble::default(),
        }
    }

    /// Reads what a controller before has kept, once. What can't be read is fetched, as all else.
    pub(super) async fn read(&mut self) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        let read = time::timeout(PATIENCE, self.storage.read()).await;
        let read = read.unwrap_or_else(|_| Err(format!("no answer within {} seconds", PATIENCE.as_secs())));
        match read {
            Ok(texts) => self.texts = within_bounds(texts),
            Err(why) => tracing::warn!("documents that were kept can't be read: {why}; they are fetched"),
        }
    }

    /// What stood at a URL.
    pub(super) fn text(&self, url: &str) -> Option<&Arc<str>> {
        self.texts.get(&digest(url.as_bytes()))
    }

    /// Keeps what stands at a URL. Where there is no room, what isn't `asked` for goes first.
    pub(super) fn keep<'a>(&mut self, url: &str, text: &Arc<str>, asked: impl Iterator<Item = &'a str>) {
        let key = digest(url.as_bytes());
        if self.texts.get(&key) == Some(text) || text.len() > LONGEST {
            return;
        }
        let held = |texts: &BTreeMap<Arc<str>, Arc<str>>| {
            let others = texts.iter().filter(|(other, _)| **other != key);
            others.map(|(_, text)| text.len()).sum::<usize>()
        };
        if held(&self.texts) + text.len() > MOST {
            let asked: BTreeSet<Arc<str>> = asked.map(|url| digest(url.as_bytes())).collect();
            let idle: Vec<_> = self.texts.keys().filter(|key| !asked.contains(*key)).cloned().collect();
            idle.into_iter().for_each(|key| self.remove(key));
        }
        if held(&self.texts) + text.len() > MOST {
            return;
        }
        self.texts.insert(Arc::clone(&key), Arc::clone(text));
        self.unwritten.insert(key, Some(Arc::clone(text)));
    }

    /// Forgets what stood at a URL.
    pub(super) fn forget(&mut self, url: &str) {
        self.remove(digest(url.as_bytes()));
    }

    fn remove(&mut self, key: Arc<str>) {
        if self.texts.remove(&key).is_some() {
            self.unwritten.insert(key, None);
        }
    }

    /// When there is something to write.
    fn due(&self) -> Option<Instant> {
        let is_due = self.write.is_none() && !self.unwritten.is_empty();
        is_due.then(|| self.again.unwrap_or_else(Instant::now))
    }

    /// Writes what isn't written, again and again, for as long as somebody waits. A write that nobody waits for any
    /// more goes on with the next call.
    pub(super) async fn write_all(&mut self) -> Infallible {
        loop {
            if self.write.is_none() {
                due::at(self.due()).await;
                self.begin_write();
            }
            let result = due::done(&mut self.write).await;
            self.wrote(result);
        }
    }

    /// Begins to write.
    fn begin_write(&mut self) {
        self.again = None;
        self.writing = std::mem::take(&mut self.unwritten);
        self.write = Some(self.storage.clone().write(self.writing.clone()).boxed());
    }

    /// Takes what came of a write.
    fn wrote(&mut self, result: Result<(), String>) {
        self.write = None;
        let mut written = std::mem::take(&mut self.writing);
        match result {
            Ok(()) => {
                self.backoff.reset();
                if self.trouble.ends() {
                    tracing::info!("documents are kept again for the next controller");
                }
            }
            Err(why) => {
                // What came meanwhile is newer.
                written.append(&mut self.unwritten);
                self.unwritten = written;
                self.again = Some(Instant::now() + self.backoff.pause());
                if self.trouble.begins(&why) {
                    tracing::warn!("documents can't be kept for the next controller: {why}");
                }
            }
        }
    }
}

/// Whatever somebody put there: no more of it than we would keep.
fn within_bounds(mut texts: BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut room = MOST;
    texts.retain(|key, text| {
        let fits = is_key(key) && text.len() <= LONGEST.min(room);
        room -= if fits { text.len() } else { 0 };
        fits
    });
    texts
}

fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn read_folder(folder: &Path) -> io::Result<BTreeMap<Arc<str>, Arc<str>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let texts = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| is_key(name))?;
        let metadata = entry.metadata().ok()?;
        let is_short = usize::try_from(metadata.len()).is_ok_and(|length| length <= LONGEST);
        let text = (metadata.is_file() && is_short).then(|| fs::read_to_string(entry.path()))?;
        Some((name.into(), text.ok()?.into()))
    });
    Ok(texts.collect())
}

fn write_folder(folder: &Path, edits: &Edits) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    for (key, text) in edits {
        let file = folder.join(&**key);
        match text {
            Some(text) => files::replace(&file, text.as_bytes(), FILE_MODE)?,
            None => match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
    }
    Ok(())
}

fn maps(api: &Api, namespace: &str) -> Objects<ConfigMap> {
    Objects::namespaced(api.client(), namespace)
}

/// Each replica changes what it has news of, and leaves the rest to others.
async fn write_map(maps: &Objects<ConfigMap>, edits: &Edits) -> Result<(), Error> {
    let patch = json!({"data": edits});
    let patched = maps
        .patch(DOCUMENTS, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match patched {
        Err(Error::Api(status)) if status.code == 404 => {}
        other => return other.map(drop),
    }
    let texts = edits
        .iter()
        .filter_map(|(key, text)| Some((key.to_string(), text.as_deref()?.to_owned())));
    let map = ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(DOCUMENTS.to_owned()),
            ..Default::default()
        },
        data: Some(texts.collect()),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await.map(drop)
}

#[cfg(test)]
mod tests;
