//! The connections of a small server, so many at a time.
//!
//! Of too many the oldest one goes of the address that has most of them: who opens connections that say nothing, or
//! that wait for an answer, closes their own, and keeps nobody else out. In a cluster that is a pod of anybody's beside
//! the kubelet, which ends what doesn't answer its probes.

use std::{collections::VecDeque, net::IpAddr};
use tokio::task::AbortHandle;

/// Connections by age, the oldest first. Some may have ended.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    most: usize,
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    task: AbortHandle,
}

impl OpenConnections {
    /// None yet; `most` may be open at a time.
    pub(crate) fn at_most(most: usize) -> Self {
        Self {
            most,
            open: VecDeque::with_capacity(most + 1),
        }
    }

    /// One more, served by a task. It may be the one that goes.
    pub(crate) fn add(&mut self, peer: IpAddr, task: AbortHandle) {
        self.open.retain(|open| !open.task.is_finished());
        // An IPv4 client of a socket for both families is itself.
        let peer = peer.to_canonical();
        self.open.push_back(Open { peer, task });
        if self.open.len() > self.most
            && let Some(gone) = self.in_the_way().and_then(|at| self.open.remove(at))
        {
            tracing::debug!(peer = %gone.peer, "too many connections are open; the oldest of this address was closed");
            gone.task.abort();
        }
    }

    /// The oldest connection of the address that has most; of several such addresses, of the one that came first.
    fn in_the_way(&self) -> Option<usize> {
        let count = |peer| self.open.iter().filter(|open| open.peer == peer).count();
        // The last of equals is what `max_by_key` gives.
        (0..self.open.len()).rev().max_by_key(|at| count(self.open[*at].peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, net::Ipv4Addr};
    use tokio::task::JoinSet;

    /// Which connections remain of those that came in this order.
    async fn left(most: usize, peers: &[&str]) -> Vec<usize> {
        let mut tasks = JoinSet::new();
        let mut connections = OpenConnections::at_most(most);
        let mut left: Vec<usize> = (0..peers.len()).collect();
        let mut handles = Vec::new();
        for peer in peers {
            let handle = tasks.spawn(pending::<()>());
            connections.add(peer.parse().unwrap(), handle.clone());
            handles.push(handle);
            while connections.open.len() < handles.iter().filter(|handle| !handle.is_finished()).count() {
                let _ = tasks.join_next().await;
            }
        }
        left.retain(|at| !handles[*at].is_finished());
        left
    }

    #[tokio::test]
    async fn who_opens_too_many_closes_their_own() {
        assert_eq!(left(3, &["10.0.0.1", "10.0.0.2", "10.0.0.2"]).await, [0, 1, 2]);
        assert_eq!(
            left(3, &["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]).await,
            [0, 2, 3]
        );
        // One more address makes room for itself, where another has several.
        assert_eq!(
            left(3, &["10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.1"]).await,
            [1, 2, 3]
        );
        // With one each, the oldest goes.
        assert_eq!(left(2, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]).await, [1, 2]);
        assert_eq!(left(2, &["::ffff:10.0.0.1", "10.0.0.1", "10.0.0.3"]).await, [1, 2]);
    }

    #[tokio::test]
    async fn those_that_ended_count_no_more() {
        let mut tasks = JoinSet::new();
        let mut connections = OpenConnections::at_most(2);
        let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
        connections.add(peer, tasks.spawn(async {}));
        let _ = tasks.join_next().await;
        let first = tasks.spawn(pending::<()>());
        connections.add(peer, first.clone());
        connections.add(peer, tasks.spawn(pending::<()>()));
        assert_eq!(connections.open.len(), 2);
        assert!(!first.is_finished());
    }
}
