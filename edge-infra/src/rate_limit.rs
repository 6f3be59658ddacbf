//! The service of global rate limits, `envoyproxy/ratelimit`: its objects, beside the controller.
//!
//! It is told what to count over xDS and knows the controller by its certificate, as the proxies know it by its own and
//! it knows by theirs the proxies beside the controller; it counts in Redis. Its objects carry the same marks as those
//! of a fleet, under a key that no fleet has.

use crate::{
    Installation, Object, ObjectKind, RenderError,
    config::account,
    container::{Every, by_key, image, probe_of_port, requests, security_context},
    metadata::{labels, merged, name, object},
    names,
    render::{finished, problems, sample_installation},
    scaling::{autoscaler, budget},
    service::service,
    workload::workload,
};
use edge_ir::{
    FleetKey, Infra, Placement, PortProtocol, ProxySettings, RateLimitClients, RateLimitInfra, RedisAddress,
    RedisSecurity, ServiceKind, ServicePort, StringMap, label,
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, sync::Arc};

/// The name of everything of it.
const NAME: &str = "edge-ratelimit";
/// The key that its objects are marked with. No Gateway or class is called so.
const KEY: &str = "service:edge-ratelimit";
/// Image, where nothing else is said.
const IMAGE: &str = "docker.io/envoyproxy/ratelimit:master";
/// Whom it runs as.
const USER: u32 = 65534;
/// Where it is asked, in gRPC.
const GRPC_PORT: u16 = 8081;
/// Where nobody but its own pod reaches it.
const LOOPBACK: &str = "127.0.0.1";
/// Where its measurements are scraped.
const METRICS_PORT: u16 = 19001;
/// Secret with its certificate, and where that is in its pods.
const CERTIFICATE: (&str, &str) = (names::RATE_LIMIT, "/certs");
/// Where its certificate for Redis is.
const REDIS_CERTIFICATE: &str = "/redis-certs";
/// Where it is told how its measurements are called.
const MAPPING: (&str, &str) = ("/etc/statsd-exporter", "conf.yaml");
/// What its measurements are called: of each limit those that its domain and its descriptors name.
const MAPPINGS: &str = include_str!("rate_limit/metrics.yaml");

/// What all its objects depend on. They come and go with the controller's Deployment.
pub fn infra(service: &RateLimitInfra, installation: &Installation) -> Infra {
    let labels = [
        (label::NAME, NAME),
        (label::COMPONENT, "ratelimit"),
        (label::MANAGED_BY, "edge-gateway"),
    ];
    let mut cluster = service.cluster.clone();
    cluster.service.kind = ServiceKind::ClusterIp;
    let metrics = service.prometheus.then(|| port("metrics", METRICS_PORT));
    Infra {
        key: key(),
        name: NAME.into(),
        namespace: Arc::clone(&installation.controller_namespace),
        placement: Placement::Controller,
        owner: installation.controller.clone(),
        labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        extra_labels: StringMap::new(),
        annotations: StringMap::new(),
        ports: [port("grpc", GRPC_PORT)].into_iter().chain(metrics).collect(),
        addresses: Vec::new(),
        proxy: Arc::new(ProxySettings {
            cluster,
            ..ProxySettings::default()
        }),
        origins: [].into_iter().collect(),
    }
}

/// The key that its objects are marked with.
pub fn key() -> FleetKey {
    KEY.into()
}

/// Everything that must exist around the service, in the order in which it is applied; or all that keeps it from being
/// made. `infra`: what [`infra()`] has made of the same service.
pub fn render(
    service_of: &RateLimitInfra,
    infra: &Infra,
    installation: &Installation,
) -> Result<Vec<Object>, Vec<RenderError>> {
    let none = StringMap::new();
    let mappings = json!({"data": {MAPPING.1: MAPPINGS}});
    let objects = [
        Some(account(infra)),
        Some(object(infra, ObjectKind::ConfigMap, (&none, &none), mappings)),
        service(infra).map(in_any_family),
        Some(workload(infra, &template(service_of, infra, installation))),
        autoscaler(infra),
        budget(infra),
    ];
    finished(objects.into_iter().flatten(), infra, installation)
}

