//! From a fleet's infrastructure to its objects, bootstrap included.

use edge_infra::{Object, StartFiles, Terms, memory_limit, render};
use edge_ir::{Infra, Placement};
use edge_xds::bootstrap::{ClusterPlace, for_cluster};

/// How the objects of fleets are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// What objects depend on besides their fleet.
    pub terms: Terms,
}

impl Rendering {
    /// The same with these authorities.
    pub(super) fn with_authorities(&self, authorities: Option<&str>) -> Self {
        let mut rendering = self.clone();
        rendering.terms.authorities = authorities.unwrap_or_default().to_owned();
        rendering
    }

    /// The objects of a fleet, or why they can't be made.
    pub(super) fn objects(&self, infra: &Infra) -> Result<Vec<Object>, String> {
        // A proxy without them would trust nobody, for ever.
        if infra.placement == Placement::Gateway && self.terms.authorities.is_empty() {
            return Err("the authorities behind the controller's certificate can't be read; see its log".to_owned());
        }
        let place = ClusterPlace {
            controller_namespace: &self.terms.controller_namespace,
            dns_domain: &self.terms.dns_domain,
            memory_limit_bytes: memory_limit(&infra.proxy.cluster),
        };
        let start = for_cluster(infra, &place).map_err(|error| format!("bootstrap: {error}"))?;
        let files = StartFiles {
            bootstrap: start.bootstrap,
            trusted_ca: start.trusted_ca,
            certificate: start.certificate,
            token: start.token,
            admin_port: start.admin_port,
        };
        render(infra, &self.terms, &files).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.join("; ")
        })
    }
}
