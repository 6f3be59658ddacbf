//! What a configuration file means.

use super::*;
use crate::task::Task;
use edge_translate::Platform;
use std::{collections::BTreeSet, io::Write as _, time::Duration};
use tokio::sync::mpsc;

const STANDALONE: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
provider:
  type: Custom
  custom:
    resource: { type: File, file: { paths: [./gateway.d, /etc/more.yaml] } }
    infrastructure:
      type: Host
      host: { configHome: home, stateHome: state, runtimeDir: run, proxyBinary: bin/envoy }
extensionApis: { enableBackend: true }
";

fn write(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("edge-gateway.yaml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn paths_are_taken_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), STANDALONE);
    let config = read(Some(&path), &Overrides::default()).unwrap();
    let Mode::Standalone(standalone) = config.mode else {
        panic!("{:?}", config.mode)
    };
    assert_eq!(
        *standalone.paths,
        [folder.path().join("gateway.d"), "/etc/more.yaml".into()]
    );
    assert_eq!(standalone.folders.state_home, folder.path().join("state"));
    assert_eq!(
        standalone.proxies,
        Proxies::Processes(Some(folder.path().join("bin/envoy")))
    );
    assert_eq!(config.admin, "127.0.0.1:19000".parse().unwrap());
    assert_eq!(config.settings.backend_api, Feature::Enabled);
    assert_eq!(config.settings.platform, Platform::Host);
    let overrides = Overrides {
        proxy_binary: Some("/opt/envoy".into()),
        ..Overrides::default()
    };
    let config = read(Some(&path), &overrides).unwrap();
    let Mode::Standalone(standalone) = config.mode else {
        panic!("{:?}", config.mode)
    };
    assert_eq!(standalone.proxies, Proxies::Processes(Some("/opt/envoy".into())));
}

#[test]
fn what_cannot_be_used_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        read(Some(&write(folder.path(), text)), &Overrides::default())
            .unwrap_err()
            .to_string()
    };
    let typo = error(&STANDALONE.replace("extensionApis", "extensionApi"));
    assert!(
        typo.contains("edge-gateway.yaml:10:") && typo.contains("extensionApi"),
        "{typo}"
    );
    let missing = read(Some(&folder.path().join("none")), &Overrides::default())
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("none: it doesn't exist; --config-path must name"),
        "{missing}"
    );
    let host = error(&STANDALONE.replace(
        "extensionApis:",
        "admin: { address: { host: 'no such host' } }\nextensionApis:",
    ));
    assert!(
        host.contains("admin.address.host: `no such host` is no address"),
        "{host}"
    );
}

const CLUSTER: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
provider:
  type: Cluster
  cluster:
    watch: { type: Namespaces, namespaces: [team-b, team-a] }
    deploy: { type: GatewayNamespace }
    client: { rateLimit: { qps: 7, burst: 9 } }
    leaderElection: { leaseDuration: 5s, renewDeadline: 3s, retryPeriod: 500ms }
    cacheSyncPeriod: 1h
";

#[test]
fn a_cluster_is_the_default_and_its_settings_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let of = |text: &str, overrides: &Overrides| read(Some(&write(folder.path(), text)), overrides).unwrap();
    let plain = of(
        "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\n",
        &Overrides::default(),
    );
    let Mode::Cluster(cluster) = plain.mode else {
        panic!("{:?}", plain.mode)
    };
    assert_eq!(
        (&*cluster.namespace, cluster.scope),
        ("edge-gateway-system", Scope::All)
    );
    assert_eq!(cluster.client, ClientLimits { qps: 50, burst: 100 });
    assert_eq!(cluster.certificates, Path::new("/certs"));
    assert_eq!(plain.settings.platform, Platform::Cluster);
    let Election::Lease(terms) = cluster.election else {
        panic!("{:?}", cluster.election)
    };
    let seconds = [terms.duration, terms.renew_deadline, terms.retry].map(|time| time.as_secs());
    assert_eq!(seconds, [15, 10, 2]);

    let overrides = Overrides {
        namespace: Some("tenant".into()),
        dns_domain: Some("example.test".into()),
        ..Overrides::default()
    };
    let config = of(CLUSTER, &overrides);
    let Mode::Cluster(cluster) = config.mode else {
        panic!("{:?}", config.mode)
    };
    assert_eq!(cluster.scope.to_string(), "namespaces team-a, team-b");
    assert_eq!(cluster.deploy, Deploy::GatewayNamespace);
    assert_eq!(cluster.client, ClientLimits { qps: 7, burst: 9 });
    assert_eq!(
        (&*cluster.namespace, &*config.settings.controller_namespace),
        ("tenant", "tenant")
    );
    assert_eq!(&*config.settings.dns_domain, "example.test");
    let Election::Lease(terms) = cluster.election else {
        panic!("{:?}", cluster.election)
    };
    assert_eq!(terms.retry, Duration::from_millis(500));
    let remarks: Vec<String> = config.remarks.iter().map(field).collect();
    assert_eq!(remarks, ["provider.cluster.cacheSyncPeriod"]);
}

