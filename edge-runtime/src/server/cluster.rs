//! What only a cluster has: a client of its API server, a leader among replicas, resources and statuses in it.

use super::{
    FETCHES, TASK_GRACE,
    hub::{Ends, Hub},
    sockets::every_address,
};
use crate::{
    Error,
    certs::{ServerTls, TlsFiles},
    cluster::{Api, discovery, election},
    cluster_infra::{self as infrastructure, ClusterTerms, Rendering},
    config::{Cluster, Config, Deploy, Scope},
    fetches,
    http::listen,
    provider::cluster as provider,
    replicas,
    state::{Leadership, Mirror, ProviderName},
    status::writer,
    task::Task,
    topology,
    world::Pace,
    xds_server::{AccountAuthorizer, Authorizer, ClientCertificates},
};
use edge_translate::{Feature, Settings, api::CustomKind};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// How long a change waits for others that belong to it: an object and what it names come by different watches.
const PACE: Pace = Pace {
    quiet: Duration::from_millis(3),
    longest: Duration::from_millis(100),
    fetches: FETCHES,
};

/// What can fail and was tried before anything runs.
pub(super) struct Prepared {
    cluster: Cluster,
    api: Api,
}

impl Prepared {
    /// Finds the API server. That it answers is not asked for: a controller that starts before it waits for it.
    pub(super) async fn new(cluster: Cluster) -> Result<Self, Error> {
        let api = Api::connect(cluster.client).await?;
        Ok(Self { cluster, api })
    }

    /// The certificate of the xDS server.
    pub(super) fn certificate(&self) -> TlsFiles {
        TlsFiles::within(&self.cluster.certificates)
    }

    /// Whom the xDS server gives a fleet's configuration to: who shows the token of the fleet's account.
    pub(super) fn authorizer(&self, config: &Config) -> Authorizer {
        let certificates = match self.cluster.deploy {
            Deploy::ControllerNamespace => ClientCertificates::Demanded,
            Deploy::GatewayNamespace => ClientCertificates::Unasked,
        };
        let settings = &config.settings;
        Authorizer::Account(AccountAuthorizer::new(self.api.urgent(), settings, certificates))
    }

    /// Where fetched documents are kept.
    pub(super) fn storage(&self) -> fetches::Storage {
        fetches::Storage::ConfigMap(Box::new(self.api.clone()), Arc::clone(&self.cluster.namespace))
    }

    /// Says where things are.
    pub(super) fn greet(&self) {
        let Cluster { namespace, scope, .. } = &self.cluster;
        tracing::info!(api = %self.api.address(), %namespace, watched = %scope, "resources are read from the cluster");
    }

    /// What the pages say about this mode.
    pub(super) fn info(&self, info: &mut Value) {
        info["mode"] = "cluster".into();
        info["namespace"] = json!(&*self.cluster.namespace);
        info["watched"] = json!(self.cluster.scope.to_string());
    }
}

/// Whom the world waits for, and how long a change waits for others.
pub(super) fn inputs() -> (BTreeSet<ProviderName>, Pace) {
    ([provider::NAME].into(), PACE)
}

/// The tasks of this mode.
pub(super) struct Running {
    discovery: Task,
    provider: Task,
    election: Task,
    infra: Task,
    statuses: Task,
    replicas: Task,
    injector: Option<Task>,
    /// Kinds beside ours that are read.
    custom: watch::Sender<Arc<[CustomKind]>>,
}

