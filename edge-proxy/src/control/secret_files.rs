//! Files with secrets (`sds_config` with a path): read when they are first wanted, and again whenever all are looked
//! at.
//!
//! Puts into the assembly what such a file says, if the file or one that its secret names has changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret as ProtoSecret;
use xxhash_rust::xxh3::xxh3_64;

use crate::bootstrap::secret_from_file;
use crate::compile::secret::{self, SecretKey};
use crate::control::Control;
use crate::xds::assembly::Assembly;

/// The files that were read.
#[derive(Debug, Default)]
pub(super) struct SecretFiles {
    known: RefCell<BTreeMap<SecretKey, SecretFile>>,
    /// What is wrong with those that can't be used, which is said once.
    unusable: RefCell<BTreeMap<SecretKey, String>>,
}

/// A file with a secret, as it was read last.
#[derive(Clone, Debug)]
struct SecretFile {
    /// Hash of it.
    written: u64,
    /// Hash of the files that the secret names.
    named: u64,
    secret: ProtoSecret,
}

impl Control {
    /// Reads the files that are wanted and not known yet. Those that can't be used have their turn when all are looked
    /// at.
    pub(super) fn load_files(&self, wanted: &[SecretKey]) {
        let is_known = |key: &&SecretKey| {
            self.secret_files.known.borrow().contains_key(*key)
                || self.secret_files.unusable.borrow().contains_key(*key)
        };
        for key in wanted.iter().filter(|key| !is_known(key)) {
            self.reload(key);
        }
    }

    /// Reads every wanted file again, and puts what has changed in force. One that did not change costs a read and a
    /// hash; of one that can't be used the secret stays as it was.
    pub fn reload_files(self: &Rc<Self>) {
        let wanted = self.read(Assembly::wanted_elsewhere);
        let changed = wanted.files.iter().filter(|key| self.reload(key)).count();
        if changed > 0 {
            self.settle();
        }
    }

    /// Whether a file has something new.
    fn reload(&self, key: &SecretKey) -> bool {
        let SecretKey::File { path, name } = key else {
            return false;
        };
        let mut unusable = self.secret_files.unusable.borrow_mut();
        match self.reload_one(key, path, name) {
            Ok(is_new) => {
                unusable.remove(key);
                is_new
            }
            Err(error) if unusable.get(key) == Some(&error) => false,
            Err(error) => {
                tracing::error!(path, name, error, "cannot use a secret");
                unusable.insert(key.clone(), error);
                false
            }
        }
    }

    fn reload_one(&self, key: &SecretKey, path: &str, name: &str) -> Result<bool, String> {
        let written = hash_of_file(Path::new(path));
        let known = self.secret_files.known.borrow().get(key).cloned();
        let known = known.filter(|known| known.written == written);
        if known
            .as_ref()
            .is_some_and(|known| known.named == hash_of_named(&known.secret))
        {
            return Ok(false);
        }
        let secret = match known {
            Some(known) => known.secret,
            None => read_apart(path, name)?,
        };
        // Before the files are read for good: what changes meanwhile is found the next time.
        let named = hash_of_named(&secret);
        let put = self.assembly.borrow_mut().put_secret_message(key.clone(), &secret);
        put.map_err(|error| error.to_string())?;
        let file = SecretFile { written, named, secret };
        self.secret_files.known.borrow_mut().insert(key.clone(), file);
        Ok(true)
    }
}

/// 0 of a file that can't be read.
fn hash_of_file(path: &Path) -> u64 {
    std::fs::read(path).map_or(0, |bytes| xxh3_64(&bytes))
}

fn hash_of_named(secret: &ProtoSecret) -> u64 {
    let files = secret::files(secret).into_iter();
    files.fold(0, |all, path| all.rotate_left(7) ^ hash_of_file(path))
}

/// Reads on a thread of its own, as the descriptors that it takes are freed with it.
fn read_apart(path: &str, name: &str) -> Result<ProtoSecret, String> {
    let (path, name) = (path.to_owned(), name.to_owned());
    let reading = std::thread::Builder::new()
        .name("secrets".to_owned())
        .spawn(move || secret_from_file(Path::new(&path), &name))
        .map_err(|error| error.to_string())?;
    reading.join().map_err(|_| "reading failed".to_owned())?
}
