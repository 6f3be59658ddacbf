//! Which replica writes: the holder of a Lease, by the rules of client-go's leader election, so that ours and others'
//! tools read it alike.
//!
//! A follower judges a Lease by the time for which it has seen it unchanged, on its own clock, never by the times that
//! are written in it: clocks of nodes differ. A leader that couldn't renew for `renew_deadline` steps down before
//! anybody else may take over. Own code, because `kube-lease-manager` compares the wall clocks of two machines and
//! knows neither a deadline for renewals nor a time between tries.

use super::{
    Api, FIELD_MANAGER,
    fault::describe,
    replica_name,
    terms::{Election, LeaseTerms},
};
use crate::{
    backoff::{jittered, random},
    state::{Leadership, Published},
    task::Stop,
    trouble::Trouble,
};
use edge_infra::names::LEADER;
use edge_ir::label::MANAGED_BY;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api as Objects, Error, api::PostParams};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

#[cfg(test)]
mod tests;

/// How long giving up the Lease may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Takes part until asked to stop, and says who leads. Who hasn't read everything yet has nothing to write, and would
/// only keep the Lease from one who has.
pub async fn run(
    api: Api,
    election: Election,
    mut published: watch::Receiver<Option<Arc<Published>>>,
    leadership: Arc<watch::Sender<Leadership>>,
    mut stop: Stop,
) {
    let Election::Lease(terms) = election else {
        leadership.send_replace(Leadership::Leading);
        return stop.requested().await;
    };
    tokio::select! {
        () = stop.requested() => return,
        Ok(_) = published.wait_for(Option::is_some) => {}
    }
    let mut candidate = Candidate::new(&api, terms, leadership);
    loop {
        tokio::select! {
            () = stop.requested() => break,
            () = candidate.turn() => {}
        }
        tokio::select! {
            () = stop.requested() => break,
            () = time::sleep_until(candidate.next_turn()) => {}
        }
    }
    candidate.leave().await;
}

/// This replica.
struct Candidate {
    leases: Objects<Lease>,
    identity: String,
    terms: LeaseTerms,
    leadership: Arc<watch::Sender<Leadership>>,
    /// The Lease as seen last, and since when it has been like that.
    seen: Option<(Lease, Instant)>,
    /// When it was ours for sure.
    renewed: Option<Instant>,
    /// When it was last tried to write into it.
    written: Instant,
    /// How long to wait before the next turn.
    pause: Duration,
    trouble: Trouble,
}

impl Candidate {
    fn new(api: &Api, terms: LeaseTerms, leadership: Arc<watch::Sender<Leadership>>) -> Self {
        let name = replica_name();
        Self {
            leases: Objects::namespaced(api.urgent(), &terms.namespace),
            identity: format!("{}_{:016x}", name.as_deref().unwrap_or("edge-gateway"), random()),
            terms,
            leadership,
            seen: None,
            renewed: None,
            written: Instant::now(),
            pause: Duration::ZERO,
            trouble: Trouble::default(),
        }
    }

    /// When it tries next. A leader doesn't sleep beyond the time at which it must have renewed or stepped down.
    fn next_turn(&self) -> Instant {
        let now = Instant::now();
        match self.renewed {
            Some(renewed) => (now + self.pause).min(renewed + self.terms.renew_deadline),
            None => now + jittered(self.terms.retry),
        }
    }

    /// Tries once to become or stay the leader.
    async fn turn(&mut self) {
        let end = self.renewed.unwrap_or_else(Instant::now) + self.terms.renew_deadline;
        self.pause = self.terms.retry;
        let tried = time::timeout_at(end, self.try_once()).await;
        let problem = match tried {
            Ok(Ok(elected)) => {
                if self.trouble.ends() {
                    tracing::info!(lease = LEADER, "the lease can be used again");
                }
                return self.obey(elected);
            }
            Ok(Err(error)) => describe(&error),
            Err(_) => "the API server doesn't answer".to_owned(),
        };
        if self.trouble.begins(&problem) {
            tracing::warn!(lease = LEADER, namespace = %self.terms.namespace, "no leader can be elected: {problem}");
        }
        if self
            .renewed
            .is_none_or(|renewed| renewed.elapsed() >= self.terms.renew_deadline)
        {
            self.renewed = None;
            self.set(Leadership::Following);
        }
    }