impl Running {
    /// Starts the tasks.
    pub(super) fn start(prepared: Prepared, settings: &Settings, hub: &Hub, ends: Ends) -> Self {
        let Prepared { cluster, api } = prepared;
        let fleets = cluster_terms(&cluster, settings);
        let supervision = &hub.supervision;
        let mirror = Arc::new(Mirror::default());
        let served = Arc::new(watch::Sender::new(None));
        let again = Arc::new(Notify::new());
        let leadership = Arc::new(watch::Sender::new(Leadership::Following));
        let outputs = provider::Outputs {
            inputs: hub.inputs.clone(),
            mirror: Arc::clone(&mirror),
            awaited: hub.awaited.clone(),
            metrics: Arc::clone(&hub.metrics),
        };
        let kinds = provider::Kinds {
            served: served.subscribe(),
            again: Arc::clone(&again),
        };
        let side = writer::Cluster {
            api: api.clone(),
            controller_name: Arc::clone(&settings.controller_name),
            mirror,
            leadership: leadership.subscribe(),
            served: served.subscribe(),
        };
        // Statuses are about the proxies of all replicas.
        let (mut sources, own, all) = (ends.sources, hub.own_proxies(), replicas::All::default());
        (sources.rejections, sources.deliveries) = (all.rejections.subscribe(), all.deliveries.subscribe());
        let (telling, home) = (api.clone(), Arc::clone(&cluster.namespace));
        let metrics = Arc::clone(&hub.metrics);
        let (applying, leads) = (api.clone(), leadership.subscribe());
        let (published, read) = (hub.published.clone(), hub.published.clone());
        let told = infrastructure::Outputs {
            reports: Arc::clone(&hub.reports),
            metrics: Arc::clone(&hub.metrics),
        };
        let injector = inject_topology(&cluster, &api, hub);
        let (custom, named) = watch::channel(Arc::clone(&cluster.custom));
        let (looking, electing, terms) = (api.clone(), api.clone(), cluster.election.clone());
        Self {
            discovery: Task::lasting("discovery", supervision, move |stop| {
                discovery::run(
                    looking.client(),
                    named.clone(),
                    Arc::clone(&served),
                    Arc::clone(&again),
                    stop,
                )
            }),
            provider: Task::vital("cluster provider", supervision, |stop| {
                provider::run(api, cluster, kinds, outputs, stop)
            }),
            election: Task::lasting("leader election", supervision, move |stop| {
                let (api, terms, leadership) = (electing.clone(), terms.clone(), Arc::clone(&leadership));
                election::run(api, terms, read.clone(), leadership, stop)
            }),
            infra: Task::lasting("cluster infrastructure", supervision, move |stop| {
                let (api, terms, outputs) = (applying.clone(), fleets.clone(), told.clone());
                infrastructure::run(api, terms, published.clone(), leads.clone(), outputs, stop)
            }),
            replicas: Task::lasting("proxies of all replicas", supervision, move |stop| {
                replicas::run(telling.clone(), Arc::clone(&home), own.clone(), all.clone(), stop)
            }),
            statuses: Task::vital("status writer", supervision, |stop| {
                writer::run(sources, side, metrics, stop)
            }),
            injector,
            custom,
        }
    }
}

/// Starts the topology injector, if it is on. Pods are bound without it too, so nothing else waits for its socket.
fn inject_topology(cluster: &Cluster, api: &Api, hub: &Hub) -> Option<Task> {
    if cluster.topology_injector == Feature::Disabled {
        return None;
    }
    let files = TlsFiles::within(&cluster.certificates);
    let injector = topology::Injector {
        client: api.urgent(),
        metrics: Arc::clone(&hub.metrics),
    };
    Some(Task::lasting("topology injector", &hub.supervision, move |stop| {
        let (files, injector) = (files.clone(), injector.clone());
        async move {
            let address = (every_address(), topology::PORT).into();
            let opened = listen(address, "the topology injector", "free that port").await;
            match opened.and_then(|listener| Ok((listener, ServerTls::read(files)?))) {
                Ok((listener, tls)) => topology::serve(listener, tls, injector, stop).await,
                Err(error) => tracing::error!("{error}"),
            }
        }
    }))
}

impl Running {
    /// Brings what is running in line with changed settings.
    pub(super) fn follow(&self, old: &Cluster, new: &Cluster) {
        if new.custom != old.custom {
            self.custom.send_replace(Arc::clone(&new.custom));
        }
        if let Some(message) = restart_for(&old.differences(new)) {
            tracing::warn!("{message}");
        }
    }

    /// No new input, and the leadership is given up, so that another replica goes on. What is left tells how it ended.
    pub(super) async fn stop_first(self) -> Task {
        self.provider.stop(TASK_GRACE).await;
        if let Some(injector) = self.injector {
            injector.stop(TASK_GRACE).await;
        }
        self.discovery.stop(TASK_GRACE).await;
        self.infra.stop(TASK_GRACE).await;
        self.election.stop(TASK_GRACE).await;
        self.replicas.stop(TASK_GRACE).await;
        self.statuses
    }
}

