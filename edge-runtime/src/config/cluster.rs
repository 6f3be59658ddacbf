//! Settings of a controller in a cluster.

use super::{Overrides, Reading};
use crate::{
    Error,
    cluster::terms::{ClientLimits, Election, LeaseTerms},
};
use edge_ir::RateLimitInfra;
use edge_translate::{
    Feature,
    api::{CustomKind, Kind, LabelSelector, ObjectKey, SecretRef},
    config::EdgeGateway,
    config::extension::custom_kinds,
    config::provider::{ClusterProvider, DeployModeType, LeaderElection, WatchModeType},
    rate_limit_infra,
};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the Secret with the controller's certificate is mounted.
const CERTIFICATES: &str = "/certs";

/// Images of this version.
const PROXY_IMAGE: &str = concat!("edge-gateway/edge-proxy:v", env!("CARGO_PKG_VERSION"));
const CONTROLLER_IMAGE: &str = concat!("edge-gateway/edgegateway:v", env!("CARGO_PKG_VERSION"));

/// Settings of a controller in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The controller's own namespace, which is always watched.
    pub namespace: Arc<str>,
    /// Namespaces whose objects count.
    pub scope: Scope,
    /// Where the objects of fleets are made.
    pub deploy: Deploy,
    /// Limits towards the API server.
    pub client: ClientLimits,
    /// How one replica becomes the writer.
    pub election: Election,
    /// The folder with the controller's certificate: a mounted Secret.
    pub certificates: PathBuf,
    /// Image of proxies whose EdgeProxy names none.
    pub proxy_image: Arc<str>,
    /// Image of the sidecar that drains proxies.
    pub shutdown_manager_image: Arc<str>,
    /// Whether proxies are told their zone.
    pub topology_injector: Feature,
    /// What is made around the service of global rate limits, if there is to be one.
    pub rate_limit: Option<Arc<RateLimitInfra>>,
    /// Secrets that the configuration names: those of extension services.
    pub secrets: BTreeSet<ObjectKey>,
    /// Kinds beside ours that are read.
    pub custom: Arc<[CustomKind]>,
}

/// Namespaces whose objects count, beside the controller's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// All.
    All,
    /// These.
    Namespaces(BTreeSet<Arc<str>>),
    /// Those with such labels, whenever they have them.
    Selector(LabelSelector),
}

/// Where the objects of fleets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deploy {
    /// Beside the controller.
    ControllerNamespace,
    /// Beside each Gateway.
    GatewayNamespace,
}

impl Cluster {
    /// Fields of the file that another configuration has otherwise. All of them are read at the start alone.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            // These come with the process.
            namespace: _,
            certificates: _,
            proxy_image: _,
            // These are followed.
            custom: _,
            scope,
            deploy,
            client,
            election,
            shutdown_manager_image,
            topology_injector,
            rate_limit,
            secrets,
        } = self;
        let fields = [
            ("watch", *scope != other.scope),
            ("deploy", *deploy != other.deploy),
            ("client.rateLimit", *client != other.client),
            ("leaderElection", *election != other.election),
            (
                "shutdownManager.image",
                *shutdown_manager_image != other.shutdown_manager_image,
            ),
            ("proxyTopologyInjector", *topology_injector != other.topology_injector),
            ("the rate limit service", *rate_limit != other.rate_limit),
            ("Secrets of extension services", *secrets != other.secrets),
        ];
        fields
            .into_iter()
            .filter_map(|(field, differs)| differs.then_some(field))
            .collect()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::Namespaces(names) => {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                write!(f, "namespaces {}", names.join(", "))
            }
            Self::Selector(_) => f.write_str("namespaces by label"),
        }
    }
}

