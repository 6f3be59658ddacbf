//! Fields of the file that this mode doesn't use: each is named where it stands, so that none is ignored in silence.
//!
//! Every type is taken apart completely. A field that is added to one doesn't compile here until it is either followed
//! (and then bound to `_` below, with the others that are) or remarked on.

use edge_translate::config::{
    EdgeGateway, ExtensionApis,
    provider::{
        ClusterProvider, CustomProvider, HostInfrastructure, InfrastructureProvider, Provider, ProviderType,
        ResourceProvider, WatchMode, WatchModeType,
    },
    service::{Admin, Metrics, Telemetry},
};

/// A field, by its path, and why it changes nothing.
pub(super) type Remark = (&'static str, &'static str);

const ALWAYS_READ: &str = "every kind that this version knows is read; the field is ignored";
const NOT_STARTED: &str =
    "in standalone mode the rate limit service is started by hand (docs/standalone.md); the field is ignored";
const CLUSTER_ONLY: &str = "it belongs to provider.type Cluster; the field is ignored";
const CUSTOM_ONLY: &str = "it belongs to provider.type Custom; the field is ignored";
const NO_SERVICE: &str = "there is no rate limit service without rateLimit; the field is ignored";

/// Everything that is set and not followed.
pub(super) fn unused(file: &EdgeGateway) -> Vec<Remark> {
    let EdgeGateway {
        gateway: _,
        provider,
        // Moved into the provider while the file was read.
        infrastructure: _,
        logging: _,
        admin,
        telemetry,
        xds_server: _,
        rate_limit,
        extension_manager: _,
        extension_managers: _,
        extension_apis:
            ExtensionApis {
                enable_edge_patch_policy: _,
                enable_backend: _,
                disable_lua: _,
                enable_lua: _,
                enable_sds_secret_ref: _,
            },
        gateway_api,
        runtime_flags,
        edge_proxy: _,
    } = file;
    let Admin {
        address: _,
        enable_dump_config: _,
        enable_pprof,
    } = admin;
    let is_started = provider.r#type != ProviderType::Custom;
    let unstarted = rate_limit.as_deref().filter(|_| !is_started);
    let set = [
        (unstarted.is_some(), ("rateLimit.backend", NOT_STARTED)),
        (
            unstarted.is_some_and(|service| service.telemetry.is_some()),
            ("rateLimit.telemetry", NOT_STARTED),
        ),
        (gateway_api.is_some(), ("gatewayAPI", ALWAYS_READ)),
        (
            runtime_flags.is_some(),
            (
                "runtimeFlags",
                "nothing is in transition in this version; the field is ignored",
            ),
        ),
        (
            *enable_pprof,
            (
                "admin.enablePprof",
                "there are no profiling pages; the field is ignored",
            ),
        ),
    ];
    let mut remarks: Vec<Remark> = set
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, remark)| remark)
        .collect();
    remarks.extend(telemetry.iter().flat_map(|telemetry| of_telemetry(telemetry)));
    remarks.extend(of_provider(provider));
    if rate_limit.is_none() && is_started {
        remarks.extend(provider.cluster.as_deref().into_iter().flat_map(of_no_service));
    }
    remarks
}

/// What says how the rate limit service is made, where none is.
fn of_no_service(cluster: &ClusterProvider) -> Vec<Remark> {
    let set = [
        (
            cluster.rate_limit_deployment.is_some(),
            "provider.cluster.rateLimitDeployment",
        ),
        (cluster.rate_limit_hpa.is_some(), "provider.cluster.rateLimitHpa"),
        (cluster.rate_limit_pdb.is_some(), "provider.cluster.rateLimitPDB"),
    ];
    let set = set.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, path)| (path, NO_SERVICE)).collect()
}

fn of_telemetry(telemetry: &Telemetry) -> Vec<Remark> {
    let Telemetry { metrics, traces } = telemetry;
    let mut remarks = Vec::new();
    if let Some(Metrics { sinks, prometheus: _ }) = metrics
        && !sinks.is_empty()
    {
        let reason = "metrics are scraped from /metrics and sent nowhere; the field is ignored";
        remarks.push(("telemetry.metrics.sinks", reason));
    }
    if traces.is_some() {
        remarks.push((
            "telemetry.traces",
            "the controller records no traces; the field is ignored",
        ));
    }
    remarks
}

fn of_provider(provider: &Provider) -> Vec<Remark> {
    let Provider {
        r#type,
        cluster,
        custom,
    } = provider;
    match r#type {
        ProviderType::Custom => {
            let mut remarks = of_custom(custom.as_deref());
            if cluster.is_some() {
                remarks.push(("provider.cluster", CLUSTER_ONLY));
            }
            remarks
        }
        _ => {
            let mut remarks = of_cluster(cluster.as_deref());
            if custom.is_some() {
                remarks.push(("provider.custom", CUSTOM_ONLY));
            }
            remarks
        }
    }
}

fn of_cluster(cluster: Option<&ClusterProvider>) -> Vec<Remark> {
    let Some(ClusterProvider {
        rate_limit_deployment: _,
        rate_limit_hpa: _,
        rate_limit_pdb: _,
        deploy: _,
        shutdown_manager: _,
        proxy_topology_injector: _,
        watch,
        leader_election: _,
        client: _,
        cache_sync_period,
    }) = cluster
    else {
        return Vec::new();
    };
    let set = [(
        cache_sync_period.is_some(),
        "provider.cluster.cacheSyncPeriod",
        "watches tell every change, so nothing is read again by the clock; the field is ignored",
    )];
    let set = set.into_iter().filter(|(is_set, ..)| *is_set);
    let remarks = set.map(|(_, path, reason)| (path, reason));
    remarks.chain(watch.as_ref().and_then(of_watch)).collect()
}

/// Namespaces are chosen in one of two ways; what belongs to the other one changes nothing.
fn of_watch(watch: &WatchMode) -> Option<Remark> {
    let WatchMode {
        r#type,
        namespaces,
        namespace_selector,
    } = watch;
    match r#type {
        Some(WatchModeType::Namespaces) if namespace_selector.is_some() => Some((
            "provider.cluster.watch.namespaceSelector",
            "it belongs to watch.type NamespaceSelector; the field is ignored",
        )),
        Some(WatchModeType::NamespaceSelector) if !namespaces.is_empty() => Some((
            "provider.cluster.watch.namespaces",
            "it belongs to watch.type Namespaces; the field is ignored",
        )),
        _ => None,
    }
}

fn of_custom(custom: Option<&CustomProvider>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let Some(CustomProvider {
        resource,
        infrastructure,
    }) = custom
    else {
        return remarks;
    };
    let ResourceProvider {
        r#type: _,
        file: _,
        cluster,
    } = resource;
    if cluster.is_some() {
        let reason = "resources come from files; the field is ignored";
        remarks.push(("provider.custom.resource.cluster", reason));
    }
    let Some(InfrastructureProvider {
        r#type: _,
        host,
        remote,
    }) = infrastructure
    else {
        return remarks;
    };
    if remote.is_some() {
        let reason = "proxies run on this host; the field is ignored";
        remarks.push(("provider.custom.infrastructure.remote", reason));
    }
    let data_home = host.as_ref().and_then(|host| {
        let HostInfrastructure {
            config_home: _,
            data_home,
            state_home: _,
            runtime_dir: _,
            proxy_binary: _,
        } = host;
        data_home.as_ref()
    });
    if data_home.is_some() {
        let reason = "no programs are downloaded, so none are kept; the field is ignored";
        remarks.push(("provider.custom.infrastructure.host.dataHome", reason));
    }
    remarks
}