/// What is said of settings that can't be followed.
fn restart_for(fields: &[&str]) -> Option<String> {
    let fields = fields.join(", ");
    (!fields.is_empty()).then(|| {
        format!(
            "provider.cluster has changed ({fields}), which takes effect at the next start: restart the controller \
             (kubectl rollout restart of its Deployment)"
        )
    })
}

/// What the objects of fleets depend on besides the fleets.
fn cluster_terms(cluster: &Cluster, settings: &Settings) -> ClusterTerms {
    let namespaces = match (cluster.deploy, &cluster.scope) {
        (Deploy::ControllerNamespace, _) => Some(BTreeSet::from([Arc::clone(&cluster.namespace)])),
        // The controller's own is always read, Gateways in it too, and the service of rate limits is in it.
        (Deploy::GatewayNamespace, Scope::Namespaces(names)) => {
            let own = [Arc::clone(&cluster.namespace)];
            Some(names.iter().cloned().chain(own).collect())
        }
        (Deploy::GatewayNamespace, Scope::All | Scope::Selector(_)) => None,
    };
    ClusterTerms {
        rendering: Rendering {
            terms: edge_infra::Installation {
                controller_name: Arc::clone(&settings.controller_name),
                controller_namespace: Arc::clone(&settings.controller_namespace),
                dns_domain: Arc::clone(&settings.dns_domain),
                proxy_image: cluster.proxy_image.to_string(),
                shutdown_manager_image: cluster.shutdown_manager_image.to_string(),
                image_pull_policy: "IfNotPresent".to_owned(),
                image_pull_secrets: Vec::new(),
                authorities: String::new(),
                controller: None,
            },
            proxy_zones: cluster.topology_injector,
            service: cluster.rate_limit.clone(),
        },
        authorities: TlsFiles::within(&cluster.certificates).authority,
        namespaces,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Mode, Overrides};
    use std::fs;

    fn cluster(settings: &str) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        let head = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider: { type: Cluster, cluster: ";
        fs::write(&file, format!("{head}{settings} }}\n")).unwrap();
        match config::read(Some(&file), &Overrides::default()).unwrap().mode {
            Mode::Cluster(cluster) => *cluster,
            Mode::Standalone(_) => panic!("another mode"),
        }
    }

    /// Resources of the controller's own namespace are always read, and so are its Gateways.
    #[test]
    fn objects_are_followed_wherever_there_may_be_fleets() {
        let places = |settings: &str| -> Option<Vec<String>> {
            let terms = cluster_terms(&cluster(settings), &Settings::default());
            Some(terms.namespaces?.iter().map(ToString::to_string).collect())
        };
        let own = cluster("{}").namespace.to_string();
        assert_eq!(places("{}"), Some(vec![own.clone()]));
        assert_eq!(places("{ deploy: { type: GatewayNamespace } }"), None);
        let some = "{ deploy: { type: GatewayNamespace }, watch: { type: Namespaces, namespaces: [a, b] } }";
        assert_eq!(places(some), Some(vec!["a".to_owned(), "b".to_owned(), own]));
    }

    #[test]
    fn settings_that_need_a_restart_are_named() {
        let before = cluster("{}");
        assert_eq!(restart_for(&before.differences(&cluster("{}"))), None);
        for (settings, field) in [
            ("{ watch: { type: Namespaces, namespaces: [a] } }", "watch"),
            ("{ deploy: { type: GatewayNamespace } }", "deploy"),
            ("{ client: { rateLimit: { qps: 7, burst: 9 } } }", "client.rateLimit"),
            ("{ leaderElection: { disable: true } }", "leaderElection"),
            ("{ shutdownManager: { image: 'a/b:c' } }", "shutdownManager.image"),
            ("{ proxyTopologyInjector: { disabled: true } }", "proxyTopologyInjector"),
        ] {
            assert_eq!(before.differences(&cluster(settings)), [field], "{settings}");
        }
        let both = cluster("{ leaderElection: { disable: true }, deploy: { type: GatewayNamespace } }");
        let said = restart_for(&before.differences(&both)).unwrap();
        assert_eq!(
            said,
            "provider.cluster has changed (deploy, leaderElection), which takes effect at the next start: restart the \
             controller (kubectl rollout restart of its Deployment)"
        );
    }
}