impl Reading {
    /// What the file says about the cluster, and the process's surroundings.
    pub(super) fn cluster(&self, overrides: &Overrides) -> Cluster {
        let default = ClusterProvider::default();
        let given = self.file.provider.cluster.as_deref().unwrap_or(&default);
        let namespace = overrides.controller_namespace();
        let limit = given.client.as_ref().and_then(|client| client.rate_limit.clone());
        let limit = limit.unwrap_or_default();
        // Both were checked when the file was read.
        let positive = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
        let image = given.shutdown_manager.as_ref().and_then(|it| it.image.as_deref());
        let injector = given.proxy_topology_injector.as_ref();
        Cluster {
            scope: scope(given),
            deploy: match given.deploy.r#type {
                DeployModeType::GatewayNamespace => Deploy::GatewayNamespace,
                _ => Deploy::ControllerNamespace,
            },
            client: ClientLimits {
                qps: positive(limit.qps),
                burst: positive(limit.burst),
            },
            election: election(given.leader_election.as_ref(), &namespace),
            certificates: overrides.certificates.clone().unwrap_or(Path::new(CERTIFICATES).into()),
            proxy_image: overrides.proxy_image.clone().unwrap_or_else(|| PROXY_IMAGE.into()),
            shutdown_manager_image: image.unwrap_or(CONTROLLER_IMAGE).into(),
            topology_injector: match injector.is_some_and(|injector| injector.disabled) {
                true => Feature::Disabled,
                false => Feature::Enabled,
            },
            // Where another one is to be asked, there is one.
            rate_limit: match &overrides.rate_limit_service {
                Some(_) => None,
                None => rate_limit_infra(&self.file).map(Arc::new),
            },
            secrets: secrets(&self.file, &namespace),
            custom: custom_kinds(self.file.extensions()).into(),
            namespace,
        }
    }
}

impl Reading {
    /// Whether everything around the service of rate limits can be made in this cluster.
    pub(super) fn check_rate_limit(&self, cluster: &Cluster) -> Result<(), Error> {
        let (Some(infra), Some(service)) = (&cluster.rate_limit, &self.file.rate_limit) else {
            return Ok(());
        };
        let tls = service.backend.redis.as_ref().and_then(|redis| redis.tls.as_ref());
        let certificate = tls.and_then(|tls| tls.certificate_ref.as_ref());
        let elsewhere = certificate.and_then(|reference| reference.namespace.as_deref());
        // Pods mount Secrets of their own namespace only.
        if elsewhere.is_some_and(|namespace| *namespace != *cluster.namespace) {
            let problem = format!(
                "the Secret must be in {}, where the service runs: leave the namespace out",
                cluster.namespace
            );
            return Err(self.fault("rateLimit.backend.redis.tls.certificateRef.namespace", &problem));
        }
        match edge_infra::rate_limit::check(infra).as_slice() {
            [] => Ok(()),
            problems => {
                let problem = format!("the service of rate limits can't be made: {}", problems.join("; "));
                Err(self.fault("provider.cluster", &problem))
            }
        }
    }
}

/// The Secrets that the file names.
fn secrets(file: &EdgeGateway, namespace: &Arc<str>) -> BTreeSet<ObjectKey> {
    let services = file.extensions().filter_map(|manager| manager.service.as_deref());
    let tls = services.filter_map(|service| service.tls.as_deref());
    let named = tls.flat_map(|tls| std::iter::once(&tls.certificate_ref).chain(&tls.client_certificate_ref));
    let key = |reference: &SecretRef| {
        let of = reference.namespace.as_deref().unwrap_or(namespace);
        ObjectKey::new(Kind::Secret, of, &*reference.name)
    };
    named.map(key).collect()
}

fn scope(given: &ClusterProvider) -> Scope {
    let Some(watch) = &given.watch else {
        return Scope::All;
    };
    match (&watch.r#type, &watch.namespace_selector) {
        (Some(WatchModeType::Namespaces), _) => {
            Scope::Namespaces(watch.namespaces.iter().map(|name| Arc::from(&**name)).collect())
        }
        (Some(WatchModeType::NamespaceSelector), Some(selector)) => Scope::Selector(selector.clone()),
        _ => Scope::All,
    }
}

fn election(given: Option<&LeaderElection>, namespace: &Arc<str>) -> Election {
    let default = LeaderElection::default();
    let given = given.unwrap_or(&default);
    if given.disable {
        return Election::Off;
    }
    // They were checked when the file was read.
    let times = given.times().map(|(_, time)| time.parse().unwrap_or_default());
    let [duration, renew_deadline, retry] = times;
    Election::Lease(LeaseTerms {
        namespace: Arc::clone(namespace),
        duration,
        renew_deadline,
        retry,
    })
}
