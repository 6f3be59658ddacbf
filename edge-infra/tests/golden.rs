//! Golden cases: `golden/<topic>/<case>/input.yaml`, a Gateway and an EdgeProxy as a user writes them, and the objects
//! that follow. Those of topic `rate-limit` are configuration files of a controller, and the objects those around the
//! service of rate limits.
//!
//! `golden/plain/*` has all objects of a fleet, or of the service, that nobody customised, in `objects.yaml`. Every
//! other case has, in `changes.yaml`, what a setting changes of them: for each kind the operations (RFC 6902) that lead
//! from the plain object to this one, a new object as a whole, or the message with which the EdgeProxy is refused.
//! `EDGE_UPDATE=1 cargo test -p edge-infra --test golden` writes the outputs anew; files of no case are an error.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test reads its cases and stops where it stands"
)]

use edge_infra::{Installation, Object, REVISION, StartFiles, check, rate_limit, render};
use edge_ir::{Infra, Owner, POD_ZONE, Placement};
use edge_translate::{
    Change, Settings, Translator,
    api::{Kind, ObjectKey},
    config::parse,
    load::{Limits, Source, load},
    rate_limit_infra,
    status::StatusBody,
};
use edge_xds::bootstrap::{self, ClusterPlace, for_cluster};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The topic whose cases run where the Gateway is.
const GATEWAY_NAMESPACE: &str = "gateway-namespace";
/// The topic whose cases are about the service of rate limits.
const RATE_LIMIT: &str = "rate-limit";
/// The topic of what nobody customised.
const PLAIN: &str = "plain";
/// Stands for the bootstrap in arguments. It is shown as a document of its own.
const BOOTSTRAP: &str = "(the bootstrap)";

#[test]
fn objects_are_as_the_cases_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut known = BTreeSet::new();
    let mut failures = Vec::new();
    for topic in entries(&root) {
        for case in entries(&topic) {
            let input = case.join("input.yaml");
            let subject = subject(&topic, &case);
            let outcome = outcome(&input, subject);
            let (file, shown) = match name(&topic) == PLAIN {
                true => ("objects.yaml", outcome),
                false => ("changes.yaml", changes(plain(&root, subject), outcome)),
            };
            let output = case.join(file);
            let text = serde_yaml::to_string(&shown).unwrap();
            match env::var_os("EDGE_UPDATE") {
                Some(_) => fs::write(&output, text).unwrap(),
                None if fs::read_to_string(&output).ok().as_deref() == Some(&text) => {}
                None => failures.push(format!("{} differs:\n{text}", output.display())),
            }
            known.extend([input, output]);
        }
    }
    let files = entries(&root).into_iter().flat_map(|topic| entries(&topic));
    let stray: Vec<_> = files
        .flat_map(|case| entries(&case))
        .filter(|file| !known.contains(file))
        .collect();
    assert!(stray.is_empty(), "files that belong to no case: {stray:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What objects are made around.
#[derive(Clone, Copy)]
enum Subject {
    Fleet(Placement),
    RateLimit,
}

/// Objects by their kind, the bootstrap, or why the EdgeProxy is refused.
fn outcome(input: &Path, subject: Subject) -> Map<String, Value> {
    let Subject::Fleet(placement) = subject else {
        return objects_of_service(input);
    };
    match infra(input, placement) {
        Ok(infra) => objects(&infra),
        Err(problem) => Map::from_iter([("refused".to_owned(), problem.into())]),
    }
}

fn infra(input: &Path, placement: Placement) -> Result<Arc<Infra>, String> {
    let text = fs::read_to_string(input).unwrap();
    let mut translator = Translator::new(Settings {
        placement,
        check_bootstrap: Some(bootstrap::check),
        ..Settings::default().with_object_check(check)
    });
    let loaded = load(
        &Source {
            name: "input.yaml",
            text: &text,
        },
        &Limits::default(),
    );
    assert_eq!(loaded.findings, [], "{}", input.display());
    for object in loaded.objects {
        translator.apply(Change::Put(object.object));
    }
    let translation = translator.translate();
    translation.infra.values().next().cloned().ok_or_else(|| {
        let status = &translator.statuses()[&ObjectKey::new(Kind::GatewayClass, "", "edge")];
        let StatusBody::Class(class) = &status.body else {
            panic!("{status:?}");
        };
        class.conditions[0].message.to_string()
    })
}

fn objects_of_service(input: &Path) -> Map<String, Value> {
    let text = fs::read_to_string(input).unwrap();
    let source = Source {
        name: "input.yaml",
        text: &text,
    };
    let service = rate_limit_infra(&parse(&source).unwrap()).unwrap();
    let infra = rate_limit::infra(&service, &installation());
    match rate_limit::render(&service, &infra, &installation()) {
        Ok(rendered) => rendered.into_iter().map(by_kind).collect(),
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Map::from_iter([("refused".to_owned(), errors.join("; ").into())])
        }
    }
}

