//! Looking after the certificates of a machine while the controller runs: they are looked at at its start, but they
//! come to their end later, and a clock that was ahead then may be set right.

use super::{Existing, Outcome, ensure};
use crate::{Error, task::Stop, trouble::Trouble};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::time::{self, Instant};

/// The certificates of a machine, and what they are for.
#[derive(Clone, Debug)]
pub struct Upkeep {
    /// Where they lie.
    pub folder: PathBuf,
    /// Namespace of the controller.
    pub namespace: Arc<str>,
    /// Domain of the names.
    pub dns_domain: Arc<str>,
}

impl Upkeep {
    /// Makes what is missing or can't go on serving, and says so.
    pub fn renew_due(&self) -> Result<(), Error> {
        let folder = self.folder.display();
        match ensure(&self.folder, &self.namespace, &self.dns_domain, Existing::Keep)? {
            Outcome::Kept => {}
            Outcome::Made => tracing::info!(%folder, "made certificates for controller and proxies"),
            Outcome::Renewed(which) => tracing::warn!(%folder, "certificates were renewed: {which}"),
        }
        Ok(())
    }

    /// Looks from time to time until asked to stop. What can't be made is told once.
    pub async fn run(self, every: Duration, mut stop: Stop) {
        let mut clock = time::interval_at(Instant::now() + every, every);
        let mut trouble = Trouble::default();
        loop {
            tokio::select! {
                () = stop.requested() => return,
                _ = clock.tick() => {}
            }
            let due = self.clone();
            let renewed = tokio::task::spawn_blocking(move || due.renew_due()).await;
            let problem = match renewed {
                Ok(Ok(())) => {
                    trouble.ends();
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if trouble.begins(&problem) {
                tracing::error!("certificates can't be renewed: {problem}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;
    use std::fs;

    #[tokio::test]
    async fn what_can_no_longer_serve_is_made_anew_while_the_controller_runs() {
        let folder = tempfile::tempdir().unwrap();
        let upkeep = Upkeep {
            folder: folder.path().to_owned(),
            namespace: "edge-gateway-system".into(),
            dns_domain: "cluster.local".into(),
        };
        upkeep.renew_due().unwrap();
        let key = folder.path().join("edge-gateway/tls.key");
        let other = fs::read(folder.path().join("edge/tls.key")).unwrap();
        fs::write(&key, &other).unwrap();
        let every = Duration::from_millis(5);
        let task = Task::spawn("certificates", |stop| upkeep.run(every, stop));
        let is_renewed = time::timeout(Duration::from_secs(10), async {
            while fs::read(&key).unwrap() == other {
                time::sleep(every).await;
            }
        });
        is_renewed.await.expect("it fits again");
        task.stop(Duration::from_secs(10)).await;
    }
}
