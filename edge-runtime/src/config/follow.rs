//! Following the configuration file while the controller runs.

use super::{Config, Mode, Overrides, read};
use crate::{
    due,
    task::Stop,
    watch::{FolderWatch, LOOK_EVERY, Patience, Timing, settled},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

/// What of a changed configuration a running controller follows, and the fields that wait for its next start: these
/// stay as they are, whatever else changes later.
pub(crate) fn followed(mut new: Config, running: &Config) -> (Config, Vec<&'static str>) {
    let mut waiting = Vec::new();
    match (&mut new.mode, &running.mode) {
        (Mode::Standalone(new), Mode::Standalone(running)) => {
            let (here, there) = (&new.folders, &running.folders);
            let folders = [
                (here.config_home == there.config_home, "configHome"),
                (here.state_home == there.state_home, "stateHome"),
                (here.runtime_dir == there.runtime_dir, "runtimeDir"),
            ];
            waiting.extend(
                folders
                    .into_iter()
                    .filter(|(is_same, _)| !is_same)
                    .map(|(_, field)| field),
            );
            new.folders.clone_from(&running.folders);
        }
        // What is in the cluster bears the name.
        (Mode::Cluster(_), Mode::Cluster(_)) if new.settings.controller_name != running.settings.controller_name => {
            waiting.push("gateway.controllerName");
            new.settings.controller_name = Arc::clone(&running.settings.controller_name);
        }
        (Mode::Cluster(_), Mode::Cluster(_)) => {}
        // What the rest says is meant for the other mode.
        _ => return (running.clone(), vec!["provider.type"]),
    }
    if new.metrics != running.metrics {
        waiting.push("telemetry.metrics.prometheus");
        new.metrics = running.metrics;
    }
    (new, waiting)
}

/// Sends every new valid configuration. An invalid one is logged, once, and nothing changes. One that is being written
/// is waited for.
pub async fn follow(
    path: PathBuf,
    overrides: Overrides,
    mut current: Config,
    out: mpsc::Sender<Config>,
    mut stop: Stop,
) {
    let path = std::path::absolute(&path).unwrap_or(path);
    let (mut watch, mut events) = FolderWatch::new();
    let mut patience = Patience::default();
    let mut problem = None;
    loop {
        // The file may be a link, as in a mounted volume: where it leads may change as well as what is there.
        let mut folders = std::collections::BTreeSet::new();
        folders.extend(path.parent().map(Path::to_owned));
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        folders.extend(real.parent().map(Path::to_owned));
        watch.follow(&folders);
        let is_written = patience.waits(Instant::now()).is_written(&path);
        match (!is_written).then(|| read(Some(&path), &overrides)) {
            None => {}
            Some(Ok(config)) if config == current => problem = None,
            Some(Ok(config)) => {
                problem = None;
                current = config.clone();
                if out.send(config).await.is_err() {
                    return;
                }
            }
            Some(Err(error)) => {
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
                Some(burst) => {
                    watch.forget(&burst);
                    patience.note(&burst, Instant::now());
                }
                None => return,
            },
            () = due::at(patience.next()) => {}
            () = time::sleep(LOOK_EVERY), if watch.is_partial() => {}
        }
    }
}
