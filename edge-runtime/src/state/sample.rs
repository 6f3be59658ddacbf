//! A fleet's infrastructure, for the tests of whoever is told of one.

use edge_ir::{Infra, Placement, ProxySettings, StringMap};
use std::{collections::BTreeMap, sync::Arc};

/// Infrastructure with nothing asked for, in the namespace of the fleet's Gateway.
pub(crate) fn infra(key: &str, proxy: ProxySettings) -> Infra {
    Infra {
        key: key.into(),
        name: format!("edge-{}", key.replace('/', "-")).into(),
        namespace: key.split('/').next().unwrap_or_default().into(),
        placement: Placement::Controller,
        owner: None,
        extra_labels: StringMap::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        ports: Vec::new(),
        addresses: Vec::new(),
        proxy: Arc::new(proxy),
        origins: [].into(),
    }
}