/// All that can't be used of what a configuration file says about the service's objects, before any is made.
pub fn check(service: &RateLimitInfra) -> Vec<String> {
    let installation = sample_installation();
    problems(render(service, &infra(service, &installation), &installation))
}

/// Nobody says in which family of addresses the service is asked for limits: it is the cluster's own.
fn in_any_family(mut service: Object) -> Object {
    if let Some(spec) = service.body["spec"].as_object_mut() {
        spec.retain(|field, _| !matches!(&**field, "ipFamilies" | "ipFamilyPolicy"));
    }
    service
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        port: number,
        protocol: PortProtocol::Tcp,
        container_port: number,
        name: name.into(),
    }
}

fn template(service: &RateLimitInfra, infra: &Infra, installation: &Installation) -> Value {
    let settings = &infra.proxy.cluster.workload;
    let mut annotations = Map::new();
    if service.prometheus {
        let port = METRICS_PORT.to_string();
        for (key, value) in [("scrape", "true"), ("path", "/metrics"), ("port", &*port)] {
            annotations.insert(format!("prometheus.io/{key}"), value.into());
        }
    }
    annotations.extend(merged([&settings.pod.annotations]));
    let mut metadata = json!({"labels": labels(infra, &settings.pod.labels)});
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    let mut spec = json!({
        "serviceAccountName": name(infra, ObjectKind::ServiceAccount),
        // It speaks to the controller and to Redis, not to the API server.
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 300,
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "containers": [container(service, infra, installation)],
        "volumes": by_key("name", volumes(service, infra), &settings.pod.volumes),
    });
    if let Value::Object(fields) = &mut spec {
        fields.extend(settings.pod.fields.clone());
        let secrets = installation
            .image_pull_secrets
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        let lists = [
            (
                "imagePullSecrets",
                by_key("name", secrets, &settings.pod.image_pull_secrets),
            ),
            ("initContainers", settings.init_containers.clone()),
        ];
        for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            fields.insert(field.to_owned(), list.into());
        }
    }
    json!({"metadata": metadata, "spec": spec})
}

fn container(service: &RateLimitInfra, infra: &Infra, installation: &Installation) -> Value {
    let settings = &infra.proxy.cluster.workload.container;
    let ports = infra.ports.iter().map(|port| {
        let name = &port.name;
        json!({"name": name, "containerPort": port.container_port, "protocol": "TCP"})
    });
    // What it says of its health stands beside what counts for whoever asks, where no kubelet comes.
    let check = |seconds, failures| probe_of_port(GRPC_PORT, Every { seconds, failures });
    json!({
        "name": "edge-ratelimit",
        "image": image(settings, IMAGE),
        "imagePullPolicy": installation.image_pull_policy,
        "command": ["/bin/ratelimit"],
        "env": by_key("name", env(service, installation), &settings.env),
        "ports": ports.collect::<Vec<Value>>(),
        "resources": settings.resources.clone().unwrap_or_else(|| requests("100m", "512Mi")),
        "startupProbe": check(10, 30),
        "readinessProbe": check(5, 1),
        "livenessProbe": check(10, 3),
        "securityContext": settings.security_context.clone().unwrap_or_else(|| security_context(USER)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": by_key("mountPath", mounts(service), &settings.volume_mounts),
    })
}

fn mounts(service: &RateLimitInfra) -> Vec<Value> {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let redis =
        matches!(service.redis_tls, RedisSecurity::MutualTls(_)).then(|| mount("redis-certs", REDIS_CERTIFICATE));
    let mapping = service.prometheus.then(|| mount("statsd-exporter-config", MAPPING.0));
    let own = mount("certs", CERTIFICATE.1);
    [own].into_iter().chain(mapping).chain(redis).collect()
}

fn volumes(service: &RateLimitInfra, infra: &Infra) -> Vec<Value> {
    let secret =
        |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o644}});
    let config_map = name(infra, ObjectKind::ConfigMap);
    let mapping = service
        .prometheus
        .then(|| json!({"name": "statsd-exporter-config", "configMap": {"name": config_map, "defaultMode": 0o644}}));
    let redis = match &service.redis_tls {
        RedisSecurity::MutualTls(name) => Some(secret("redis-certs", name)),
        RedisSecurity::Clear | RedisSecurity::Tls => None,
    };
    let own = secret("certs", CERTIFICATE.0);
    [own].into_iter().chain(mapping).chain(redis).collect()
}

