//! What a configuration must fulfil beyond its shape.
//!
//! Each check names the field and says its sentence; all of them run, so that a file is mended in one go.

use std::collections::BTreeSet;

use crate::api::edge_proxy::LogLevel;
use crate::api::text::{is_dns_label, is_dns_subdomain};
use crate::api::{DurationText, Kind, LabelSelector, Quantity, SecretRef};
use crate::config::extension::{
    ExtensionManager, ExtensionRetry, ExtensionService, ExtensionTls, GroupVersionKind, XdsHook, custom_kinds,
};
use crate::config::provider::{
    ClusterProvider, CustomProvider, DeployModeType, InfrastructureProvider, InfrastructureProviderType,
    LeaderElection, ProviderType, ResourceProvider, ResourceProviderType, WatchMode, WatchModeType,
};
use crate::config::service::TelemetrySink;
use crate::config::{DEFAULT_CONTROLLER_NAME, EdgeGateway};

mod rate_limit;

/// Takes the path of a field and what is wrong with it.
type Sink<'s> = &'s mut dyn FnMut(&str, &str);

/// Status codes of gRPC, as they are written in resources; OK is none that is tried again.
const GRPC_CODES: &[&str] = &[
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Components that have a log level of their own.
const LOG_COMPONENTS: &[&str] = &[
    "default",
    "provider",
    "gateway-api",
    "xds-translator",
    "xds-server",
    "xds",
    "infrastructure",
    "global-ratelimit",
];

/// Runs every check.
pub fn check(config: &EdgeGateway, fault: Sink<'_>) {
    controller_name(&config.gateway.controller_name, fault);
    provider(config, fault);
    logging(config, fault);
    if let Some(service) = &config.rate_limit {
        rate_limit::check(service, fault);
    }
    extensions(config, fault);
    servers(config, fault);
    let apis = &config.extension_apis;
    if apis.disable_lua.is_some() && apis.disable_lua == apis.enable_lua {
        fault(
            "extensionApis.enableLua",
            "disableLua and enableLua must not have the same value",
        );
    }
}

/// A GatewayClass can only carry a name of this form (Gateway API, `GatewayController`).
fn controller_name(name: &str, fault: Sink<'_>) {
    let path = "gateway.controllerName";
    let is_of_path = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    match name.split_once('/') {
        None if name.is_empty() => fault(path, "gateway controllerName is unspecified"),
        Some((domain, rest))
            if is_dns_subdomain(domain) && !rest.is_empty() && rest.bytes().all(is_of_path) && name.len() <= 253 => {}
        _ => fault(
            path,
            &format!(
                "{path}: no GatewayClass can name {name:?}: use a domain and a path, as {DEFAULT_CONTROLLER_NAME}"
            ),
        ),
    }
}

fn provider(config: &EdgeGateway, fault: Sink<'_>) {
    match (&config.provider.r#type, &config.provider.custom) {
        (ProviderType::Cluster, _) => {
            if let Some(cluster) = &config.provider.cluster {
                check_cluster(cluster, "provider.cluster", fault);
            }
        }
        (ProviderType::Custom, None) => fault("provider", "empty custom provider settings"),
        (ProviderType::Custom, Some(custom)) => check_custom(custom, fault),
        (ProviderType::Other(other), _) => {
            let known = one_of(ProviderType::KNOWN);
            fault(
                "provider.type",
                &format!("unsupported provider type: {other}, should be {known}"),
            );
        }
    }
}

/// The values that there are, for a message.
fn one_of(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|value| format!("'{value}'")).collect();
    quoted.join(" or ")
}

