//! Supervision of real processes.
use super::*;
use edge_ir::ProxySettings;

/// Infrastructure of a fleet.
pub(super) fn infra(key: &str, proxy: ProxySettings) -> Infra {
    Infra {
        key: key.into(),
        name: format!("edge-{}", key.replace('/', "-")).into(),
        namespace: "edge-gateway-system".into(),
        labels: Default::default(),
        annotations: Default::default(),
        ports: Vec::new(),
        addresses: Vec::new(),
        proxy: Arc::new(proxy),
        origins: [].into(),
    }
}
