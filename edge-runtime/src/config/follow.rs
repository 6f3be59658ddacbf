//! Following the configuration file while the controller runs.

use super::{Config, Overrides, read};
use crate::{
    task::Stop,
    watch::{FolderWatch, LOOK_EVERY, Timing, settled},
};
use std::path::{Path, PathBuf};
use tokio::{sync::mpsc, time};

/// Sends every new valid configuration. An invalid one is logged, once, and nothing changes.
pub async fn follow(
    path: PathBuf,
    overrides: Overrides,
    mut current: Config,
    out: mpsc::Sender<Config>,
    mut stop: Stop,
) {
    let path = std::path::absolute(&path).unwrap_or(path);
    let (mut watch, mut events) = FolderWatch::new();
    let mut problem = None;
    loop {
        // The file may be a link, as in a mounted volume: where it leads may change as well as what is there.
        let mut folders = std::collections::BTreeSet::new();
        folders.extend(path.parent().map(Path::to_owned));
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        folders.extend(real.parent().map(Path::to_owned));
        watch.follow(&folders);
        match read(Some(&path), &overrides) {
            Ok(config) if config == current => problem = None,
            Ok(config) => {
                problem = None;
                current = config.clone();
                if out.send(config).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                let error = error.to_string();
                if problem.as_ref() != Some(&error) {
                    tracing::error!("{error}\nthe running configuration stays in force");
                    problem = Some(error);
                }
            }
        }
        // Links of a mounted volume have names that begin with two dots.
        let is_link = |path: &Path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b".."))
        };
        let is_relevant = |touched: &Path| touched == path || touched == real || is_link(touched);
        tokio::select! {
            () = stop.requested() => return,
            burst = settled(&mut events, Timing::default(), is_relevant) => match burst {
                Some(burst) => watch.forget(&burst),
                None => return,
            },
            () = time::sleep(LOOK_EVERY), if watch.is_partial() => {}
        }
    }
}