#[test]
fn settings_of_a_cluster_that_cannot_be_followed_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let error = |from: &str, to: &str| {
        let text = CLUSTER.replace(from, to);
        let read = read(Some(&write(folder.path(), &text)), &Overrides::default());
        read.unwrap_err().to_string()
    };
    let late = error("renewDeadline: 3s", "renewDeadline: 5s");
    assert!(
        late.contains("leaderElection.renewDeadline: 5s must be less than leaseDuration"),
        "{late}"
    );
    let eager = error("retryPeriod: 500ms", "retryPeriod: 4s");
    assert!(
        eager.contains("leaderElection.retryPeriod: 4s must be less than renewDeadline"),
        "{eager}"
    );
    let none = error("qps: 7", "qps: 0");
    assert!(none.contains("client.rateLimit.qps: must be greater than 0"), "{none}");
    let mode = error("GatewayNamespace", "Elsewhere");
    assert!(mode.contains("deploy.type: Elsewhere is not known"), "{mode}");
    let merged = error("provider:\n", "edgeProxy: { mergeGateways: true }\nprovider:\n");
    assert!(
        merged.contains(
            "edgeProxy: mergeGateways is not supported where proxies run in the namespaces of their Gateways"
        ),
        "{merged}"
    );
    let untyped = error("provider:\n", "edgeProxy: { provider: { cluster: {} } }\nprovider:\n");
    assert!(
        untyped.contains("edge-gateway.yaml:3:24: error: edgeProxy.provider.type: Required value"),
        "{untyped}"
    );
}

#[test]
fn a_service_of_rate_limits_that_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let service = |deployment: &str, tls: &str| {
        let text = format!(
            "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider: {{ type: Cluster, cluster: {{ rateLimitDeployment: \
             {deployment} }} }}\nrateLimit: {{ backend: {{ type: Redis, redis: {{ url: 'redis:6379', tls: {tls} }} }} }}\n"
        );
        read(Some(&write(folder.path(), &text)), &Overrides::default()).map(drop)
    };
    let certificate = |namespace: &str| format!("{{ certificateRef: {{ name: x, namespace: {namespace} }} }}");
    service("{ replicas: 2 }", &certificate("edge-gateway-system")).unwrap();
    let far = service("{}", &certificate("other")).unwrap_err().to_string();
    assert!(
        far.contains("redis.tls.certificateRef.namespace: the Secret must be in edge-gateway-system"),
        "{far}"
    );
    let renamed = "{ patch: { type: StrategicMerge, value: { metadata: { name: other } } } }";
    let renamed = service(renamed, "{}").unwrap_err().to_string();
    assert!(
        renamed.contains("provider.cluster: the service of rate limits can't be made: deployment patch: it must not change metadata.name"),
        "{renamed}"
    );
}

/// Every field that standalone mode doesn't follow, set.
const UNUSED: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
provider:
  type: Custom
  cluster: {}
  custom:
    resource: { type: File, file: { paths: [x] }, cluster: {} }
    infrastructure: { type: Host, host: { dataHome: x }, remote: { service: { host: x } } }