fn check_cluster(cluster: &ClusterProvider, path: &str, fault: Sink<'_>) {
    if let Some(watch) = &cluster.watch {
        check_watch(watch, &format!("{path}.watch"), fault);
    }
    if let mode @ DeployModeType::Other(_) = &cluster.deploy.r#type {
        let path = format!("{path}.deploy.type");
        let message = format!("{path}: {mode} is not known: use ControllerNamespace or GatewayNamespace");
        fault(&path, &message);
    }
    let limit = cluster.client.as_ref().and_then(|client| client.rate_limit.as_ref());
    let numbers = limit.map(|limit| [("qps", limit.qps), ("burst", limit.burst)]);
    for (name, number) in numbers.into_iter().flatten() {
        if number <= 0 {
            let path = format!("{path}.client.rateLimit.{name}");
            fault(&path, &format!("{path}: must be greater than 0"));
        }
    }
    rate_limit::check_objects(cluster, path, fault);
    if let Some(election) = &cluster.leader_election {
        check_election(election, &format!("{path}.leaderElection"), fault);
    }
}

fn check_watch(watch: &WatchMode, path: &str, fault: Sink<'_>) {
    if let Some(message) = watch_fault(watch) {
        fault(path, message);
    }
    for (n, namespace) in watch.namespaces.iter().enumerate() {
        if !is_dns_label(namespace) {
            let path = format!("{path}.namespaces.{n}");
            fault(
                &path,
                &format!("{path}: {namespace:?} can't be the name of a namespace"),
            );
        }
    }
    if let Some(problem) = watch.namespace_selector.as_ref().and_then(LabelSelector::fault) {
        let path = format!("{path}.namespaceSelector");
        fault(&path, &format!("{path}: {problem}"));
    }
}

fn watch_fault(watch: &WatchMode) -> Option<&'static str> {
    const UNKNOWN_MODE: &str = "watch mode invalid, should be 'Namespaces' or 'NamespaceSelector'";
    Some(match &watch.r#type {
        Some(WatchModeType::Namespaces) if watch.namespaces.is_empty() => {
            "namespaces should be specified when watch mode is 'Namespaces'"
        }
        Some(WatchModeType::NamespaceSelector) if watch.namespace_selector.is_none() => {
            "namespaceSelector should be specified when watch mode is 'NamespaceSelector'"
        }
        Some(WatchModeType::Other(_)) => UNKNOWN_MODE,
        // All would be watched, which is the last that whoever names some of them wants.
        None if !watch.namespaces.is_empty() || watch.namespace_selector.is_some() => UNKNOWN_MODE,
        None | Some(WatchModeType::Namespaces | WatchModeType::NamespaceSelector) => return None,
    })
}

/// A leader must have stepped down before another may take its place.
fn check_election(election: &LeaderElection, path: &str, fault: Sink<'_>) {
    let times = election.times();
    for (name, time) in &times {
        positive_duration(&format!("{path}.{name}"), Some(time), fault);
    }
    let [duration, deadline, retry] = &times;
    for ((short, less), (long, more)) in [(deadline, duration), (retry, deadline)] {
        if let (Ok(least), Ok(most)) = (less.parse(), more.parse())
            && least >= most
        {
            let path = format!("{path}.{short}");
            fault(
                &path,
                &format!("{path}: {less} must be less than {long}, which is {more}"),
            );
        }
    }
}

fn check_custom(custom: &CustomProvider, fault: Sink<'_>) {
    check_resource(&custom.resource, fault);
    if let Some(infrastructure) = &custom.infrastructure {
        check_infrastructure(infrastructure, fault);
    }
}

fn check_resource(resource: &ResourceProvider, fault: Sink<'_>) {
    let path = "provider.custom.resource";
    match (&resource.r#type, &resource.file) {
        (ResourceProviderType::File, None) => {
            fault(path, "field 'file' should be specified when resource type is 'File'");
        }
        (ResourceProviderType::File, Some(file)) if file.paths.is_empty() => {
            fault(
                "provider.custom.resource.file",
                "no paths were assigned for file resource provider to watch",
            );
        }
        (ResourceProviderType::File, Some(_)) => {}
        (ResourceProviderType::Cluster, _) => {
            if let Some(cluster) = &resource.cluster {
                check_cluster(cluster, "provider.custom.resource.cluster", fault);
            }
        }
        (ResourceProviderType::Other(other), _) => {
            let known = one_of(ResourceProviderType::KNOWN);
            fault(
                path,
                &format!("unsupported resource provider: {other}, should be {known}"),
            );
        }
    }
}

