use super::*;
use crate::config::provider::{DeployModeType, ProviderType};
use crate::load::Source;

const HEAD: &str = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\n";

fn parse_text(body: &str) -> Result<EdgeGateway, Vec<String>> {
    let text = format!("{HEAD}{body}\n");
    parse(&Source {
        name: "c.yaml",
        text: &text,
    })
    .map_err(|findings| findings.iter().map(ToString::to_string).collect())
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = parse_text("").unwrap();
    assert_eq!(config, EdgeGateway::default());
    assert_eq!(&*config.gateway.controller_name, DEFAULT_CONTROLLER_NAME);
    assert_eq!(config.provider.r#type, ProviderType::Cluster);
    assert_eq!(config.logging.level.get("default"), Some(&LogLevel::Info));
    assert_eq!(
        (config.admin.address.port, &*config.admin.address.host),
        (19_000, "127.0.0.1")
    );
    assert!(!config.extension_apis.enable_backend);
    assert_eq!(
        parse(&Source {
            name: "c",
            text: "# nothing\n"
        }),
        Ok(EdgeGateway::default())
    );
}

#[test]
fn standalone_settings_are_read_from_either_place() {
    let resource = "resource: {type: File, file: {paths: [./gateway.d]}}";
    let inner = parse_text(&format!(
        "provider: {{type: Custom, custom: {{{resource}, infrastructure: {{type: Host, host: {{}}}}}}}}"
    ));
    let outer = parse_text(&format!(
        "provider: {{type: Custom, custom: {{{resource}}}}}\ninfrastructure: {{type: Host, host: {{}}}}"
    ));
    let inner = inner.unwrap();
    assert_eq!(Ok(&inner), outer.as_ref());
    let custom = inner.provider.custom.unwrap();
    assert_eq!(custom.resource.file.unwrap().paths, Box::from(["./gateway.d".into()]));
    assert!(custom.infrastructure.unwrap().host.is_some());
}

#[test]
fn cluster_settings_are_read() {
    let config = parse_text(
        "provider:\n  type: Cluster\n  cluster:\n    watch: {type: Namespaces, namespaces: [a, b]}\n    deploy: {type: GatewayNamespace}\n    \
         client: {rateLimit: {qps: 7}}\nextensionApis: {enableBackend: true}\nedgeProxy: {routingType: Service}",
    )
    .unwrap();
    let cluster = config.provider.cluster.unwrap();
    assert_eq!(cluster.deploy.r#type, DeployModeType::GatewayNamespace);
    let rate = cluster.client.unwrap().rate_limit.unwrap();
    assert_eq!((rate.qps, rate.burst), (7, 100));
    assert!(config.extension_apis.enable_backend);
    assert!(config.edge_proxy.is_some());
}

#[test]
fn unknown_fields_are_errors_with_a_place() {
    assert_eq!(
        parse_text("gateway:\n  controlerName: x").unwrap_err(),
        ["c.yaml:4:3: error: gateway.controlerName: EdgeGateway has no such field: did you mean `controllerName`?"]
    );
    assert_eq!(
        parse_text("spec: {}").unwrap_err(),
        ["c.yaml:3:1: error: spec: EdgeGateway has no spec: move its fields to the top"]
    );
    assert!(
        parse_text("edgeProxy: {telemetry: {accessLogs: {}}}").unwrap_err()[0]
            .contains("edgeProxy.telemetry.accessLogs")
    );
    assert!(
        parse_text("provider: {type: 7}").unwrap_err()[0].contains("3:18: error: provider.type: this must be text")
    );
    assert!(parse_text("admin: {address: {port: x}}").unwrap_err()[0].contains("admin.address.port: found the string"));
}

#[test]
fn another_file_is_recognised() {
    let error = |text: &str| parse(&Source { name: "c", text }).unwrap_err()[0].to_string();
    assert!(
        error("apiVersion: v1\nkind: ConfigMap\n")
            .starts_with("c:1:13: error: apiVersion must be gateway.edge/v1alpha1")
    );
    assert!(
        error("apiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\n")
            .starts_with("c:2:7: error: kind must be EdgeGateway")
    );
    assert!(error("gateway: {}\n").starts_with("c:1:1: error: apiVersion must be"));
    assert!(error("a: [\n").contains("not valid YAML"));
    assert_eq!(
        error("a: 1\n---\nb: 2\n"),
        "c:2:1: error: a configuration file is one document of kind EdgeGateway, and here another one begins: resources belong \
         into other files"
    );
}

/// A configuration, and a part of what is said of it.
const CHECKS: &[(&str, &str)] = &[
    (
        "gateway: {controllerName: ''}",
        "3:27: error: gateway controllerName is unspecified",
    ),
    (
        "gateway: {controllerName: no slash}",
        "3:27: error: gateway.controllerName: no GatewayClass can name \"no slash\": use a domain and a path, as \
             gateway.edge/gatewayclass-controller",
    ),
    (
        "gateway: {controllerName: Upper.example.com/a}",
        "gateway.controllerName: no GatewayClass can name \"Upper.example.com/a\"",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: Namespaces, namespaces: [a, A B]}}}",
        "provider.cluster.watch.namespaces.1: \"A B\" can't be the name of a namespace",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: NamespaceSelector, namespaceSelector: \
             {matchExpressions: [{key: a, operator: Foo}]}}}}",
        "provider.cluster.watch.namespaceSelector: \"Foo\" is not a valid label selector operator",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: NamespaceSelector, namespaceSelector: \
             {matchExpressions: [{key: a, operator: In}]}}}}",
        "provider.cluster.watch.namespaceSelector: values must not be empty for operator In",
    ),
    (
        "provider: {type: Magic}",
        "unsupported provider type: Magic, should be 'Cluster' or 'Custom'",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: Namespaces}}}",
        "namespaces should be specified when watch mode is 'Namespaces'",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: NamespaceSelector}}}",
        "namespaceSelector should be specified when watch mode is 'NamespaceSelector'",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {type: Some}}}",
        "watch mode invalid, should be 'Namespaces' or 'NamespaceSelector'",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {namespaces: [a]}}}",
        "3:44: error: watch mode invalid, should be 'Namespaces' or 'NamespaceSelector'",
    ),
    (
        "provider: {type: Cluster, cluster: {watch: {namespaceSelector: {}}}}",
        "watch mode invalid, should be 'Namespaces' or 'NamespaceSelector'",
    ),
    (
        "provider: {custom: {resource: {type: File, file: {paths: [x]}}}}",
        "3:11: error: provider: the field `type` is missing: add it",
    ),
    (
        "provider: {type: Custom, custom: {resource: {file: {paths: [x]}}}}",
        "provider.custom.resource: the field `type` is missing: add it",
    ),
    (
        "provider: {type: Custom, custom: {resource: {type: File, file: {paths: [x]}}, infrastructure: {host: {}}}}",
        "provider.custom.infrastructure: the field `type` is missing: add it",
    ),
    ("provider: {type: Custom}", "empty custom provider settings"),
    (
        "provider: {type: Custom, custom: {resource: {type: File}}}",
        "field 'file' should be specified when resource type is 'File'",
    ),
    (
        "provider: {type: Custom, custom: {resource: {type: File, file: {paths: []}}}}",
        "no paths were assigned for file resource provider to watch",
    ),
    (
        "provider: {type: Custom, custom: {resource: {type: Tape}}}",
        "unsupported resource provider: Tape, should be 'File' or 'Cluster'",
    ),
    (
        "provider: {type: Custom, custom: {resource: {type: File, file: {paths: [x]}}, infrastructure: {type: Host}}}",
        "field 'host' should be specified when infrastructure type is 'Host'",
    ),
    (
        "provider: {type: Custom, custom: {resource: {type: File, file: {paths: [x]}}, infrastructure: {type: Moon}}}",
        "unsupported infrastructure provider: Moon, should be 'Host' or 'Remote'",
    ),
    (
        "infrastructure: {type: Host, host: {}}",
        "this needs provider.type Custom",
    ),
    (
        "logging: {level: {default: loud}}",
        "logging.level.default: no such level: use one of trace, debug, info, warn, error, off, critical",
    ),
    (
        "logging: {level: {kitchen: info}}",
        "logging.level.kitchen: no such component",
    ),
    (
        "rateLimit: {failClosed: false, backend: {type: Disk}}",
        "unsupported ratelimit backend Disk, should be 'Redis'",
    ),
    ("rateLimit: {backend: {type: Redis}}", "empty ratelimit redis settings"),
    (
        "rateLimit: {backend: {type: Redis, redis: {}}}",
        "exactly one of ratelimit redis url or urlRef must be set",
    ),
    (
        "rateLimit: {backend: {type: Redis, redis: {url: 'a:1', tls: {certificateRef: {kind: ConfigMap, name: x}}}}}",
        "rateLimit.backend.redis.tls.certificateRef: only a Secret can be named",
    ),
    (
        "rateLimit: {backend: {type: Redis, redis: {url: 'a:1'}}, telemetry: {tracing: {samplingRate: 101}}}",
        "rateLimit.telemetry.tracing.samplingRate: must be a percentage, 100 at most",
    ),
    (
        "extensionManager: {hooks: {}, service: {fqdn: {hostname: a, port: 1}}}\nextensionManagers: [{name: a, hooks: {}, service: {fqdn: {hostname: a, port: 1}}}]",
        "extensionManager and extensionManagers are mutually exclusive",
    ),
    (
        "extensionManagers: []",
        "extensionManagers: at least one is required: leave the field out where there are none",
    ),
    (
        "extensionManagers: [{hooks: {}, service: {fqdn: {hostname: a, port: 1}}}]",
        "extensionManagers[0]: name is required",
    ),
    (
        "extensionManagers: [{name: a, hooks: {}, service: {fqdn: {hostname: a, port: 1}}}, {name: a, hooks: {}, service: {fqdn: {hostname: a, port: 1}}}]",
        "extensionManagers[1]: the name a is used twice",
    ),
    (
        "extensionManager: {service: {host: a}}",
        "extensionManager: hooks are required",
    ),
    ("extensionManager: {hooks: {}}", "extensionManager: service is required"),
    (
        "extensionManager: {hooks: {}, service: {host: a, unix: {path: b}}}",
        "exactly one of fqdn, ip, unix and host must be set",
    ),
    (
        "xdsServer: {maxConnectionAge: 0s}",
        "3:31: error: xdsServer.maxConnectionAge: must be greater than 0",
    ),
    ("xdsServer: {maxReceiveMessageSize: big}", "is not a quantity"),
    (
        "telemetry: {metrics: {sinks: [{openTelemetry: {host: a, protocol: udp}}]}}",
        "udp is not known: use grpc or http",
    ),
    (
        "extensionApis: {enableLua: true, disableLua: true}",
        "disableLua and enableLua must not have the same value",
    ),
];