admin: { enablePprof: true }
telemetry: { metrics: { sinks: [{ type: OpenTelemetry, openTelemetry: { host: x, protocol: grpc } }] }, traces: {} }
rateLimit: { backend: { type: Redis, redis: { url: x } }, telemetry: {} }
gatewayAPI: { enabled: [XListenerSet] }
runtimeFlags: { enabled: [XDSNameSchemeV2] }
";

/// The same of a cluster.
const UNUSED_IN_A_CLUSTER: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
provider:
  type: Cluster
  custom: { resource: { type: File, file: { paths: [x] } } }
  cluster:
    watch: { type: Namespaces, namespaces: [x], namespaceSelector: {} }
    cacheSyncPeriod: 1h
    rateLimitDeployment: { replicas: 2 }
    rateLimitHpa: { maxReplicas: 3 }
    rateLimitPDB: { minAvailable: 1 }
";

/// The field that a remark is about.
fn field(remark: &LoadFinding) -> String {
    remark.message.split(':').next().unwrap_or_default().to_owned()
}

#[test]
fn every_field_that_changes_nothing_is_named_where_it_stands_and_in_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let remarks = |text: &str| {
        read(Some(&write(folder.path(), text)), &Overrides::default())
            .unwrap()
            .remarks
    };
    let first = remarks(UNUSED);
    let named: BTreeSet<String> = first.iter().map(field).collect();
    assert_eq!(named.len(), 11, "{named:?}");
    let traces = first.iter().find(|remark| field(remark) == "telemetry.traces").unwrap();
    assert_eq!(
        (traces.line, traces.severity),
        (10, edge_translate::load::Severity::Warning)
    );
    let of_a_cluster: Vec<String> = remarks(UNUSED_IN_A_CLUSTER).iter().map(field).collect();
    assert_eq!(
        of_a_cluster,
        [
            "provider.cluster.cacheSyncPeriod",
            "provider.cluster.watch.namespaceSelector",
            "provider.custom",
            "provider.cluster.rateLimitDeployment",
            "provider.cluster.rateLimitHpa",
            "provider.cluster.rateLimitPDB",
        ]
    );
    let with_service =
        format!("{UNUSED_IN_A_CLUSTER}rateLimit: {{ backend: {{ type: Redis, redis: {{ url: 'x:1' }} }} }}\n");
    let of_service = |field: &String| field.contains("rateLimit");
    assert!(!remarks(&with_service).iter().map(field).any(|field| of_service(&field)));
    let by_labels = UNUSED_IN_A_CLUSTER.replace("type: Namespaces", "type: NamespaceSelector");
    let other_way = "provider.cluster.watch.namespaces".to_owned();
    assert!(remarks(&by_labels).iter().map(field).any(|field| field == other_way));
    let documentation = include_str!("../../../docs/configuration.md");
    for field in named.iter().chain(&of_a_cluster).chain([&other_way]) {
        assert!(
            documentation.contains(&format!("`{field}`")),
            "docs/configuration.md doesn't say that {field} is ignored"
        );
    }
}

#[test]
fn limits_and_dumps_are_followed_and_an_unused_field_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{STANDALONE}admin: {{ enableDumpConfig: true }}\nxdsServer: {{ maxConnectionAge: 5m, maxReceiveMessageSize: 8Mi }}\n"
    );
    let config = read(Some(&write(folder.path(), &text)), &Overrides::default()).unwrap();
    assert_eq!(config.remarks, []);
    assert_eq!(config.dump, Feature::Enabled);
    assert_eq!(config.xds.connection_age, Some(Duration::from_secs(300)));
    assert_eq!(config.xds.message_size, 8 << 20);
}

#[test]
fn the_default_of_all_fleets_is_part_of_what_translation_depends_on_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let of = |text: &str| read(Some(&write(folder.path(), text)), &Overrides::default());
    let plain = of(STANDALONE).unwrap();
    let shaped = of(&format!("{STANDALONE}edgeProxy: {{ routingType: Service }}\n")).unwrap();
    assert_ne!(plain.settings, shaped.settings);
    let error = of(&format!(
        "{STANDALONE}edgeProxy: {{ shutdown: {{ minDrainDuration: 90s }} }}\n"
    ));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("edge-gateway.yaml: edgeProxy: [shutdown.minDrainDuration must not be longer"),
        "{error}"
    );
}