fn check_infrastructure(infrastructure: &InfrastructureProvider, fault: Sink<'_>) {
    let path = "provider.custom.infrastructure";
    match (&infrastructure.r#type, &infrastructure.host, &infrastructure.remote) {
        (InfrastructureProviderType::Host, None, _) => {
            fault(
                path,
                "field 'host' should be specified when infrastructure type is 'Host'",
            );
        }
        (InfrastructureProviderType::Remote, _, None) => {
            fault(
                path,
                "field 'remote' should be specified when infrastructure type is 'Remote'",
            );
        }
        (InfrastructureProviderType::Remote, _, Some(remote)) => {
            check_service(&remote.service, "provider.custom.infrastructure.remote.service", fault);
        }
        (InfrastructureProviderType::Host, Some(_), _) => {}
        (InfrastructureProviderType::Other(other), ..) => {
            let known = one_of(InfrastructureProviderType::KNOWN);
            fault(
                path,
                &format!("unsupported infrastructure provider: {other}, should be {known}"),
            );
        }
    }
}

fn logging(config: &EdgeGateway, fault: Sink<'_>) {
    for (component, level) in &config.logging.level {
        let path = format!("logging.level.{component}");
        if !LOG_COMPONENTS.contains(&&**component) {
            let known = LOG_COMPONENTS.join(", ");
            fault(&path, &format!("{path}: no such component: use one of {known}"));
        }
        if let LogLevel::Other(_) = level {
            let known = LogLevel::KNOWN.join(", ");
            fault(&path, &format!("{path}: no such level: use one of {known}"));
        }
    }
    if let Some(encoder @ crate::config::LogEncoder::Other(_)) = &config.logging.encoder {
        fault(
            "logging.encoder",
            &format!("logging.encoder: {encoder} is not known: use Text or JSON"),
        );
    }
}

fn extensions(config: &EdgeGateway, fault: Sink<'_>) {
    if config.extension_manager.is_some() && config.extension_managers.is_some() {
        fault(
            "extensionManagers",
            "extensionManager and extensionManagers are mutually exclusive",
        );
    }
    if let Some(manager) = &config.extension_manager {
        check_manager(manager, "extensionManager", fault);
    }
    let several = config.extension_managers.as_deref();
    if several.is_some_and(<[_]>::is_empty) {
        fault(
            "extensionManagers",
            "extensionManagers: at least one is required: leave the field out where there are none",
        );
    }
    let mut names = BTreeSet::new();
    for (index, manager) in several.into_iter().flatten().enumerate() {
        let path = format!("extensionManagers.{index}");
        match manager.name.as_deref() {
            None | Some("") => fault(
                &path,
                &format!("extensionManagers[{index}]: name is required among several"),
            ),
            Some(name) if !names.insert(name) => {
                fault(
                    &format!("{path}.name"),
                    &format!("extensionManagers[{index}]: the name {name} is used twice"),
                );
            }
            Some(_) => {}
        }
        check_manager(manager, &path, fault);
    }
    check_kinds_of_all(config, fault);
}

fn check_manager(manager: &ExtensionManager, path: &str, fault: Sink<'_>) {
    if manager.hooks.is_none() {
        fault(
            path,
            &format!("{path}: hooks are required: say when the extension is called"),
        );
    }
    check_hooks(manager, path, fault);
    check_kinds(manager, path, fault);
    match &manager.service {
        None => fault(
            path,
            &format!("{path}: service is required: say where the extension is"),
        ),
        Some(service) => check_service(service, &format!("{path}.service"), fault),
    }
    positive_size(
        &format!("{path}.maxMessageSize"),
        manager.max_message_size.as_ref(),
        fault,
    );
}

