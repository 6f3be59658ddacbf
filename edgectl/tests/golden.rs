//! Golden cases: `golden/<topic>/<case>/input.yaml` and what becomes of it.
//!
//! `status.yaml` has what is wrong with the text and the status of every object, `ir.yaml` the intermediate
//! representation, `xds.yaml` what a proxy is sent. The first line of an input names the rule that the case pins.
//! `EDGE_UPDATE=1 cargo test -p edgectl --test golden` (or `cargo xtask golden`) writes the outputs anew: read the
//! difference as you would read code. Files that belong to no case are an error.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

use edge_ir::{Fleet, JsonPatchOperation, Origin, Patch};
use edge_translate::{
    Answers, Feature, Settings,
    api::{ObjectKey, Timestamp},
    config::parse,
    load::Source,
    status::StatusBody,
};
use edge_xds::{dump::DumpKind, limits::Domains, lower::Lowering, snapshot::ResourceType};
use edgectl::{
    cli::OutputFormat,
    translate::{
        Options, Outcome,
        input::Text,
        show::{self, Dumps},
        translate,
    },
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, panic,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One test for each topic, so that a failure says where; and one that finds topics without a test.
macro_rules! topics {
    ($($test:ident $folder:literal,)+) => {
        $(#[test] fn $test() { check_topic($folder) })+
        const TOPICS: &[&str] = &[$($folder),+];
    };
}

topics! {
    attachment "attach",
    backends "backend",
    backend_tls "backend-tls",
    backend_traffic "backend-traffic",
    bootstraps "bootstrap",
    certificates "certificate",
    classes "class",
    client_traffic "client-traffic",
    client_validation "client-validation",
    conflicts "conflict",
    cors_filters "cors",
    credentials "credential",
    custom_backends "custom-backend",
    endpoints "endpoint",
    extensions "extension",
    extension_services "extension-service",
    filters "filter",
    gateways "gateway",
    calls "grpc",
    hostnames "hostname",
    inadmissible "inadmissible",
    inputs "input",
    isolation "isolation",
    listener_sets "listener-set",
    listeners "listener",
    matches "match",
    patches "patch",
    policies "policy",
    precedence "precedence",
    retries "retry",
    route_filters "route-filter",
    secret_servers "secret-server",
    security "security",
    security_policies "security-policy",
    sessions "session",
    streams "stream",
    telemetry "telemetry",
    timeouts "timeout",
    tls_routes "tls",
    traffic_filters "traffic-filter",
    unsupported "unsupported",
}

const OUTPUTS: [&str; 3] = ["ir.yaml", "status.yaml", "xds.yaml"];

#[test]
fn every_topic_has_a_test() {
    let found: BTreeSet<String> = entries(&root()).iter().map(|path| name(path)).collect();
    assert_eq!(
        found,
        TOPICS.iter().map(|t| (*t).to_owned()).collect(),
        "a folder of golden/ and its test"
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn check_topic(topic: &str) {
    let cases = entries(&root().join(topic));
    assert!(!cases.is_empty(), "golden/{topic} holds no case");
    let failures: Vec<String> = cases.iter().flat_map(|case| check_case(topic, case)).collect();
    assert!(
        failures.is_empty(),
        "\n{}\nIf this is meant: cargo xtask golden",
        failures.join("\n")
    );
}

/// What is wrong with a case.
fn check_case(topic: &str, folder: &Path) -> Vec<String> {
    let case = format!("golden/{topic}/{}", name(folder));
    let strays = entries(folder).into_iter().map(|path| name(&path));
    let strays: Vec<_> = strays
        .filter(|f| f != "input.yaml" && !OUTPUTS.contains(&f.as_str()))
        .collect();
    if !strays.is_empty() {
        return vec![format!("{case}: stray files {strays:?}")];
    }
    let Ok(text) = fs::read_to_string(folder.join("input.yaml")) else {
        return vec![format!("{case}: no input.yaml")];
    };
    if !text.starts_with("# ") {
        return vec![format!("{case}: the first line must name the rule, as a comment")];
    }
    // A case that panics must not hide the others.
    let outputs = panic::catch_unwind(|| {
        let outcome = translated(text);
        (refused_values(&case, &outcome), outputs(topic, &outcome))
    });
    let Ok((mut failures, outputs)) = outputs else {
        return vec![format!("{case}: translation panicked")];
    };
    let outputs = outputs.into_iter();
    failures.extend(outputs.filter_map(|(file, found)| compare(&case, &folder.join(file), &found)));
    failures
}

/// What is wrong with values that we make ourselves. What patches make is judged by the rules of Envoy's messages, and
/// what was there before mustn't be what they fail for: so each resource takes a patch that only adds something
/// harmless.
fn refused_values(case: &str, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    for (key, snapshot) in &outcome.snapshots {
        let fleet = &*outcome.translation.fleets[key];
        // Patches of the case itself may take away what others need.
        if !fleet.patches.is_empty() {
            continue;
        }
        let of_kind = |kind: ResourceType| {
            let entries = snapshot.section(kind).entries().iter();
            entries.filter_map(move |entry| harmless(kind, &entry.name))
        };
        let fleet = Fleet {
            patches: Arc::new(ResourceType::ALL.into_iter().flat_map(of_kind).collect()),
            ..fleet.clone()
        };
        let mut lowering = Lowering::new();
        lowering.lower(&fleet);
        failures.extend(lowering.failures().iter().map(|failure| format!("{case}: {failure:?}")));
    }
    failures
}

/// A patch that changes a resource and nothing that matters; there is none for a secret.
fn harmless(kind: ResourceType, name: &str) -> Option<Patch> {
    let (path, value) = match kind {
        ResourceType::Cluster => ("/alt_stat_name", "\"patched\""),
        ResourceType::Listener => ("/stat_prefix", "\"patched\""),
        ResourceType::Routes => ("/ignore_port_in_host_matching", "true"),
        ResourceType::Endpoints => ("/policy", r#"{"weighted_priority_health": true}"#),
        ResourceType::Secret => return None,
    };
    Some(Patch {
        origin: Origin {
            kind: "EdgePatchPolicy".into(),
            namespace: "default".into(),
            name: "harmless".into(),
            section: None,
            annotations: Arc::default(),
        },
        index: 0,
        type_url: kind.type_url().into(),
        name: name.into(),
        operation: JsonPatchOperation {
            op: "add".into(),
            path: Some(path.into()),
            json_path: None,
            from: None,
            value: Some(value.into()),
        },
    })
}

/// The time that a case is judged by, if its text says `# now: 2030-01-01T00:00:00Z` before the first object.
fn now(text: &str) -> Option<Timestamp> {
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    let time = comments.find_map(|line| line.strip_prefix("# now: "))?;
    Some(Timestamp::parse(time).unwrap_or_else(|| panic!("{time} is not a time")))
}

/// What stands at URLs and in images, as the text says it before the first object: `# document: URL TEXT`.
fn documents(text: &str) -> Answers {
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    let documents = comments.filter_map(|line| line.strip_prefix("# document: ")?.split_once(' '));
    let mut answers = Answers::default();
    documents.for_each(|(url, text)| answers.put(url, text.as_bytes()));
    answers
}

/// The settings of a case: the usual ones, and what its text says before the first object of a controller's
/// configuration: `# extensionManager: { resources: [...], ... }`, of services and the kinds that they know, and
/// `# extensionApis: { enableSDSSecretRef: true }`.
fn settings(text: &str) -> Settings {
    let usual = Options::default().settings;
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    let fields = comments.filter_map(|line| line.strip_prefix("# "));
    let fields: Vec<&str> = fields
        .filter(|line| line.starts_with("extensionManager: ") || line.starts_with("extensionApis: "))
        .collect();
    if fields.is_empty() {
        return usual;
    }
    let fields = fields.join("\n");
    let config = format!("apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\n{fields}\n");
    let source = Source {
        name: "config",
        text: &config,
    };
    let config = parse(&source).unwrap_or_else(|faults| panic!("{faults:?}"));
    Settings {
        extensions: config.extensions().cloned().collect(),
        sds_api: Feature::when(config.extension_apis.enable_sds_secret_ref),
        ..usual
    }
}

fn translated(text: String) -> Outcome {
    let options = Options {
        settings: settings(&text),
        now: now(&text),
        answers: documents(&text),
        ..Options::default()
    };
    let texts = [Text {
        name: "input.yaml".to_owned(),
        text,
    }];
    translate(&texts, &options)
}

fn outputs(topic: &str, outcome: &Outcome) -> [(&'static str, String); 3] {
    let ir = Ir {
        fleets: show::fleets(outcome),
        infra: show::infra(outcome),
        limits: show::limits(outcome),
    };
    [
        ("ir.yaml", yaml(&ir)),
        ("status.yaml", yaml(&statuses(topic, outcome))),
        ("xds.yaml", xds(topic, outcome)),
    ]
}

/// The parts of xDS that a topic is about; a default bootstrap or an untouched listener in every case would only hide
/// what matters.
fn xds(topic: &str, outcome: &Outcome) -> String {
    let parts = match topic {
        "bootstrap" => &[DumpKind::Bootstrap][..],
        "certificate" | "class" | "client-traffic" | "client-validation" | "conflict" | "credential" | "gateway"
        | "isolation" | "listener" | "session" | "stream" | "traffic-filter" => &[DumpKind::Listener, DumpKind::Route],
        "extension" | "extension-service" | "secret-server" | "security" => {
            &[DumpKind::Listener, DumpKind::Cluster, DumpKind::Route]
        }
        "telemetry" => &[DumpKind::Endpoint, DumpKind::Listener, DumpKind::Cluster],
        _ => &[DumpKind::Endpoint, DumpKind::Cluster, DumpKind::Route],
    };
    let dumps: Vec<_> = parts.iter().map(|part| Dumps::new(outcome, *part).unwrap()).collect();
    yaml(&dumps)
}

/// What `--to ir` shows.
#[derive(Serialize)]
struct Ir<F, I> {
    #[serde(rename = "xdsIR")]
    fleets: F,
    #[serde(rename = "infraIR")]
    infra: I,
    #[serde(rename = "rateLimits", skip_serializing_if = "Domains::is_empty")]
    limits: Domains,
}

/// Statuses without the objects around them.
#[derive(Serialize)]
struct Statuses {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
    statuses: BTreeMap<String, Option<Value>>,
}

fn statuses(topic: &str, outcome: &Outcome) -> Statuses {
    let existing = |key: &ObjectKey| {
        let object = outcome.objects.iter().find(|o| o.object.key() == *key)?;
        object.object.to_value().unwrap().get("status").cloned()
    };
    let shown = outcome.translation.statuses.iter().map(|(key, status)| {
        let mut status = status
            .as_ref()
            .filter(|status| !matches!(status.body, StatusBody::Unattached(_)))
            .map(|status| show::status_of(existing(key).as_ref(), status));
        // The same long list in every case would only hide what matters.
        if let Some(Value::Object(fields)) = status.as_mut().filter(|_| topic != "class") {
            fields.remove("supportedFeatures");
        }
        (key.to_string(), status)
    });
    Statuses {
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
        statuses: shown.collect(),
    }
}

fn yaml(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    show::write_value(value, OutputFormat::Yaml, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares with the file, or writes it when asked to.
fn compare(case: &str, path: &Path, found: &str) -> Option<String> {
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == found {
        return None;
    }
    if std::env::var_os("EDGE_UPDATE").is_some() {
        fs::write(path, found).unwrap();
        return None;
    }
    let line = expected.lines().zip(found.lines()).position(|(e, f)| e != f);
    let line = line.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    Some(format!(
        "{case}/{}:{}:\n  expected {}\n  found    {}",
        name(path),
        line + 1,
        at(&expected),
        at(found)
    ))
}