/// Reads each of these configurations, of which each has the one fault that stands beside it.
fn assert_each_says(rows: impl Iterator<Item = (String, &'static str)>) {
    let wrong: Vec<String> = rows
        .filter_map(|(body, expected)| match parse_text(&body) {
            Err(errors) if matches!(errors.as_slice(), [one] if one.contains(expected)) => None,
            result => Some(format!("{body}: {:?} instead of {expected}", result.err())),
        })
        .collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_check_says_its_sentence() {
    assert_each_says(CHECKS.iter().map(|(body, expected)| ((*body).to_owned(), *expected)));
}

#[test]
fn every_level_of_logs_is_taken() {
    for level in LogLevel::KNOWN {
        let config = parse_text(&format!("logging: {{level: {{default: '{level}'}}}}")).unwrap();
        assert_eq!(config.logging.level["default"].as_str(), *level);
    }
}

/// The objects of the service of rate limits, by the words for those of an EdgeProxy.
#[test]
fn objects_that_cannot_be_are_refused_by_name() {
    let deployment = "provider.cluster.rateLimitDeployment";
    let cases = [
        (
            "rateLimitDeployment: {replicas: -1}",
            format!("{deployment}.replicas: replicas must not be negative"),
        ),
        (
            "rateLimitDeployment: {container: {image: 'a:1', imageRepository: b}}",
            format!("{deployment}.container: Either image or imageRepository can be set."),
        ),
        (
            "rateLimitDeployment: {patch: {type: Replace, value: {}}}",
            format!("{deployment}.patch: unsupported deployment patch type Replace"),
        ),
        (
            "rateLimitHpa: {maxReplicas: 0, minReplicas: 0}",
            "rateLimitHpa: minReplicas must be greater than 0; rateLimitHpa: maxReplicas must be greater than 0"
                .to_owned(),
        ),
        (
            "rateLimitHpa: {maxReplicas: 1, minReplicas: 5}",
            "rateLimitHpa: maxReplicas cannot be less than minReplicas".to_owned(),
        ),
        (
            "rateLimitHpa: {maxReplicas: 1, patch: {}}",
            "rateLimitHpa.patch: hpa patch object cannot be empty".to_owned(),
        ),
        (
            "rateLimitPDB: {minAvailable: 1, maxUnavailable: 1}",
            "rateLimitPDB: only one of minAvailable or maxUnavailable can be specified".to_owned(),
        ),
        (
            "rateLimitPDB: {patch: {type: JSONMerge}}",
            "rateLimitPDB.patch: pdb patch object cannot be empty".to_owned(),
        ),
    ];
    for (objects, expected) in cases {
        let errors = parse_text(&format!("provider: {{type: Cluster, cluster: {{{objects}}}}}")).unwrap_err();
        let said: Vec<&str> = expected.split("; ").collect();
        assert_eq!(errors.len(), said.len(), "{objects}: {errors:?}");
        for (error, said) in errors.iter().zip(said) {
            assert!(error.contains(said), "{objects}: {errors:?}");
        }
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let errors = parse_text("gateway: {controllerName: ''}\nprovider: {type: Custom}\nlogin: {}").unwrap_err();
    assert_eq!(errors.len(), 3, "{errors:?}");
}

/// What a service says of itself, what its manager says besides, and a part of what is said of it.
const SERVICES: &[(&str, &str, &str)] = &[
    (
        "",
        "resources: [{group: a.example, version: v1, kind: C}]",
        "extensionManager.resources: nobody would be shown",
    ),
    (
        "",
        "resources: [{group: '', version: v1, kind: C}], hooks: {xdsTranslator: {post: [Route]}}",
        "extensionManager.resources.0.group: \"\" can't be the group",
    ),
    (
        "",
        "resources: [{group: a.example, version: v1, kind: a/b}], hooks: {xdsTranslator: {post: [Route]}}",
        "extensionManager.resources.0.kind: \"a/b\" can't be the kind",
    ),
    (
        "",
        "resources: [{group: gateway.edge, version: v1, kind: Backend}], hooks: {xdsTranslator: {post: [Route]}}",
        "extensionManager.resources.0: Backend is a kind of gateway.edge that is read anyway",
    ),
    (
        "",
        "resources: [{group: a.example, version: v1, kind: C}, {group: a.example, version: v2, kind: C}], hooks: {xdsTranslator: {post: [Route]}}",
        "extensionManager: C of a.example is named at several versions",
    ),
    (
        "",
        "policyResources: [{group: a.example, version: v1, kind: C}], hooks: {xdsTranslator: {post: [Cluster]}}",
        "extensionManager.policyResources: nobody would be shown objects of these kinds: name the hook HTTPListener or Route or Translation",
    ),
    (
        "",
        "backendResources: [{group: a.example, version: v1, kind: C}], hooks: {xdsTranslator: {post: [Route]}}",
        "extensionManager.backendResources: nobody would be shown objects of these kinds: name the hook Cluster or Endpoints",
    ),
    (
        "",
        "backendResources: [{group: '', version: v1, kind: C}], hooks: {xdsTranslator: {post: [Cluster]}}",
        "extensionManager.backendResources.0.group: \"\" can't be the group",
    ),
    (
        "",
        "policyResources: [{group: a.example, version: v1, kind: C}], backendResources: [{group: a.example, version: v1, kind: C}], hooks: {xdsTranslator: {post: [Cluster, Route]}}",
        "extensionManager: C of a.example",
    ),
    (
        "",
        "hooks: {xdsTranslator: {pre: [Route]}}",
        "xdsTranslator.pre: nothing is asked before",
    ),
    (
        "",
        "hooks: {xdsTranslator: {post: [Secret]}}",
        "xdsTranslator.post: Secret is not known",
    ),
    (
        ", tls: {certificateRef: {kind: ConfigMap, name: a}}",
        "",
        "certificateRef: only a Secret",
    ),
    (
        ", retry: {maxAttempts: 0}",
        "",
        "retry.maxAttempts: must be greater than 0",
    ),
    (
        ", retry: {initialBackoff: 0s}",
        "",
        "retry.initialBackoff: must be greater than 0",
    ),
    (
        ", retry: {RetryableStatusCodes: [OK]}",
        "",
        "RetryableStatusCodes: OK is no status code",
    ),
];

#[test]
fn what_an_extension_service_cannot_do_is_refused_by_name() {
    assert_each_says(SERVICES.iter().map(|(service, manager, expected)| {
        let hooks = if manager.contains("hooks") { "" } else { "hooks: {}, " };
        let body = format!("extensionManager: {{{hooks}service: {{host: a{service}}}, {manager}}}");
        (body, *expected)
    }));
}