#[tokio::test]
async fn a_valid_change_is_sent_and_an_invalid_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), STANDALONE);
    let current = read(Some(&path), &Overrides::default()).unwrap();
    let (sender, mut changes) = mpsc::channel(4);
    let file = path.clone();
    let _task = Task::spawn("follow", |stop| {
        follow(file, Overrides::default(), current, sender, stop)
    });
    let mut next = async || {
        let config = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
        let config = config.unwrap().unwrap();
        let Mode::Standalone(standalone) = config.mode else {
            panic!("{:?}", config.mode)
        };
        standalone.paths[0].clone()
    };
    // By then it watches.
    write(folder.path(), &STANDALONE.replace("gateway.d", "other.d"));
    assert_eq!(next().await, folder.path().join("other.d"));
    write(folder.path(), "kind: [broken");
    // Longer than a burst of events may be.
    let early = tokio::time::timeout(Duration::from_millis(500), next()).await;
    assert!(early.is_err(), "no configuration: {early:?}");
    write(folder.path(), &STANDALONE.replace("gateway.d", "third.d"));
    assert_eq!(next().await, folder.path().join("third.d"));
}

/// A writer that truncates and takes its time.
#[tokio::test]
async fn a_file_that_is_being_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), STANDALONE);
    let current = read(Some(&path), &Overrides::default()).unwrap();
    let (sender, mut changes) = mpsc::channel(4);
    let file = path.clone();
    let _task = Task::spawn("follow", |stop| {
        follow(file, Overrides::default(), current, sender, stop)
    });
    // By then it watches.
    write(folder.path(), &STANDALONE.replace("gateway.d", "other.d"));
    let first = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
    assert!(first.unwrap().is_some());
    let (half, rest) = STANDALONE.split_at(STANDALONE.find("extensionApis").unwrap());
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    // Longer than a burst of events may be.
    let early = tokio::time::timeout(Duration::from_millis(500), changes.recv()).await;
    assert!(early.is_err(), "half a file is no configuration: {early:?}");
    file.write_all(rest.as_bytes()).unwrap();
    drop(file);
    let whole = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
    assert_eq!(whole.unwrap().unwrap().settings.backend_api, Feature::Enabled);
}

#[test]
fn an_empty_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for text in [" \n", "# all of it\n---\n"] {
        let path = write(folder.path(), text);
        let error = read(Some(&path), &Overrides::default()).unwrap_err().to_string();
        assert!(error.contains("the file is empty"), "{error}");
    }
}

#[test]
fn what_waits_for_the_next_start_stays_whatever_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let of = |text: &str| read(Some(&write(folder.path(), text)), &Overrides::default()).unwrap();
    let running = of(STANDALONE);
    let (moved, waiting) = followed(of(&STANDALONE.replace("runtimeDir: run", "runtimeDir: run2")), &running);
    assert_eq!((&moved, &*waiting), (&running, &["runtimeDir"][..]));
    let both = STANDALONE
        .replace("runtimeDir: run", "runtimeDir: run2")
        .replace("bin/envoy", "bin/other");
    let (now, _) = followed(of(&both), &moved);
    let (Mode::Standalone(now), Mode::Standalone(before)) = (now.mode, &running.mode) else {
        panic!("{:?}", running.mode)
    };
    assert_eq!(now.folders, before.folders);
    assert_eq!(now.proxies, Proxies::Processes(Some(folder.path().join("bin/other"))));

    let cluster = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider: { type: Cluster }\n";
    assert_eq!(
        followed(of(cluster), &running),
        (running.clone(), vec!["provider.type"])
    );
    let running = of(cluster);
    let renamed = of(&format!(
        "{cluster}gateway: {{ controllerName: gateway.edge/renamed }}\n"
    ));
    assert_eq!(followed(renamed, &running), (running, vec!["gateway.controllerName"]));
}