    /// Does as the Lease says.
    fn obey(&mut self, elected: Leadership) {
        self.renewed = (elected == Leadership::Leading).then_some(self.written);
        if self.renewed.is_some() {
            let spare = spare(self.terms.renew_deadline, self.written.elapsed());
            self.pause = self.terms.retry.min(spare / 2);
        }
        self.set(elected);
    }

    /// What the Lease says of us now.
    async fn try_once(&mut self) -> Result<Leadership, Error> {
        if self.renewed.is_some() {
            // What we wrote last is most likely what is there.
            match self.write().await {
                Err(Error::Api(status)) if [404, 409].contains(&status.code) => {}
                answer => return answer.map(|()| Leadership::Leading),
            }
        }
        match self.leases.get_opt(LEADER).await? {
            Some(lease) => self.look(lease),
            None => return self.create().await,
        }
        if self.is_taken() {
            return Ok(Leadership::Following);
        }
        match self.write().await {
            Err(Error::Api(status)) if status.code == 409 => Ok(Leadership::Following),
            answer => answer.map(|()| Leadership::Leading),
        }
    }

    fn look(&mut self, lease: Lease) {
        let is_same = self.seen.as_ref().is_some_and(|(seen, _)| seen.spec == lease.spec);
        let since = match (&self.seen, is_same) {
            (Some((_, since)), true) => *since,
            _ => Instant::now(),
        };
        self.seen = Some((lease, since));
    }

    /// Whether somebody else holds the Lease.
    fn is_taken(&self) -> bool {
        let Some((Lease { spec: Some(spec), .. }, since)) = &self.seen else {
            return false;
        };
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(self.terms.duration, Duration::from_secs);
        !holder.is_empty() && holder != self.identity && since.elapsed() < duration
    }

    async fn create(&mut self) -> Result<Leadership, Error> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(LEADER.to_owned()),
                // By which an uninstallation knows whose it is.
                labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(&LeaseSpec::default())),
        };
        self.written = Instant::now();
        match self.leases.create(&PostParams::default(), &lease).await {
            Ok(lease) => {
                self.look(lease);
                Ok(Leadership::Leading)
            }
            Err(Error::Api(status)) if status.code == 409 => Ok(Leadership::Following),
            Err(error) => Err(error),
        }
    }

    /// Writes ourselves into the Lease as we saw it; if it is another one by now, the answer is a conflict.
    async fn write(&mut self) -> Result<(), Error> {
        let Some((mut lease, _)) = self.seen.clone() else {
            return Ok(());
        };
        lease.spec = Some(self.spec(&lease.spec.take().unwrap_or_default()));
        lease.metadata.managed_fields = None;
        self.written = Instant::now();
        let lease = self.leases.replace(LEADER, &PostParams::default(), &lease).await?;
        self.look(lease);
        Ok(())
    }

    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_ours = before.holder_identity.as_deref() == Some(&self.identity);
        let turns = before.lease_transitions.unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(whole_seconds(self.terms.duration)).ok(),
            acquire_time: before.acquire_time.clone().filter(|_| is_ours).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if is_ours { turns } else { turns.saturating_add(1) }),
            ..before.clone()
        }
    }

    fn set(&self, now: Leadership) {
        let has_changed = self
            .leadership
            .send_if_modified(|leadership| std::mem::replace(leadership, now) != now);
        if has_changed {
            match now {
                Leadership::Leading => tracing::info!(identity = self.identity, "this replica leads"),
                Leadership::Following => tracing::info!(identity = self.identity, "this replica doesn't lead any more"),
            }
        }
    }

    /// Stops writing, then lets others take over at once instead of when the Lease runs out.
    async fn leave(&mut self) {
        let was_leading = self.renewed.take().is_some();
        self.set(Leadership::Following);
        let Some((mut lease, _)) = self.seen.take().filter(|_| was_leading) else {
            return;
        };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let parameters = PostParams::default();
        let given_up = self.leases.replace(LEADER, &parameters, &lease);
        if !matches!(time::timeout(FAREWELL, given_up).await, Ok(Ok(_))) {
            tracing::debug!("the lease was not given up; it runs out by itself");
        }
    }
}

/// The time that is left of a deadline after a write that took so long, if the next one takes as long.
fn spare(deadline: Duration, took: Duration) -> Duration {
    deadline.saturating_sub(took * 2)
}

/// Rounded up: a Lease that others see run out before its holder does has two holders.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

impl Drop for Candidate {
    /// Whatever ends this task, nobody writes in its name any more.
    fn drop(&mut self) {
        self.set(Leadership::Following);
    }
}
