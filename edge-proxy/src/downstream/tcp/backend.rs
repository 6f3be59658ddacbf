//! The backend of a stream: a host of its cluster to which a connection comes about.

use std::sync::Arc;

use smallvec::SmallVec;
use tracing::debug;

use super::Arrived;
use crate::config::cluster::ClusterEntry;
use crate::config::endpoint::{Host, HostAddress, HostId};
use crate::config::stream::TcpProxy;
use crate::transport::Transport;
use crate::upstream::balance::Choice;
use crate::upstream::limits::{ConnectionGuard, may_connect};
use crate::upstream::{Apart, RequestGuard, Upstreams, connect, report};

/// A connection to a backend, counted while it lives.
pub(super) struct Backend {
    pub(super) transport: Transport,
    /// Balancing by load looks at requests; a stream is one.
    pub(super) request: RequestGuard,
    _open: ConnectionGuard,
}

/// Opens a connection to a host of one of the clusters; `None`, counted, when there is none to be had.
pub(super) async fn open(upstreams: &Upstreams, proxy: &TcpProxy, arrived: &Arrived) -> Option<Backend> {
    let worker = &upstreams.worker;
    let snapshot = worker.snapshot();
    let cluster = proxy.shares.pick(worker.random.next());
    let Some(entry) = cluster.and_then(|id| snapshot.cluster(id)) else {
        proxy.stats.cells(worker.index).downstream_cx_no_route.inc();
        arrived.note(|record| record.flag("NC"));
        return None;
    };
    arrived.note(|record| record.upstream.cluster = Some(Arc::clone(&entry.cluster)));
    let opening = Opening {
        upstreams,
        proxy,
        arrived,
        entry,
    };
    opening.run().await
}

/// The search for a host of a cluster that can be connected to.
struct Opening<'a> {
    upstreams: &'a Upstreams,
    proxy: &'a TcpProxy,
    arrived: &'a Arrived,
    entry: &'a ClusterEntry,
}

impl Opening<'_> {
    /// Tries one host after the other, as often as the settings allow.
    async fn run(&self) -> Option<Backend> {
        let worker = &self.upstreams.worker;
        let cells = self.entry.cluster.stats.cells(worker.index);
        let mut tried: SmallVec<[HostId; 4]> = SmallVec::new();
        for _ in 0..self.proxy.max_connect_attempts {
            if !may_connect(&self.entry.cluster, worker.shared.workers) {
                cells.upstream_cx_overflow.inc();
                self.arrived.note(|record| record.flag("UO"));
                return None;
            }
            let Some(host) = self.choose(&tried).await else {
                cells.upstream_cx_none_healthy.inc();
                self.arrived.note(|record| record.flag("UH"));
                return None;
            };
            tried.push(host.id);
            if let Some(backend) = self.connect(&host).await {
                return Some(backend);
            }
        }
        cells.upstream_cx_connect_attempts_exceeded.inc();
        self.arrived.note(|record| record.flag("URX"));
        None
    }

    /// The host that the client asks for, where the cluster has those, or one that it hasn't been tried with.
    async fn choose(&self, tried: &[HostId]) -> Option<Arc<Host>> {
        if let (Some(port), Some(_)) = (self.proxy.named_at, &self.entry.cluster.naming) {
            return named(self.upstreams, self.entry, self.arrived, port).await;
        }
        // As many draws as there are hosts give each a chance to be found.
        let draws = u32::try_from(self.entry.endpoints.hosts.len()).unwrap_or(u32::MAX);
        let choice = Choice {
            hash: self.proxy.hashed.of(self.arrived.addresses.client.ip()),
            avoid: tried,
            draws,
            ..Choice::default()
        };
        let (balancers, random) = (&self.upstreams.balancers, &self.upstreams.worker.random);
        balancers.pick(self.entry, random, choice).cloned()
    }

    /// Connects to a host; `None`, told, when that fails.
    async fn connect(&self, host: &Arc<Host>) -> Option<Backend> {
        self.arrived.note(|record| {
            record.upstream.attempts += 1;
            record.upstream.host = Some(Arc::clone(host));
        });
        let cluster = &self.entry.cluster;
        let pool = self.upstreams.pool(self.entry, host, Apart::default());
        let request = RequestGuard::new(&pool);
        match connect::stream(&self.upstreams.worker, &pool, self.arrived.addresses).await {
            Ok((transport, open)) => {
                report::connected(cluster, host);
                self.arrived.note(|record| {
                    record.upstream.local = transport.local();
                    record.upstream.is_connected = true;
                });
                Some(Backend {
                    transport,
                    request,
                    _open: open,
                })
            }
            Err(fault) => {
                report::failed(cluster, host, fault);
                self.arrived.note(|record| {
                    record.flag("UF");
                    record.failure = fault.transport_failure();
                });
                debug!(cluster = %cluster.name, host = ?host.address, ?fault, "no stream");
                None
            }
        }
    }
}

/// The host that a client asks for by server name; none where it asks for nobody, or that can't be resolved.
async fn named(upstreams: &Upstreams, entry: &ClusterEntry, arrived: &Arrived, port: u16) -> Option<Arc<Host>> {
    let name = arrived.server_name.as_deref()?;
    // The turn of one who asks for the same name counts, too: nobody waits longer than for an answer.
    let patience = entry.cluster.naming.as_ref()?.timeout;
    let found = tokio::time::timeout(patience, upstreams.names.host_at(entry, name, port)).await;
    let host = found.ok()?.ok()?;
    // A name that leads back here would make a connection of each connection, until no more may be open.
    (host.address != HostAddress::Socket(arrived.addresses.local)).then_some(host)
}
