//! All objects of a fleet.

use crate::{
    Object, ObjectKind,
    config::{account, config_map},
    mark,
    metadata::guard,
    patch::patched,
    pod,
    scaling::{autoscaler, budget},
    service::service,
    workload::workload,
};
use edge_ir::{ClusterSettings, Infra, ObjectPatch, Owner, PortProtocol, ProxySettings, ServicePort, StringMap, label};
use std::sync::Arc;

/// How the controller is installed that makes the objects: what they depend on besides the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The controller's name, by which GatewayClasses choose it.
    pub controller_name: Arc<str>,
    /// The controller's namespace.
    pub controller_namespace: Arc<str>,
    /// DNS domain of the cluster.
    pub dns_domain: Arc<str>,
    /// Image of the proxy, with tag.
    pub proxy_image: String,
    /// Image of the shutdown manager, with tag.
    pub shutdown_manager_image: String,
    /// `IfNotPresent`, `Always` or `Never`, for both images.
    pub image_pull_policy: String,
    /// Names of Secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
    /// Certificates of the authorities behind the controller's own, PEM; for fleets in other namespaces.
    pub authorities: String,
    /// The controller's Deployment, if it runs as one.
    pub controller: Option<Owner>,
}

impl Installation {
    /// Whom the tokens of proxies are for.
    pub fn token_audience(&self) -> String {
        format!("edge-gateway.{}.svc.{}", self.controller_namespace, self.dns_domain)
    }
}

/// What a proxy starts with, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartFiles {
    /// Its bootstrap.
    pub bootstrap: String,
    /// SDS resource of the authorities.
    pub trusted_ca: String,
    /// SDS resource of the client certificate.
    pub certificate: String,
    /// SDS resource of the token.
    pub token: String,
    /// Port of its admin interface, by which it is told to drain.
    pub admin_port: Option<u16>,
}

/// Why an object can't be made as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} patch: {problem}", kind.setting())]
pub struct RenderError {
    /// The kind of object.
    pub kind: ObjectKind,
    /// What is wrong.
    pub problem: String,
}

/// Everything that must exist around a fleet, in the order in which it is applied; or all that keeps it from being
/// made.
pub fn render(infra: &Infra, installation: &Installation, files: &StartFiles) -> Result<Vec<Object>, Vec<RenderError>> {
    let objects = [
        Some(account(infra)),
        Some(config_map(infra, installation, files)),
        service(infra),
        Some(workload(infra, &pod::template(infra, installation, files))),
        autoscaler(infra),
        budget(infra),
    ];
    finished(objects.into_iter().flatten(), infra, installation)
}

/// Objects as they were asked to be changed, with their marks.
pub(crate) fn finished(
    objects: impl IntoIterator<Item = Object>,
    infra: &Infra,
    installation: &Installation,
) -> Result<Vec<Object>, Vec<RenderError>> {
    let settings = &infra.proxy.cluster;
    let patch = |kind: ObjectKind| -> Option<&ObjectPatch> {
        match kind {
            ObjectKind::ServiceAccount | ObjectKind::ConfigMap => None,
            ObjectKind::Service => settings.service.patch.as_ref(),
            ObjectKind::Deployment | ObjectKind::DaemonSet => settings.workload.patch.as_ref(),
            ObjectKind::Autoscaler => settings.autoscaler.as_ref()?.patch.as_ref(),
            ObjectKind::Budget => settings.budget.as_ref()?.patch.as_ref(),
        }
    };
    let mut errors = Vec::new();
    let mut finished = Vec::new();
    for object in objects {
        let patch = patch(object.kind);
        match patched(guard(object, installation), patch) {
            Ok(object) => finished.push(mark::marked(object, infra, installation)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(finished) } else { Err(errors) }
}

/// All that can't be used of what an EdgeProxy says about cluster objects. In the shape in which the translation asks,
/// before there is a fleet: by the objects of one that is as good as any.
pub fn check(settings: &ClusterSettings) -> Vec<String> {
    problems(render(
        &sample(settings),
        &sample_installation(),
        &StartFiles::default(),
    ))
}

/// All that kept objects from being made.
pub(crate) fn problems(rendered: Result<Vec<Object>, Vec<RenderError>>) -> Vec<String> {
    match rendered {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Those of a controller that is as good as any.
pub(crate) fn sample_installation() -> Installation {
    Installation {
        controller_name: "gateway.edge/gatewayclass-controller".into(),
        controller_namespace: "edge-gateway-system".into(),
        dns_domain: "cluster.local".into(),
        proxy_image: "edge-proxy:latest".to_owned(),
        shutdown_manager_image: "edge-gateway:latest".to_owned(),
        image_pull_policy: "IfNotPresent".to_owned(),
        image_pull_secrets: Vec::new(),
        authorities: String::new(),
        controller: None,
    }
}

fn sample(settings: &ClusterSettings) -> Infra {
    let name: Arc<str> = "edge-sample".into();
    Infra {
        key: (&*name).into(),
        namespace: "edge-gateway-system".into(),
        placement: edge_ir::Placement::default(),
        owner: None,
        // Those of every kind of fleet, so that what is refused of one of them is refused here.
        labels: label::ALL.map(|label| (label.into(), label_value(label))).into(),
        extra_labels: StringMap::new(),
        annotations: StringMap::new(),
        ports: vec![ServicePort {
            port: 80,
            protocol: PortProtocol::Tcp,
            container_port: 10080,
            name: "http-80".into(),
        }],
        addresses: Vec::new(),
        proxy: Arc::new(ProxySettings {
            cluster: settings.clone(),
            ..ProxySettings::default()
        }),
        origins: [].into_iter().collect(),
        name,
    }
}

fn label_value(label: &str) -> Arc<str> {
    match label {
        label::NAME => "edge".into(),
        label::COMPONENT => "proxy".into(),
        label::MANAGED_BY => "edge-gateway".into(),
        _ => "sample".into(),
    }
}