fn check_hooks(manager: &ExtensionManager, path: &str, fault: Sink<'_>) {
    let hooks = manager.hooks.as_ref().and_then(|hooks| hooks.xds_translator.as_ref());
    let Some(hooks) = hooks else { return };
    let path = format!("{path}.hooks.xdsTranslator");
    if !hooks.pre.is_empty() {
        fault(
            &format!("{path}.pre"),
            &format!("{path}.pre: nothing is asked before resources are made; name hooks under post"),
        );
    }
    for hook in &hooks.post {
        if let XdsHook::Other(other) = hook {
            let known = XdsHook::KNOWN.join(", ");
            fault(
                &format!("{path}.post"),
                &format!("{path}.post: {other} is not known; expected one of {known}"),
            );
        }
    }
}

/// Objects of the kinds that a service names are shown to it where it is called: kinds without such a call would be
/// read and shown to nobody, and what they are to keep out would come in.
fn check_kinds(manager: &ExtensionManager, path: &str, fault: Sink<'_>) {
    let hooks = manager.hooks.as_ref().and_then(|hooks| hooks.xds_translator.as_ref());
    let called = hooks.map(|hooks| &*hooks.post).unwrap_or_default();
    let kinds = [
        ("resources", &manager.resources, &[XdsHook::Route][..]),
        (
            "policyResources",
            &manager.policy_resources,
            &[XdsHook::HttpListener, XdsHook::Route, XdsHook::Translation],
        ),
        (
            "backendResources",
            &manager.backend_resources,
            &[XdsHook::Cluster, XdsHook::Endpoints],
        ),
    ];
    for (field, kinds, shown_by) in kinds {
        let path = format!("{path}.{field}");
        if !kinds.is_empty() && !shown_by.iter().any(|hook| called.contains(hook)) {
            let names: Vec<&str> = shown_by.iter().map(XdsHook::as_str).collect();
            let names = names.join(" or ");
            fault(
                &path,
                &format!("{path}: nobody would be shown objects of these kinds: name the hook {names} under post"),
            );
        }
        for (n, named) in kinds.iter().enumerate() {
            check_kind(named, &format!("{path}.{n}"), fault);
        }
    }
}

fn check_kind(named: &GroupVersionKind, path: &str, fault: Sink<'_>) {
    let fields = [
        ("group", &named.group, is_dns_subdomain as fn(&str) -> bool),
        ("version", &named.version, is_dns_label),
        ("kind", &named.kind, is_word),
    ];
    for (field, text, is_valid) in fields {
        if !is_valid(text) {
            fault(
                &format!("{path}.{field}"),
                &format!("{path}.{field}: {text:?} can't be the {field} of a kind of yours"),
            );
        }
    }
    if Kind::of(&named.group, &named.kind).is_some() {
        let known = format!(
            "{path}: {} is a kind of {} that is read anyway",
            named.kind, named.group
        );
        fault(path, &known);
    }
}

/// Letters and digits.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Each kind at one version, in one role: objects are read once, and what they are to do must not depend on who asks.
fn check_kinds_of_all(config: &EdgeGateway, fault: Sink<'_>) {
    let kinds = custom_kinds(config.extensions());
    for pair in kinds.windows(2).filter(|pair| {
        let [a, b] = pair else { return false };
        (&a.group, &a.kind) == (&b.group, &b.kind)
    }) {
        let path = match config.extension_manager {
            Some(_) => "extensionManager",
            None => "extensionManagers",
        };
        let (group, kind) = (&pair[0].group, &pair[0].kind);
        fault(
            path,
            &format!("{path}: {kind} of {group} is named at several versions or for several purposes: name it once"),
        );
    }
}

fn check_tls(tls: &ExtensionTls, path: &str, fault: Sink<'_>) {
    let refs = [
        ("certificateRef", Some(&tls.certificate_ref)),
        ("clientCertificateRef", tls.client_certificate_ref.as_ref()),
    ];
    for (field, reference) in refs {
        if let Some(reference) = reference {
            names_secret(reference, &format!("{path}.{field}"), fault);
        }
    }
}

