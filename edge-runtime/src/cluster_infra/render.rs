//! From a fleet's infrastructure to its objects, bootstrap included; and to those of the service of rate limits.

use edge_infra::{Installation, Object, RenderError, StartFiles, rate_limit, render};
use edge_ir::{FleetKey, Infra, Owner, POD_ZONE, Placement, RateLimitInfra};
use edge_translate::Feature;
use edge_xds::bootstrap::{ClusterPlace, for_cluster};
use std::sync::Arc;

/// Longest argument of a program, in bytes, with the zero behind it: 32 pages (Linux, `MAX_ARG_STRLEN`).
const LONGEST_ARGUMENT: usize = 32 * 4096;

/// How the objects of fleets are rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendering {
    /// What objects depend on besides their fleet.
    pub terms: Installation,
    /// Whether proxies are told their zone.
    pub proxy_zones: Feature,
    /// The service of rate limits, if this controller runs one.
    pub service: Option<Arc<RateLimitInfra>>,
}

impl Rendering {
    /// The same with what is known of the controller's own: its authorities, and its Deployment.
    pub(super) fn of(&self, authorities: Option<&str>, controller: Option<Owner>) -> Self {
        let mut rendering = self.clone();
        rendering.terms.authorities = authorities.unwrap_or_default().to_owned();
        rendering.terms.controller = controller;
        rendering
    }

    /// The service of rate limits, in the form of a fleet's infrastructure.
    pub(super) fn service(&self) -> Option<(FleetKey, Arc<Infra>)> {
        let service = self.service.as_deref()?;
        let infra = rate_limit::infra(service, &self.terms);
        Some((infra.key.clone(), Arc::new(infra)))
    }

    /// The objects of a fleet or of the service, or why they can't be made.
    pub(super) fn objects(&self, infra: &Infra) -> Result<Vec<Object>, String> {
        match self.service.as_deref().filter(|_| infra.key == rate_limit::key()) {
            Some(service) => rate_limit::render(service, infra, &self.terms).map_err(|errors| joined(&errors)),
            None => self.objects_of_fleet(infra),
        }
    }

    fn objects_of_fleet(&self, infra: &Infra) -> Result<Vec<Object>, String> {
        // A proxy without them would trust nobody, for ever.
        if infra.placement == Placement::Gateway && self.terms.authorities.is_empty() {
            return Err("the authorities behind the controller's certificate can't be read; see its log".to_owned());
        }
        let place = ClusterPlace {
            controller_namespace: &self.terms.controller_namespace,
            dns_domain: &self.terms.dns_domain,
            zone: match self.proxy_zones {
                Feature::Enabled => Some(POD_ZONE),
                Feature::Disabled => None,
            },
        };
        let start = for_cluster(infra, &place).map_err(|error| format!("bootstrap: {error}"))?;
        if start.bootstrap.len() >= LONGEST_ARGUMENT {
            // Its pods would be made, and none of them would start.
            let (bytes, most) = (start.bootstrap.len(), LONGEST_ARGUMENT - 1);
            return Err(format!(
                "bootstrap: it has {bytes} bytes, and a proxy is given it as an argument, of which none can have more than \
                 {most}: make EdgeProxy's spec.bootstrap smaller"
            ));
        }
        let files = StartFiles {
            bootstrap: start.bootstrap,
            trusted_ca: start.trusted_ca,
            certificate: start.certificate,
            token: start.token,
            admin_port: start.admin_port,
        };
        render(infra, &self.terms, &files).map_err(|errors| joined(&errors))
    }
}

fn joined(errors: &[RenderError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::sample;
    use edge_ir::{BootstrapPatch, ProxySettings};

    #[test]
    fn a_bootstrap_that_is_too_long_for_an_argument_is_refused() {
        let terms = Installation {
            controller_name: "gateway.edge/c".into(),
            controller_namespace: "edge".into(),
            dns_domain: "cluster.local".into(),
            proxy_image: "edge-proxy:test".to_owned(),
            shutdown_manager_image: "edgegateway:test".to_owned(),
            image_pull_policy: "Never".to_owned(),
            image_pull_secrets: Vec::new(),
            authorities: String::new(),
            controller: None,
        };
        let rendering = Rendering {
            terms,
            proxy_zones: Feature::Enabled,
            service: None,
        };
        let with = |filler: usize| {
            let text = "x".repeat(filler);
            let layer = format!("{{ name: runtime-0, static_layer: {{ example: {text} }} }}");
            let merged = format!("layered_runtime: {{ layers: [{layer}] }}");
            let proxy = ProxySettings {
                bootstrap: Some(BootstrapPatch::Merge(merged.into())),
                ..ProxySettings::default()
            };
            rendering.objects(&sample::infra("ns/gw", proxy))
        };
        assert!(with(100_000).is_ok());
        let refused = with(LONGEST_ARGUMENT).unwrap_err();
        assert!(refused.starts_with("bootstrap: it has 13"), "{refused}");
        assert!(
            refused.contains("131071: make EdgeProxy's spec.bootstrap smaller"),
            "{refused}"
        );
    }
}