#[test]
fn nothing_is_owned_by_a_class_alone() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plain/controller-namespace/input.yaml");
    let infra = infra(&input, Placement::Controller).unwrap();
    let elsewhere = Installation {
        controller: None,
        ..installation()
    };
    for object in render(&infra, &elsewhere, &StartFiles::default()).unwrap() {
        assert_eq!(
            object.body["metadata"].get("ownerReferences"),
            None,
            "{:?}",
            object.kind
        );
    }
}

fn installation() -> Installation {
    Installation {
        controller_name: "gateway.edge/gatewayclass-controller".into(),
        controller_namespace: "edge-gateway-system".into(),
        dns_domain: "cluster.local".into(),
        proxy_image: "registry.example:5000/edge-proxy:v1".to_owned(),
        shutdown_manager_image: "registry.example:5000/edge-gateway:v1".to_owned(),
        image_pull_policy: "IfNotPresent".to_owned(),
        image_pull_secrets: Vec::new(),
        authorities: "(certificates)".to_owned(),
        controller: Some(Owner {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "edge-gateway".into(),
            uid: "0".into(),
        }),
    }
}

fn objects(infra: &Infra) -> Map<String, Value> {
    let installation = installation();
    let place = ClusterPlace {
        controller_namespace: &installation.controller_namespace,
        dns_domain: &installation.dns_domain,
        zone: Some(POD_ZONE),
    };
    let start = for_cluster(infra, &place).unwrap();
    let files = StartFiles {
        bootstrap: BOOTSTRAP.to_owned(),
        trusted_ca: start.trusted_ca,
        certificate: start.certificate,
        token: start.token,
        admin_port: start.admin_port,
    };
    let rendered = render(infra, &installation, &files).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut shown: Map<String, Value> = rendered.into_iter().map(by_kind).collect();
    shown.insert("bootstrap".to_owned(), serde_json::from_str(&start.bootstrap).unwrap());
    shown
}

/// An object without the mark of its content, which would differ wherever anything does.
fn by_kind(mut object: Object) -> (String, Value) {
    let mark = object.body["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(REVISION);
    assert!(mark.is_some());
    assert_eq!(object.body["metadata"]["name"], *object.name);
    assert_eq!(object.body["metadata"]["namespace"], *object.namespace);
    (object.kind.as_str().to_owned(), object.body)
}

/// What leads from the plain objects to these.
fn changes(mut plain: Map<String, Value>, outcome: Map<String, Value>) -> Map<String, Value> {
    let mut changes = Map::new();
    let refused = outcome.contains_key("refused");
    for (kind, object) in outcome {
        match plain.remove(&kind) {
            Some(before) if before == object => {}
            Some(before) => {
                let operations = json!(json_patch::diff(&before, &object));
                changes.insert(kind, operations);
            }
            None => drop(changes.insert(kind, object)),
        }
    }
    let gone = plain.into_iter().filter(|_| !refused);
    changes.extend(gone.map(|(kind, _)| (kind, "gone".into())));
    changes
}

fn plain(root: &Path, subject: Subject) -> Map<String, Value> {
    let case = match subject {
        Subject::Fleet(Placement::Controller) => "controller-namespace",
        Subject::Fleet(Placement::Gateway) => GATEWAY_NAMESPACE,
        Subject::RateLimit => RATE_LIMIT,
    };
    outcome(&root.join(PLAIN).join(case).join("input.yaml"), subject)
}

/// By the topic, or, of what is plain, by the case.
fn subject(topic: &Path, case: &Path) -> Subject {
    let is = |what: &str| [topic, case].into_iter().any(|path| name(path) == what);
    match (is(GATEWAY_NAMESPACE), is(RATE_LIMIT)) {
        (true, _) => Subject::Fleet(Placement::Gateway),
        (_, true) => Subject::RateLimit,
        (false, false) => Subject::Fleet(Placement::Controller),
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}
