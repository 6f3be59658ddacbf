//! The addresses of the cluster's nodes, followed while a fleet is reached by them: of a node nothing else is kept.

use crate::{
    backoff::Backoff,
    cluster::watching::{Fault, Target, events},
    metrics::{Counter, Metrics},
    task::end_of,
    trouble::Trouble,
};
use futures_util::StreamExt as _;
use kube::{
    Client,
    core::{ApiResource, NotUsed, Object},
    runtime::watcher::Event,
};
use serde::Deserialize;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};

/// The first and the longest pause before a watch that had a bug begins anew.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// Where the nodes are reached, each address once and in order: from outside if they are reached from there, else from
/// inside. The latest list stays in force while nodes can't be watched; `None`: they haven't been listed yet.
pub(super) type NodeAddresses = Option<Arc<[IpAddr]>>;

/// Follows nodes while somebody wants that.
pub(super) struct Nodes {
    client: Client,
    metrics: Arc<Metrics>,
    told: watch::Receiver<NodeAddresses>,
    sender: Arc<watch::Sender<NodeAddresses>>,
    running: Option<AbortHandle>,
    tasks: JoinSet<()>,
}

impl Nodes {
    pub(super) fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        let (sender, told) = watch::channel(None);
        Self {
            client,
            metrics,
            told,
            sender: Arc::new(sender),
            running: None,
            tasks: JoinSet::new(),
        }
    }

    /// From now on somebody wants to know them.
    pub(super) fn follow(&mut self) {
        if self.running.is_none() {
            let task = follow(self.client.clone(), Arc::clone(&self.metrics), Arc::clone(&self.sender));
            self.running = Some(self.tasks.spawn(task));
        }
    }

    /// Nobody wants to know them any more.
    pub(super) fn leave(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            self.sender.send_replace(None);
            self.told.mark_unchanged();
        }
    }

    /// Resolves when they are others than at the last call.
    pub(super) async fn changed(&mut self) {
        // The sender is ours, so this ends only with news.
        let _ = self.told.changed().await;
    }

    pub(super) fn addresses(&self) -> NodeAddresses {
        self.told.borrow().clone()
    }
}

/// A node, as far as it is read.
type Node = Object<Option<NotUsed>, Status>;

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    addresses: Vec<NodeAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeAddress {
    r#type: String,
    address: String,
}

/// What a node says of where it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reached {
    from_outside: Vec<IpAddr>,
    from_inside: Vec<IpAddr>,
}

impl From<Node> for Reached {
    fn from(node: Node) -> Self {
        let addresses = node.status.unwrap_or_default().addresses;
        let of_kind = |kind: &str| {
            let addresses = addresses.iter().filter(|address| address.r#type == kind);
            addresses.filter_map(|address| address.address.parse().ok()).collect()
        };
        Self {
            from_outside: of_kind("ExternalIP"),
            from_inside: of_kind("InternalIP"),
        }
    }
}

/// Watches, whatever happens: a bug costs another list.
async fn follow(client: Client, metrics: Arc<Metrics>, sender: Arc<watch::Sender<NodeAddresses>>) {
    let mut backoff = PAUSES;
    loop {
        let begun = Instant::now();
        let how = end_of(watch_nodes(client.clone(), &sender)).await;
        metrics.count(Counter::TaskFailures);
        tracing::error!("the watch of nodes {how}; it begins again");
        backoff.ran(begun.elapsed());
        time::sleep(backoff.pause()).await;
    }
}

async fn watch_nodes(client: Client, sender: &watch::Sender<NodeAddresses>) {
    let target = Target {
        client,
        resource: ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&()),
        namespace: None,
        labels: &[],
        streams_lists: false,
    };
    let mut events = events::<Node>(target);
    let mut trouble = Trouble::default();
    let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
    while let Some(event) = events.next().await {
        match event {
            Err(Fault::Expired) => {}
            Err(fault) => {
                let problem = fault.to_string();
                if trouble.begins(&problem) {
                    tracing::warn!(
                        "the addresses of nodes can't be watched: {problem}; those from before stay in force"
                    );
                }
            }
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(node)) => drop(listed.insert(name(&node), Reached::from(node))),
            Ok(Event::Apply(node)) => {
                known.insert(name(&node), Reached::from(node));
                tell(&known, sender);
            }
            Ok(Event::Delete(node)) => {
                known.remove(&name(&node));
                tell(&known, sender);
            }
            Ok(Event::InitDone) => {
                if trouble.ends() {
                    tracing::info!("the addresses of nodes are watched again");
                }
                known = std::mem::take(&mut listed);
                tell(&known, sender);
            }
        }
    }
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

fn tell(nodes: &BTreeMap<String, Reached>, sender: &watch::Sender<NodeAddresses>) {
    let addresses = chosen(nodes);
    sender.send_if_modified(|told| {
        let is_other = told.as_deref() != Some(&addresses);
        if is_other {
            *told = Some(addresses.into());
        }
        is_other
    });
}

fn chosen(nodes: &BTreeMap<String, Reached>) -> Vec<IpAddr> {
    let all = |of: fn(&Reached) -> &[IpAddr]| -> Vec<IpAddr> { nodes.values().flat_map(of).copied().collect() };
    let mut chosen = match all(|node| &node.from_outside) {
        outside if !outside.is_empty() => outside,
        _ => all(|node| &node.from_inside),
    };
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(addresses: &[(&str, &str)]) -> Reached {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|(kind, address)| json!({"type": kind, "address": address}))
            .collect();
        let node =
            json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"addresses": addresses}});
        serde_json::from_value::<Node>(node).unwrap().into()
    }

    #[test]
    fn addresses_from_outside_come_before_those_from_inside_and_names_are_none() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut nodes = BTreeMap::from([(
            "a".to_owned(),
            node(&[("InternalIP", "10.1.0.2"), ("Hostname", "a"), ("InternalIP", "fd00::2")]),
        )]);
        assert_eq!(chosen(&nodes), [ip("10.1.0.2"), ip("fd00::2")]);
        nodes.insert("b".to_owned(), node(&[("InternalIP", "10.1.0.1")]));
        assert_eq!(chosen(&nodes), [ip("10.1.0.1"), ip("10.1.0.2"), ip("fd00::2")]);
        nodes.insert(
            "c".to_owned(),
            node(&[("InternalIP", "10.1.0.3"), ("ExternalIP", "198.51.100.1")]),
        );
        assert_eq!(chosen(&nodes), [ip("198.51.100.1")]);
        nodes.insert(
            "d".to_owned(),
            serde_json::from_value::<Node>(json!({"metadata": {"name": "d"}}))
                .unwrap()
                .into(),
        );
        assert_eq!(chosen(&nodes), [ip("198.51.100.1")]);
    }
}
