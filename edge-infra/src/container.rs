//! The two containers of a proxy's pod.

use crate::{Installation, StartFiles, pod::DRAIN_SECONDS};
use edge_ir::{ContainerSettings, Infra, LIVENESS_HEADER, pod_port};
use serde_json::{Value, json};

/// Name of the proxy's container.
const PROXY: &str = "edge";
/// Whom both run as.
const USER: u32 = 65532;
/// How long a container may take to end that is to be started again; its hook finds out in 15 that the pod goes on.
const RESTART_SECONDS: u32 = 30;
/// Volume in which the shutdown manager writes, where it has one.
const SCRATCH: &str = "shutdown-manager-tmp";

/// The proxy.
pub(crate) fn proxy(infra: &Infra, installation: &Installation, files: &StartFiles) -> Value {
    let settings = &infra.proxy.cluster.workload.container;
    let probe = |every: Every| probe("/ready", pod_port::READY, every);
    let mounts = [
        json!({"name": "certs", "mountPath": "/certs", "readOnly": true}),
        json!({"name": "sds", "mountPath": "/sds", "readOnly": true}),
        json!({"name": "sa-token", "mountPath": "/var/run/secrets/token", "readOnly": true}),
    ];
    let mut ports = vec![json!({"name": "readiness", "containerPort": pod_port::READY, "protocol": "TCP"})];
    if infra.proxy.prometheus {
        ports.insert(
            0,
            json!({"name": "metrics", "containerPort": pod_port::METRICS, "protocol": "TCP"}),
        );
    }
    json!({
        "name": PROXY,
        "image": image(settings, &installation.proxy_image),
        "imagePullPolicy": installation.image_pull_policy,
        "args": args(infra, files),
        "env": by_key("name", env(), &settings.env),
        "ports": ports,
        "resources": settings.resources.clone().unwrap_or_else(|| requests("100m", "512Mi")),
        "startupProbe": probe(STARTUP),
        "readinessProbe": probe(Every { seconds: 5, failures: 1 }),
        "livenessProbe": restarting(liveness(Every { seconds: 10, failures: 3 })),
        // It waits here until the shutdown manager says that its connections are done.
        "lifecycle": {"preStop": {"httpGet": {"path": "/shutdown/ready", "port": pod_port::SHUTDOWN, "scheme": "HTTP"}}},
        "securityContext": settings.security_context.clone().unwrap_or_else(|| security_context(USER)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": by_key("mountPath", mounts.into(), &settings.volume_mounts),
    })
}

/// The sidecar that drains the proxy before its pod ends.
pub(crate) fn shutdown_manager(infra: &Infra, installation: &Installation, files: &StartFiles) -> Value {
    let proxy = &infra.proxy;
    let mut serve = vec![
        "edgegateway".to_owned(),
        "proxy".to_owned(),
        "shutdown-manager".to_owned(),
    ];
    if let Some(drain) = proxy.drain_timeout_seconds {
        serve.push(format!("--ready-timeout={}s", drain.saturating_add(10)));
    }
    // A kubelet runs the hook also when it starts this container again, and then the proxy is to go on.
    let mut drain: Vec<String> = ["edgegateway", "proxy", "shutdown", "--if-pod-ends"]
        .map(str::to_owned)
        .into();
    let flags = [
        ("health-check-failure-delay", proxy.health_check_failure_delay_seconds),
        ("drain-timeout", proxy.drain_timeout_seconds),
        ("min-drain-duration", proxy.min_drain_seconds),
    ];
    for (flag, seconds) in flags {
        drain.extend(seconds.map(|seconds| format!("--{flag}={seconds}s")));
    }
    // A bootstrap may have the proxy's admin interface elsewhere.
    let moved = files.admin_port.filter(|port| *port != pod_port::ADMIN);
    for command in [&mut serve, &mut drain] {
        command.extend(moved.map(|port| format!("--admin-port={port}")));
    }
    let probe = |every: Every| probe("/healthz", pod_port::SHUTDOWN, every);
    let running = Every {
        seconds: 10,
        failures: 3,
    };
    let settings = &proxy.cluster.workload.container;
    let mut manager = json!({
        "name": "shutdown-manager",
        "image": installation.shutdown_manager_image,
        "imagePullPolicy": installation.image_pull_policy,
        "command": serve,
        "env": env(),
        "resources": requests("10m", "32Mi"),
        "startupProbe": probe(STARTUP),
        "readinessProbe": probe(running),
        "livenessProbe": restarting(probe(running)),
        "lifecycle": {"preStop": {"exec": {"command": drain}}},
        "securityContext": settings.security_context.clone().unwrap_or_else(|| security_context(USER)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if settings.security_context.is_some() {
        manager["volumeMounts"] = json!([{"name": SCRATCH, "mountPath": "/tmp"}]);
    }
    manager
}

/// Where the shutdown manager writes that the proxy is drained, where a user says whom it runs as: the folder of its
/// image belongs to [`USER`], and may be mounted to be read alone.
pub(crate) fn scratch(infra: &Infra) -> Option<Value> {
    let context = infra.proxy.cluster.workload.container.security_context.as_ref();
    context.map(|_| json!({"name": SCRATCH, "emptyDir": {}}))
}

/// The proxy's command line. Its program is the image's own: edge-proxy's or Envoy's.
fn args(infra: &Infra, files: &StartFiles) -> Vec<String> {
    let proxy = &infra.proxy;
    let mut args = vec![
        "--service-cluster".to_owned(),
        infra.key.to_string(),
        "--service-node".to_owned(),
        "$(EDGE_POD_NAME)".to_owned(),
        "--config-yaml".to_owned(),
        without_references(&files.bootstrap),
        "--log-level".to_owned(),
        proxy.default_level().to_owned(),
        "--cpuset-threads".to_owned(),
        "--drain-strategy".to_owned(),
        "immediate".to_owned(),
    ];
    if let Some(threads) = proxy.concurrency {
        args.extend(["--concurrency".to_owned(), threads.to_string()]);
    }
    args.extend(["--component-log-level".to_owned(), proxy.component_levels()]);
    let drain = proxy.drain_timeout_seconds.unwrap_or(DRAIN_SECONDS);
    args.extend(["--drain-time-s".to_owned(), drain.to_string()]);
    args.extend(proxy.extra_args.iter().map(|arg| arg.to_string()));
    args
}

/// A kubelet replaces `$(NAME)` in arguments by variables, and `$$` by `$` (core/v1, `Container.args`); in a bootstrap,
/// which a user may have written, such text is meant as it stands, except for the variables that are ours.
fn without_references(text: &str) -> String {
    let escaped = text.replace('$', "$$");
    NAMES.iter().fold(escaped, |text, name| {
        text.replace(&format!("$$({name})"), &format!("$({name})"))
    })
}

/// Variables of every container, by the field of the pod that they carry.
const ENV: [(&str, &str); 4] = [
    ("EDGE_POD_NAMESPACE", "metadata.namespace"),
    ("EDGE_GATEWAY_NAMESPACE", "metadata.namespace"),
    ("EDGE_POD_NAME", "metadata.name"),
    (
        "EDGE_SERVICE_ZONE",
        "metadata.annotations['topology.kubernetes.io/zone']",
    ),
];
const NAMES: [&str; 4] = [ENV[0].0, ENV[1].0, ENV[2].0, ENV[3].0];

fn env() -> Vec<Value> {
    let variable =
        |(name, field): &(&str, &str)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
    ENV.iter().map(variable).collect()
}

/// An image that was asked for; one without a tag gets that of the default image.
pub(crate) fn image(settings: &ContainerSettings, default: &str) -> String {
    match (&settings.image, &settings.image_repository) {
        (Some(image), _) => image.to_string(),
        (None, Some(repository)) => match tag(default) {
            Some(tag) => format!("{repository}:{tag}"),
            None => repository.to_string(),
        },
        (None, None) => default.to_owned(),
    }
}

/// The tag of an image, which may have a digest behind it. What follows the last colon of a host with a port is no tag.
fn tag(image: &str) -> Option<&str> {
    let named = image.split_once('@').map_or(image, |(named, _)| named);
    let (_, tag) = named.rsplit_once(':')?;
    (!tag.contains('/')).then_some(tag)
}

pub(crate) fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

/// How often a kubelet asks, and how many failures in a row it bears.
#[derive(Clone, Copy)]
pub(crate) struct Every {
    pub(crate) seconds: u32,
    pub(crate) failures: u32,
}

/// Both containers answer within a second or two, and a kubelet asks the first time before they can: what it asks next
/// is how long a new Gateway, or a replica that is added, waits for nothing. Five minutes remain for a slow start.
const STARTUP: Every = Every {
    seconds: 1,
    failures: 300,
};

pub(crate) fn probe(path: &str, port: u16, every: Every) -> Value {
    let mut probe = at_times(every);
    probe["httpGet"] = json!({"path": path, "port": port, "scheme": "HTTP"});
    probe
}

/// Whether a port takes connections.
pub(crate) fn probe_of_port(port: u16, every: Every) -> Value {
    let mut probe = at_times(every);
    probe["tcpSocket"] = json!({ "port": port });
    probe
}

fn at_times(every: Every) -> Value {
    json!({
        "periodSeconds": every.seconds,
        "failureThreshold": every.failures,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    })
}

/// A container that isn't alive has nothing to drain, and is to be started again before long, whatever becomes of its
/// hook: the pod's own grace period is for its connections.
fn restarting(mut probe: Value) -> Value {
    probe["terminationGracePeriodSeconds"] = RESTART_SECONDS.into();
    probe
}

/// Whether the proxy is alive: as its readiness is asked, but for a header that has one answered that drains. It is not
/// to get new traffic, and nothing is wrong with it. Where a listener doesn't know the header, both are the same.
fn liveness(every: Every) -> Value {
    let mut probe = probe("/ready", pod_port::READY, every);
    let (name, value) = LIVENESS_HEADER;
    probe["httpGet"]["httpHeaders"] = json!([{"name": name, "value": value}]);
    probe
}

pub(crate) fn security_context(user: u32) -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "privileged": false,
        "runAsNonRoot": true,
        "runAsUser": user,
        "runAsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Our elements and those of the user, who wins where both have the same key.
pub(crate) fn by_key(key: &str, ours: Vec<Value>, users: &[Value]) -> Vec<Value> {
    let is_users = |element: &Value| users.iter().any(|user| user.get(key) == element.get(key));
    let ours = ours.into_iter().filter(|element| !is_users(element));
    ours.chain(users.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kubelet makes of an argument: `third_party/forked/golang/expansion` of Kubernetes.
    fn expanded(argument: &str, variables: &[(&str, &str)]) -> String {
        let (mut text, mut rest) = (String::new(), argument);
        while let Some((before, behind)) = rest.split_once('$') {
            text.push_str(before);
            let reference = behind.strip_prefix('(').and_then(|name| name.split_once(')'));
            rest = match (behind.strip_prefix('$'), reference) {
                (Some(behind), _) => {
                    text.push('$');
                    behind
                }
                (None, Some((name, behind))) => {
                    let value = variables.iter().find(|(known, _)| *known == name);
                    text.push_str(&value.map_or(format!("$({name})"), |(_, value)| (*value).to_owned()));
                    behind
                }
                (None, None) => {
                    text.push('$');
                    behind
                }
            };
        }
        text + rest
    }

    #[test]
    fn a_bootstrap_reaches_its_proxy_as_it_is_but_for_variables_of_ours() {
        let variables = [("EDGE_POD_NAME", "pod-1"), ("THEIRS", "secret")];
        for (text, wanted) in [
            ("a$", "a$"),
            (r"a\$$", r"a\$$"),
            ("$$x", "$$x"),
            ("$(THEIRS)", "$(THEIRS)"),
            ("$$(THEIRS)", "$$(THEIRS)"),
            ("$$$(THEIRS)", "$$$(THEIRS)"),
            ("zone $(EDGE_POD_NAME)!", "zone pod-1!"),
            ("$$(EDGE_POD_NAME)", "$pod-1"),
        ] {
            assert_eq!(expanded(&without_references(text), &variables), wanted, "{text}");
        }
    }

    #[test]
    fn a_repository_gets_the_tag_of_the_default_image() {
        let settings = ContainerSettings {
            image_repository: Some("other/proxy".into()),
            ..ContainerSettings::default()
        };
        for (default, expected) in [
            ("reg/edge-proxy:v1", "other/proxy:v1"),
            ("reg:5000/edge-proxy", "other/proxy"),
            ("reg/edge-proxy:v1@sha256:0123", "other/proxy:v1"),
            ("reg/edge-proxy@sha256:0123", "other/proxy"),
        ] {
            assert_eq!(image(&settings, default), expected, "{default}");
        }
    }
}
