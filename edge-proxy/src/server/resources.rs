//! The resources that stand in the bootstrap itself.

use std::rc::Rc;

use prost::Message;

use crate::bootstrap::Bootstrap;
use crate::compile::route_table::unknown_cluster;
use crate::control::Control;
use crate::xds::Kind;
use crate::xds::assembly::Origin;
use crate::xds::delta::Incoming;

/// The bootstrap's own resources. One that can't be honoured keeps the process from starting.
pub(super) fn load_static(control: &Rc<Control>, bootstrap: &Bootstrap) -> anyhow::Result<()> {
    for secret in &bootstrap.secrets {
        control
            .put_static_secret(secret)
            .map_err(|bad| anyhow::anyhow!("static_resources: secret {:?}: {}", bad.name, bad.reason))?;
    }
    let clusters: Vec<Incoming> = bootstrap
        .clusters
        .iter()
        .map(|cluster| incoming(&cluster.name, cluster))
        .collect();
    let listeners: Vec<Incoming> = bootstrap
        .listeners
        .iter()
        .enumerate()
        .map(|(index, listener)| match listener.name.as_str() {
            "" => incoming(&format!("listener-{index}"), listener),
            name => incoming(name, listener),
        })
        .collect();
    for (kind, word, resources) in [
        (Kind::Cluster, "cluster", clusters),
        (Kind::Listener, "listener", listeners),
    ] {
        if let Some(bad) = control.apply(kind, Origin::Static, &resources, &[]).first() {
            anyhow::bail!("static_resources: {word} {:?}: {}", bad.name, bad.reason);
        }
    }
    let known = bootstrap.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    for listener in &bootstrap.listeners {
        if let Some(problem) = unknown_cluster(listener, &known) {
            anyhow::bail!("static_resources: listener {:?}: {problem}", listener.name);
        }
    }
    if let Some(ads) = &bootstrap.ads_cluster
        && !bootstrap.clusters.iter().any(|cluster| cluster.name == *ads)
    {
        anyhow::bail!("dynamic_resources.ads_config: cluster {ads:?} is not in static_resources.clusters");
    }
    Ok(())
}

fn incoming<M: Message>(name: &str, message: &M) -> Incoming {
    Incoming {
        name: name.to_owned(),
        version: String::new(),
        body: message.encode_to_vec().into(),
        parts: None,
    }
}
