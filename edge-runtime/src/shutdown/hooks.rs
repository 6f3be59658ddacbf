//! What the two hooks of a pod tell each other, by files in the manager's container.
//!
//! A kubelet runs the hook of a container whenever it ends that container: with its pod, but also it alone, when its
//! liveness probe has failed or it is to be another image (Kubernetes, "Container Lifecycle Hooks", `PreStop`). The
//! proxy is to drain where the pod ends, and there both hooks run, begun at once; so each says that it runs, and looks
//! for a while whether the other does. Where only one of the containers is started again, the proxy goes on serving
//! while its manager does, and ends without waiting for a manager that goes on.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{self, Instant};

/// The proxy is drained.
const DRAINED: &str = "shutdown-ready";
/// The proxy's hook runs.
const PROXY: &str = "shutdown-proxy-ends";
/// The manager's hook runs.
const MANAGER: &str = "shutdown-manager-ends";
/// How long the hooks look for each other.
const WAITS: Waits = Waits {
    // The manager's is a process that has to start, on a node that may be busy with much else that ends; and a proxy
    // that ends too early cuts its clients' connections.
    for_manager: Duration::from_secs(15),
    // The kubelet's own request needs nothing of that kind; and for as long as it is waited for, a manager that isn't
    // alive isn't started again.
    for_proxy: Duration::from_secs(5),
    look_every: Duration::from_millis(100),
};

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The pod, both of its containers.
    Pod,
    /// The container whose hook runs, which is started again.
    Container,
}

/// Where the hooks tell each other, and for how long they look for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    folder: PathBuf,
    waits: Waits,
}

/// How long each hook looks for the other, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) for_manager: Duration,
    pub(super) for_proxy: Duration,
    pub(super) look_every: Duration,
}

impl Hooks {
    /// Those of the pod that this process is in.
    pub fn of_this_pod() -> Self {
        Self::within(std::env::temp_dir(), WAITS)
    }

    /// Those that tell each other in a folder.
    pub(super) fn within(folder: PathBuf, waits: Waits) -> Self {
        Self { folder, waits }
    }

    /// The file that says that the proxy is drained.
    pub(super) fn drained_file(&self) -> PathBuf {
        self.folder.join(DRAINED)
    }

    /// Forgets what the hooks of a container before this one have left.
    pub(super) fn forget(&self) {
        for name in [DRAINED, PROXY, MANAGER] {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// The proxy's hook: waits until the proxy is drained, or until it is clear that only its container ends.
    pub(super) async fn proxy_may_end(&self) -> Ending {
        let running = Running::begin(self.folder.join(PROXY));
        // Where nothing can be said, the other hook doesn't wait to hear it.
        let mut is_pod = running.is_err();
        let begun = Instant::now();
        let mut clock = time::interval(self.waits.look_every);
        loop {
            clock.tick().await;
            if self.drained_file().exists() {
                return Ending::Pod;
            }
            is_pod |= self.folder.join(MANAGER).exists();
            if !is_pod && begun.elapsed() >= self.waits.for_manager {
                return Ending::Container;
            }
            // Somebody else may have asked as well, and have ended.
            let _ = running.as_ref().map(Running::say);
        }
    }

    /// The manager's hook says that it runs.
    pub(super) fn manager_ends(&self) -> io::Result<Running> {
        Running::begin(self.folder.join(MANAGER))
    }

    /// What ends, as the manager's hook sees it.
    pub(super) async fn ending(&self) -> Ending {
        let begun = Instant::now();
        let mut clock = time::interval(self.waits.look_every);
        loop {
            clock.tick().await;
            if self.folder.join(PROXY).exists() {
                return Ending::Pod;
            }
            if begun.elapsed() >= self.waits.for_proxy {
                return Ending::Container;
            }
        }
    }
}

/// A hook that runs, and says so for as long as this lives.
pub(super) struct Running(PathBuf);

impl Running {
    fn begin(file: PathBuf) -> io::Result<Self> {
        say(&file)?;
        Ok(Self(file))
    }

    fn say(&self) {
        if !self.0.exists() {
            let _ = say(&self.0);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn say(file: &Path) -> io::Result<()> {
    fs::write(file, b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(600);

    fn hooks(folder: &Path, together: Duration) -> Hooks {
        let waits = Waits {
            for_manager: together,
            for_proxy: together,
            look_every: SOON,
        };
        Hooks::within(folder.to_owned(), waits)
    }

    #[tokio::test]
    async fn a_pod_ends_where_both_hooks_run() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks(folder.path(), LONG);
        let manager = async {
            let running = hooks.manager_ends().unwrap();
            let ending = hooks.ending().await;
            fs::write(hooks.drained_file(), b"").unwrap();
            drop(running);
            ending
        };
        let (proxy, manager) = tokio::join!(hooks.proxy_may_end(), manager);
        assert_eq!((proxy, manager), (Ending::Pod, Ending::Pod));
        assert!(!folder.path().join(PROXY).exists() && !folder.path().join(MANAGER).exists());
    }

    #[tokio::test]
    async fn a_container_ends_alone_where_its_hook_does() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks(folder.path(), SOON * 3);
        assert_eq!(hooks.proxy_may_end().await, Ending::Container);
        assert_eq!(hooks.ending().await, Ending::Container, "the proxy's hook is over");
    }

    #[tokio::test]
    async fn a_proxy_whose_pod_ends_waits_for_as_long_as_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks(folder.path(), SOON * 3);
        let running = hooks.manager_ends().unwrap();
        let waited = time::timeout(SOON * 20, hooks.proxy_may_end()).await;
        assert!(waited.is_err(), "{waited:?}");
        fs::write(hooks.drained_file(), b"").unwrap();
        assert_eq!(hooks.proxy_may_end().await, Ending::Pod);
        drop(running);
        hooks.forget();
        assert_eq!(hooks.proxy_may_end().await, Ending::Container, "of a pod that goes on");
    }

    #[tokio::test]
    async fn who_asks_and_goes_again_does_not_hide_that_another_waits() {
        let folder = tempfile::tempdir().unwrap();
        let hooks = hooks(folder.path(), LONG);
        let waiting = hooks.proxy_may_end();
        tokio::pin!(waiting);
        let other = time::timeout(SOON * 2, hooks.proxy_may_end());
        tokio::select! {
            _ = &mut waiting => unreachable!("nothing is drained"),
            gone = other => assert!(gone.is_err()),
        }
        let (ending, waited) = tokio::join!(hooks.ending(), time::timeout(SOON * 20, waiting));
        assert!(ending == Ending::Pod && waited.is_err());
    }
}
