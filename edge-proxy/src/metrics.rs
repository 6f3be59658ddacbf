//! Metrics as others see them: what there is, by its names, and whom it is pushed to.
//!
//! Values are merged from the slots of all workers when somebody asks, on the control thread, which also pushes
//! them, over connections of its own. So nothing of this costs a worker anything.
//! Which metrics there are is decided when they are told; all of them are counted.

mod memory;
mod otlp;
mod push;
#[cfg(test)]
mod tests;

pub(crate) use push::Pushing;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Snapshot;
use crate::config::listener::Network;
use crate::config::metrics::Kept;
use crate::shared::Shared;
use crate::stats::{Merge, Scope, Value};

/// What the names of a family of metrics begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A cluster's.
    Cluster,
    /// An HTTP connection manager's.
    Http,
    /// A listener's.
    Listener,
    /// Of the process.
    Process,
    /// A secret's that a server beside the proxy has.
    Secret,
    /// A TCP proxy's.
    Tcp,
    /// A UDP proxy's.
    Udp,
}

impl Family {
    /// The first part of a whole name, which is also the first of one without what varies; none of those of the
    /// process.
    fn first(self) -> Option<&'static str> {
        match self {
            Self::Cluster => Some("cluster"),
            Self::Http => Some("http"),
            Self::Listener => Some("listener"),
            Self::Process => None,
            Self::Secret => Some("sds"),
            Self::Tcp => Some("tcp"),
            Self::Udp => Some("udp"),
        }
    }

    /// What Envoy calls that which varies in its names.
    fn tag(self) -> Option<&'static str> {
        match self {
            Self::Cluster => Some("envoy.cluster_name"),
            Self::Http => Some("envoy.http_conn_manager_prefix"),
            Self::Listener => Some("envoy.listener_address"),
            Self::Process => None,
            Self::Secret => Some("envoy.xds_resource_name"),
            Self::Tcp => Some("envoy.tcp_prefix"),
            Self::Udp => Some("envoy.udp_prefix"),
        }
    }
}

/// One merged value with where it belongs.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Whose it is.
    pub family: Family,
    /// What stands before the name.
    pub prefix: Arc<str>,
    /// What varies in that: the cluster's name and so on.
    pub label: Arc<str>,
    /// The name within the family.
    pub name: &'static str,
    /// What it is now.
    pub value: Value,
}

impl Sample {
    /// The whole name in Envoy's dotted form.
    pub(crate) fn full(&self) -> String {
        format!("{}{}", self.prefix, self.name)
    }

    /// The name without what varies.
    fn tagged(&self) -> String {
        let (stem, rest) = match class_of(self.name) {
            Some((stem, _)) => (stem, "_xx"),
            None => (self.name, ""),
        };
        match self.family.first() {
            Some(first) => format!("{first}.{stem}{rest}"),
            None => format!("{stem}{rest}"),
        }
    }

    /// What varies in the name, by what Envoy calls it, in the order of that.
    fn tags(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let label = self.family.tag().map(|tag| (tag, &*self.label));
        let class = class_of(self.name).map(|(_, class)| ("envoy.response_code_class", class));
        // No tag of a family stands behind it but these two.
        let is_behind = matches!(self.family, Family::Tcp | Family::Udp);
        let (first, second) = if is_behind { (class, label) } else { (label, class) };
        first.into_iter().chain(second)
    }
}

/// The stem and the class of a name that counts responses of one class, as `upstream_rq_2xx`: Envoy's
/// `_rq(_(\d)xx)$`. Others keep their digit, as `outlier_detection.ejections_enforced_consecutive_5xx`.
pub(crate) fn class_of(name: &str) -> Option<(&str, &str)> {
    let stem = name.strip_suffix("xx")?;
    let class = stem.len().checked_sub(1)?;
    let (stem, class) = stem.split_at_checked(class)?;
    let stem = stem.strip_suffix('_').filter(|stem| stem.ends_with("_rq"))?;
    class.bytes().all(|byte| byte.is_ascii_digit()).then_some((stem, class))
}

/// All values that there are, of the scopes of a snapshot and of the process.
pub(crate) fn samples(shared: &Shared, snapshot: &Snapshot, kept: &Kept) -> Vec<Sample> {
    let mut samples = Vec::new();
    each(shared, snapshot, kept, &mut |sample| samples.push(sample));
    samples
}

/// Visits all values that there are.
fn each(shared: &Shared, snapshot: &Snapshot, kept: &Kept, visit: &mut dyn FnMut(Sample)) {
    let mut clusters = BTreeMap::new();
    for entry in snapshot.clusters.iter().flatten() {
        clusters.insert(&entry.cluster.stats.label, &entry.cluster.stats);
    }
    let mut listeners = BTreeMap::new();
    let mut managers = BTreeMap::new();
    let mut streams = BTreeMap::new();
    let mut datagrams = BTreeMap::new();
    for listener in snapshot.listeners.values() {
        listeners.insert(&listener.stats.label, &listener.stats);
        for chain in listener.chains.all() {
            match &chain.network {
                Network::Http(http) => {
                    managers.insert(&http.stats.label, &http.stats);
                }
                Network::Tcp(proxy) | Network::Passthrough(proxy) => {
                    streams.insert(&proxy.stats.label, &proxy.stats);
                }
            }
        }
        if let Some(proxy) = &listener.udp {
            datagrams.insert(&proxy.stats.label, &proxy.stats);
        }
    }
    of(&*shared.stats, Family::Process, kept, visit);
    clusters
        .values()
        .for_each(|scope| of(&***scope, Family::Cluster, kept, visit));
    managers
        .values()
        .for_each(|scope| of(&***scope, Family::Http, kept, visit));
    streams
        .values()
        .for_each(|scope| of(&***scope, Family::Tcp, kept, visit));
    datagrams
        .values()
        .for_each(|scope| of(&***scope, Family::Udp, kept, visit));
    listeners
        .values()
        .for_each(|scope| of(&***scope, Family::Listener, kept, visit));
    let secrets = shared.secrets.all();
    secrets
        .iter()
        .for_each(|scope| of(&**scope, Family::Secret, kept, visit));
}

/// Visits the values of a scope.
fn of<C>(scope: &Scope<C>, family: Family, kept: &Kept, visit: &mut dyn FnMut(Sample))
where
    Scope<C>: Merge,
{
    scope.tell(|name| kept.has(name), &mut |name, value| {
        visit(Sample {
            family,
            prefix: Arc::clone(&scope.prefix),
            label: Arc::clone(&scope.label),
            name,
            value,
        });
    });
}
