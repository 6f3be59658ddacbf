//! The server of Wasm modules, which is the controller's own: where a proxy fetches a module, and the cluster of it.

use super::ours::{self, Ours};
use crate::{engine::reader::Reader, phase::backends::cluster::ClusterParts};
use edge_ir::{AppProtocol, ClusterName, Download};
use std::sync::Arc;

/// The name of its cluster.
const CLUSTER: &str = "wasm_cluster";
/// The controller's Service, which is also a name of its certificate, and the port of that.
const SERVICE: &str = "edge-gateway";
const PORT: u16 = 18002;

/// Where a proxy fetches the module of a digest.
pub(crate) fn download(reader: &Reader<'_>, sha256: &Arc<str>) -> Download {
    let (host, port) = address(reader);
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_string(),
    };
    Download {
        url: format!("https://{host}:{port}/{sha256}.wasm").into(),
        sha256: Arc::clone(sha256),
        cluster: ClusterName::from(CLUSTER),
    }
}

/// Its cluster.
pub(super) fn cluster(reader: &Reader<'_>) -> ClusterParts {
    let (host, port) = address(reader);
    ours::cluster(Ours {
        cluster: CLUSTER,
        host,
        port,
        protocol: AppProtocol::Http1,
        name: SERVICE.into(),
        authorities: reader.settings().modules.authorities.clone(),
        client_certificate: None,
    })
}

fn address(reader: &Reader<'_>) -> (Arc<str>, u16) {
    let settings = reader.settings();
    let beside = || (ours::beside(settings, SERVICE), PORT);
    settings.modules.address.clone().unwrap_or_else(beside)
}