/// How it is told everything: it reads variables only (its README, and `src/settings/settings.go`).
fn env(service: &RateLimitInfra, installation: &Installation) -> Vec<Value> {
    let file = |name: &str| format!("{}/{name}", CERTIFICATE.1);
    let mut env = vec![
        set("RUNTIME_ROOT", "/data"),
        set("RUNTIME_SUBDIRECTORY", "ratelimit"),
        set("RUNTIME_IGNOREDOTFILES", "true"),
        set("RUNTIME_WATCH_ROOT", "false"),
        set("LOG_LEVEL", "info"),
        set("USE_STATSD", "false"),
        set("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        // In its own namespace; the certificate that it is shown there is checked for this name.
        set("CONFIG_GRPC_XDS_SERVER_URL", "edge-gateway:18001"),
        set("CONFIG_GRPC_XDS_NODE_ID", NAME),
        set("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        set("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &file("tls.crt")),
        set("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &file("tls.key")),
        set("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &file("ca.crt")),
        set("GRPC_SERVER_USE_TLS", "true"),
        set("GRPC_SERVER_TLS_CERT", &file("tls.crt")),
        set("GRPC_SERVER_TLS_KEY", &file("tls.key")),
        // Where it counts for whoever posts JSON, and where it shows what it counts: for its own pod only.
        set("HOST", LOOPBACK),
        set("DEBUG_HOST", LOOPBACK),
        // It answers once it is asked; what it doesn't know yet it lets pass.
        set("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        set("REDIS_SOCKET_TYPE", "tcp"),
        match &service.redis {
            RedisAddress::Url(url) => set("REDIS_URL", url),
            RedisAddress::Secret { name, key } => {
                json!({"name": "REDIS_URL", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
            }
        },
    ];
    if service.clients == RateLimitClients::Certified {
        env.push(set("GRPC_CLIENT_TLS_CACERT", &file("ca.crt")));
        // It trusts what its system trusts besides; of these nobody certifies such a name.
        let name = format!("*.{}", installation.controller_namespace);
        env.push(set("GRPC_CLIENT_TLS_SAN", &name));
    }
    if service.redis_tls != RedisSecurity::Clear {
        env.push(set("REDIS_TLS", "true"));
    }
    if let RedisSecurity::MutualTls(_) = service.redis_tls {
        env.push(set("REDIS_TLS_CLIENT_CERT", &format!("{REDIS_CERTIFICATE}/tls.crt")));
        env.push(set("REDIS_TLS_CLIENT_KEY", &format!("{REDIS_CERTIFICATE}/tls.key")));
    }
    if service.prometheus {
        env.push(set("USE_PROMETHEUS", "true"));
        env.push(set("PROMETHEUS_ADDR", &format!(":{METRICS_PORT}")));
        env.push(set("PROMETHEUS_MAPPER_YAML", &format!("{}/{}", MAPPING.0, MAPPING.1)));
    }
    if let Some(traces) = &service.traces {
        let share = f64::from(traces.percent.min(100)) / 100.0;
        env.push(set("TRACING_ENABLED", "true"));
        env.push(set("TRACING_SERVICE_NAME", NAME));
        env.push(set("TRACING_SERVICE_NAMESPACE", &installation.controller_namespace));
        env.push(json!({
            "name": "TRACING_SERVICE_INSTANCE_ID",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
        }));
        env.push(set("TRACING_SAMPLING_RATE", &share.to_string()));
        env.push(set("TRACING_EXPORTER_PROTOCOL", "grpc"));
        env.push(set("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint(&traces.collector)));
    }
    env
}

/// A collector as the service's library takes it, which is a URL: it silently asks localhost where it can't read one.
fn endpoint(collector: &str) -> Cow<'_, str> {
    match collector.contains("://") {
        true => collector.into(),
        false => format!("http://{collector}").into(),
    }
}

fn set(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}
