//! Texts that people and clusters write: resources, the controller's own file, certificates.

use bolero::check;
use edge_translate::{
    config,
    load::{Limits, Loaded, Raw, Severity, Source, from_value, load},
};
use fuzz::{Edit, Edited, WORLD, translate};
use serde_json::Value;

const ROUTE: &str = r#"apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: "backend"   # a comment
  annotations:
    gateway.edge/note: |
      two
      lines
    other: 'it''s'
spec:
  parentRefs:
  - name: eg
  hostnames: ["www.example.com", '*.example.org']
  rules:
    - backendRefs:
      - {group: "", kind: Service, name: backend, port: 3000, weight: 1}
      matches:
      -   path:
            type: PathPrefix
            value: /
"#;

const JSON: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "\u0041\n", "b": "", "n": "1"}},
  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 8.1e1}]}}
]}
"#;

const ALIASES: &str = "apiVersion: v1
kind: ConfigMap
metadata: &m {name: a, labels: {x: y}}
data:
  one: &one >-
    folded
    text
  two: *one
  three: \"with \\x41 and
    two lines\"
";

const SEEDS: &[&str] = &[ROUTE, JSON, ALIASES, WORLD];

/// Loading is total, places are in the text, and what is loaded can be written and read again.
#[test]
fn loading() {
    check!()
        .with_iterations(3000)
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(choice, edits)| {
            is_sound(&Edited::new(SEEDS, *choice, edits).0);
        });
}

fn is_sound(text: &str) {
    let loaded = loaded(text);
    let lines = text.split('\n').count();
    for finding in &loaded.findings {
        assert!(
            (1..=lines + 1).contains(&finding.line) && finding.column > 0,
            "{finding} in\n{text}"
        );
    }
    for loaded in &loaded.objects {
        assert!((1..=lines).contains(&loaded.line), "line {} of\n{text}", loaded.line);
        let value = loaded.object.to_value().unwrap();
        let (again, _) = from_value(&value).unwrap_or_else(|w| panic!("{}: {value}", w.message));
        assert_eq!(again, loaded.object, "written and read again, from\n{text}");
    }
}

fn loaded(text: &str) -> Loaded {
    let limits = Limits {
        raw: Raw::Keep,
        ..Limits::default()
    };
    load(&Source { name: "-", text }, &limits)
}

/// Whatever reader was used, a document means what YAML says it means.
#[test]
fn loading_agrees_with_a_general_parser() {
    check!()
        .with_iterations(3000)
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(choice, edits)| {
            means_the_same(&Edited::new(&[ROUTE, JSON, ALIASES], *choice, edits).0);
        });
}

fn means_the_same(text: &str) {
    let loaded = loaded(text);
    let is_sound = loaded.findings.iter().all(|f| f.severity == Severity::Warning);
    let [only] = &*loaded.objects else { return };
    let Some(raw) = &only.raw else { return };
    if !is_sound || text.contains("---") || text.contains("...") || has_leading_zeros(text) {
        return;
    }
    // A list is compared by its only item.
    let Ok(value) = serde_yaml::from_str::<Value>(text) else {
        return;
    };
    let value = match value.get("items").and_then(Value::as_array).map(Vec::as_slice) {
        Some([item]) => item.clone(),
        Some(_) => return,
        None => value,
    };
    assert_eq!(normal(raw), normal(&value), "of\n{text}");
}

/// Any text: loading is total and sound, means what YAML says, and what is loaded can be translated.
#[test]
fn resources() {
    check!().with_iterations(2000).for_each(|bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            is_sound(text);
            means_the_same(text);
            assert_eq!(translate(text).faults, [], "of\n{text}");
        }
    });
}

/// `0777`, as a number or as a key, is octal in YAML 1.1, as kubectl reads it, and isn't in YAML 1.2: there the other
/// parser is no judge. (A table beside the loader pins what we make of them.)
fn has_leading_zeros(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let starts_word = |at: usize| at == 0 || !is_word(&bytes[at - 1]);
    let is_zero = |at: usize| bytes[at] == b'0' && bytes.get(at + 1).is_some_and(is_word);
    (0..bytes.len()).any(|at| starts_word(at) && is_zero(at))
}

/// JSON knows one kind of number: `8.1e1` is 81, and `-0` is 0.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            // Adding zero makes -0 zero (IEEE 754 §6.3).
            number
                .as_f64()
                .map_or(Value::Null, |float| format!("{:?}", float + 0.0).into())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (normal_key(key), normal(value)))
            .collect(),
        other => other.clone(),
    }
}

/// A plain key that is a number or a word of YAML 1.1 becomes the text of its value for kubectl and us (`y: 1` is
/// `"true": 1`), and stays as it stands for the other parser.
fn normal_key(key: &str) -> String {
    match key.to_ascii_lowercase().as_str() {
        "y" | "yes" | "on" | "true" => "true".to_owned(),
        "n" | "no" | "off" | "false" => "false".to_owned(),
        "" | "~" | "null" => "null".to_owned(),
        other => match other.replace('_', "").parse::<f64>() {
            Ok(number) => format!("{:?}", number + 0.0),
            Err(_) => key.to_owned(),
        },
    }
}

/// Bounds hold: what is too much is refused with a word, whatever it is.
#[test]
fn loading_within_small_bounds() {
    let limits = Limits {
        bytes: 4000,
        documents: 3,
        nodes: 60,
        depth: 6,
        aliases: 2,
        ..Limits::default()
    };
    check!()
        .with_iterations(1000)
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(choice, edits)| {
            let Edited(text) = Edited::new(SEEDS, *choice, edits);
            let loaded = load(&Source { name: "-", text: &text }, &limits);
            let n_documents = loaded.objects.len();
            assert!(text.len() <= limits.bytes || n_documents == 0);
        });
}

const CONFIG: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
gateway: {controllerName: gateway.edge/gatewayclass-controller}
logging: {level: {default: info}}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [/tmp/x]}}
    infrastructure: {type: Host, host: {}}
extensionApis: {enableBackend: true}
";

/// So is reading the controller's own file.
#[test]
fn configuration() {
    check!()
        .with_iterations(2000)
        .with_type::<Vec<Edit>>()
        .for_each(|edits| {
            let Edited(text) = Edited::new(&[CONFIG], 0, edits);
            if let Err(findings) = config::parse(&Source {
                name: "edge.yaml",
                text: &text,
            }) {
                assert!(!findings.is_empty(), "refused without a word:\n{text}");
            }
        });
}

/// Certificates and keys are read without a fall, and a broken one serves nobody.
#[test]
fn certificates() {
    let documents: Vec<&str> = WORLD.split("---\n").collect();
    let secret = documents.iter().find(|d| d.contains("kind: Secret")).unwrap();
    let rest: Vec<&str> = documents.iter().copied().filter(|d| d != secret).collect();
    let rest = rest.join("---\n");
    check!()
        .with_iterations(600)
        .with_type::<Vec<Edit>>()
        .for_each(|edits| {
            let Edited(secret) = Edited::new(&[secret], 0, edits);
            let translation = translate(&format!("{rest}---\n{secret}"));
            for fleet in translation.fleets.values() {
                let chains = fleet.listeners.iter().flat_map(|l| l.chains.iter());
                let named: Vec<_> = chains
                    .filter_map(|c| c.tls.as_ref())
                    .flat_map(|t| &t.certificates)
                    .collect();
                assert!(
                    named
                        .iter()
                        .all(|name| fleet.secrets.iter().any(|s| Some(&s.name) == name.of_fleet()))
                );
            }
        });
}
