//! From a fleet's infrastructure to its objects, bootstrap included.

use edge_infra::{Object, StartFiles, Terms, memory_limit, render};
use edge_ir::Infra;
use edge_xds::bootstrap::{ClusterPlace, for_cluster};
use std::{fs, path::Path};

/// How the objects of fleets are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// What objects depend on besides their fleet.
    pub terms: Terms,
}

impl Rendering {
    /// The same with the authorities as they are in the file now. One that can't be read changes nothing; that is told by
    /// whoever serves with it.
    pub(super) fn with_authorities(&self, file: &Path) -> Self {
        let mut rendering = self.clone();
        if let Ok(text) = fs::read_to_string(file) {
            rendering.terms.authorities = text;
        }
        rendering
    }

    /// The objects of a fleet, or why they can't be made.
    pub(super) fn objects(&self, infra: &Infra) -> Result<Vec<Object>, String> {
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
        };
        render(infra, &self.terms, &files).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.join("; ")
        })
    }
}