fn names_secret(reference: &SecretRef, path: &str, fault: Sink<'_>) {
    if &*reference.kind != "Secret" || !reference.group.is_empty() {
        fault(path, &format!("{path}: only a Secret can be named"));
    }
}

fn check_retry(retry: &ExtensionRetry, path: &str, fault: Sink<'_>) {
    if retry.max_attempts.is_some_and(|attempts| attempts < 1) {
        fault(
            &format!("{path}.maxAttempts"),
            &format!("{path}.maxAttempts: must be greater than 0"),
        );
    }
    positive_duration(&format!("{path}.initialBackoff"), retry.initial_backoff.as_ref(), fault);
    positive_duration(&format!("{path}.maxBackoff"), retry.max_backoff.as_ref(), fault);
    let codes = retry.retryable_status_codes.iter();
    for code in codes.filter(|code| !GRPC_CODES.contains(&&***code)) {
        fault(
            &format!("{path}.RetryableStatusCodes"),
            &format!("{path}.RetryableStatusCodes: {code} is no status code of gRPC"),
        );
    }
}

fn check_service(service: &ExtensionService, path: &str, fault: Sink<'_>) {
    if let Some(tls) = &service.tls {
        check_tls(tls, &format!("{path}.tls"), fault);
    }
    if let Some(retry) = &service.retry {
        check_retry(retry, &format!("{path}.retry"), fault);
    }
    let targets = [
        service.fqdn.is_some(),
        service.ip.is_some(),
        service.unix.is_some(),
        service.host.is_some(),
    ];
    if targets.iter().filter(|set| **set).count() != 1 {
        fault(
            path,
            &format!("{path}: exactly one of fqdn, ip, unix and host must be set"),
        );
    }
}

fn servers(config: &EdgeGateway, fault: Sink<'_>) {
    if let Some(server) = &config.xds_server {
        positive_duration("xdsServer.maxConnectionAge", server.max_connection_age.as_ref(), fault);
        positive_duration(
            "xdsServer.maxConnectionAgeGrace",
            server.max_connection_age_grace.as_ref(),
            fault,
        );
        positive_size(
            "xdsServer.maxReceiveMessageSize",
            server.max_receive_message_size.as_ref(),
            fault,
        );
    }
    let Some(telemetry) = &config.telemetry else { return };
    for (index, sink) in telemetry
        .metrics
        .iter()
        .flat_map(|metrics| metrics.sinks.iter().enumerate())
    {
        check_sink(sink, &format!("telemetry.metrics.sinks.{index}"), fault);
    }
    if let Some(sink) = telemetry.traces.as_ref().and_then(|traces| traces.sink.as_ref()) {
        check_sink(sink, "telemetry.traces.sink", fault);
    }
}

fn check_sink(sink: &TelemetrySink, path: &str, fault: Sink<'_>) {
    match &sink.open_telemetry {
        None => fault(path, &format!("{path}: openTelemetry is required")),
        Some(collector) if !matches!(&*collector.protocol, "grpc" | "http") => {
            let path = format!("{path}.openTelemetry.protocol");
            fault(
                &path,
                &format!("{path}: {} is not known: use grpc or http", collector.protocol),
            );
        }
        Some(_) => {}
    }
}

fn positive_duration(path: &str, duration: Option<&DurationText>, fault: Sink<'_>) {
    match duration.map(DurationText::parse) {
        Some(Err(error)) => fault(path, &format!("{path}: {error}")),
        Some(Ok(duration)) if duration.is_zero() => fault(path, &format!("{path}: must be greater than 0")),
        _ => {}
    }
}

fn positive_size(path: &str, size: Option<&Quantity>, fault: Sink<'_>) {
    match size.map(Quantity::parse) {
        Some(Err(error)) => fault(path, &format!("{path}: {error}")),
        Some(Ok(0)) => fault(path, &format!("{path}: must be greater than 0")),
        _ => {}
    }
}
