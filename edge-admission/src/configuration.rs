//! What a controller's configuration file says in the words of an EdgeProxy: all of one in `edgeProxy`, and what the
//! service of rate limits runs as. No API server sees the file, so that what it would refuse of an EdgeProxy must be
//! refused here.

use crate::{
    definition::{Catalogue, Channel},
    path::Path,
    refusal::Refusal,
    text::place,
};
use edge_translate::{
    config::{EdgeGateway, Remarks, parse_and_judge},
    load::{
        Limits, LoadFinding, Severity, Source,
        tree::{Tree, trees},
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A field of the file, and the one of an EdgeProxy that is like it.
struct Part {
    here: &'static [&'static str],
    there: &'static [&'static str],
}

const OWN: [Part; 1] = [Part {
    here: &["edgeProxy"],
    there: &["spec"],
}];

const RATE_LIMITS: [Part; 3] = [
    Part {
        here: &["provider", "cluster", "rateLimitDeployment"],
        there: &["spec", "provider", "cluster", "envoyDeployment"],
    },
    Part {
        here: &["provider", "cluster", "rateLimitHpa"],
        there: &["spec", "provider", "cluster", "envoyHpa"],
    },
    Part {
        here: &["provider", "cluster", "rateLimitPDB"],
        there: &["spec", "provider", "cluster", "envoyPDB"],
    },
];

/// Reads a configuration file as the controller does, or says everything that is wrong with it: what it can't hold, and
/// what an API server would refuse if it stood in an EdgeProxy. `remarks` are those of whoever runs by it.
///
/// # Errors
/// Everything that is wrong, each with its place. A file that says nothing is no configuration: whoever saves by
/// truncating first is about to write, and nobody means the defaults by that.
pub fn configuration(
    source: &Source<'_>,
    remarks: Remarks,
) -> Result<(EdgeGateway, Vec<LoadFinding>), Vec<LoadFinding>> {
    let read = parse_and_judge(source, remarks)?;
    let (trees, _) = trees(source, &Limits::default());
    let Some(tree) = trees.first() else {
        return Err(vec![LoadFinding {
            severity: Severity::Error,
            file: Arc::from(source.name),
            line: 1,
            column: 1,
            object: None,
            message: "the file is empty: it must hold a configuration of kind EdgeGateway".to_owned(),
        }]);
    };
    let refused = refused(source, tree);
    if refused.is_empty() { Ok(read) } else { Err(refused) }
}

fn refused(source: &Source<'_>, tree: &Tree<'_>) -> Vec<LoadFinding> {
    let file = tree.value();
    let parts = [&OWN[..], &RATE_LIMITS];
    parts
        .into_iter()
        .flat_map(|parts| judge(&file, parts))
        .map(|refusal| finding(source, tree, &refusal))
        .collect()
}

/// Judges an EdgeProxy with these parts, if the file has any of them.
fn judge(file: &Value, parts: &[Part]) -> Vec<Refusal> {
    let mut proxy = json!({
        "apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeProxy", "metadata": {"name": "configuration"},
        "spec": {"provider": {"type": "Cluster", "cluster": {}}},
    });
    let written = |part: &Part| {
        let found = part.here.iter().try_fold(file, |value, name| value.get(*name))?;
        (!found.is_null()).then(|| found.clone())
    };
    let mut is_any_written = false;
    for part in parts {
        if let Some(found) = written(part) {
            is_any_written = true;
            *part.there.iter().fold(&mut proxy, |value, name| &mut value[*name]) = found;
        }
    }
    if !is_any_written {
        return Vec::new();
    }
    let verdict = Catalogue::of(Channel::Standard).judge(&proxy);
    let refusals = verdict.map(|verdict| verdict.refusals).unwrap_or_default();
    refusals.into_iter().map(|refusal| here(refusal, parts)).collect()
}

/// A refusal with the path of the field in the file, in its words, too.
fn here(mut refusal: Refusal, parts: &[Part]) -> Refusal {
    let moved = parts.iter().find_map(|part| {
        let there = part.there.iter().fold(Path::default(), |path, name| path.field(name));
        let below = refusal.path.segments().strip_prefix(there.segments())?;
        let here = part.here.iter().fold(Path::default(), |path, name| path.field(name));
        Some(below.iter().fold(here, |path, segment| path.with(segment.clone())))
    });
    if let Some(path) = moved {
        refusal.what = refusal.what.replace(&refusal.path.to_string(), &path.to_string());
        refusal.path = path;
    }
    refusal
}

fn finding(source: &Source<'_>, tree: &Tree<'_>, refusal: &Refusal) -> LoadFinding {
    let (line, column) = place(tree, refusal);
    LoadFinding {
        severity: Severity::Error,
        file: Arc::from(source.name),
        line,
        column,
        object: None,
        message: refusal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &str) -> Vec<String> {
        let text = format!("apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\n{fields}\n");
        let source = Source {
            name: "c.yaml",
            text: &text,
        };
        let (trees, _) = trees(&source, &Limits::default());
        refused(&source, &trees[0]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_says_nothing_is_none() {
        for text in ["", " \n", "# all of it\n---\n"] {
            let refused = configuration(&Source { name: "c.yaml", text }, |_| Vec::new()).unwrap_err();
            let told: Vec<String> = refused.iter().map(ToString::to_string).collect();
            let expected = "c.yaml:1:1: error: the file is empty: it must hold a configuration of kind EdgeGateway";
            assert_eq!(told, [expected], "{text:?}");
        }
    }

    #[test]
    fn what_an_api_server_refuses_of_an_edge_proxy_is_refused_of_the_file_with_its_place() {
        let cluster = "edgeProxy.provider.cluster";
        let image = "Image must include a tag and allowed characters only (e.g., 'repo:tag').";
        for (fields, expected) in [
            (
                "edgeProxy: {provider: {cluster: {}}}",
                vec!["3:23: error: edgeProxy.provider.type: Required value".to_owned()],
            ),
            (
                "edgeProxy:\n  provider: {type: Cluster, cluster: {envoyDeployment: {replicas: x, pod: {affinity: {foo: 1}}}}}",
                vec![
                    format!("4:87: error: {cluster}.envoyDeployment.pod.affinity.foo: unknown field"),
                    format!(
                        "4:67: error: {cluster}.envoyDeployment.replicas: Invalid value: \"string\": \
                         {cluster}.envoyDeployment.replicas in body must be of type integer: \"string\""
                    ),
                ],
            ),
            (
                "edgeProxy: {provider: {type: Cluster, cluster: {envoyService: {externalTrafficPolicy: Foo}}}}",
                vec![format!(
                    "3:87: error: {cluster}.envoyService.externalTrafficPolicy: Unsupported value: \"Foo\": supported values: \
                     \"Local\", \"Cluster\""
                )],
            ),
            (
                "provider: {type: Cluster, cluster: {rateLimitDeployment: {container: {image: bad image}}}}",
                vec![format!(
                    "3:78: error: provider.cluster.rateLimitDeployment.container.image: Invalid value: \"bad image\": {image}"
                )],
            ),
            (
                "provider: {type: Cluster, cluster: {rateLimitDeployment: {strategy: Recreate}, rateLimitHpa: {}}}",
                vec![
                    "3:69: error: provider.cluster.rateLimitDeployment.strategy: Invalid value: \"string\": \
                     provider.cluster.rateLimitDeployment.strategy in body must be of type object: \"string\""
                        .to_owned(),
                    "3:94: error: provider.cluster.rateLimitHpa.maxReplicas: Required value".to_owned(),
                ],
            ),
        ] {
            let expected: Vec<_> = expected.iter().map(|text| format!("c.yaml:{text}")).collect();
            assert_eq!(told(fields), expected, "{fields}");
        }
    }

    #[test]
    fn what_is_valid_is_no_fault() {
        for fields in [
            "",
            "edgeProxy:",
            "edgeProxy: {concurrency: 2, extraArgs: [--x], logging: {level: {default: warn}}}",
            "provider: {type: Cluster, cluster: {rateLimitDeployment: {replicas: 2}, rateLimitPDB: {minAvailable: 1}}}",
        ] {
            assert_eq!(told(fields), [""; 0], "{fields}");
        }
    }
}
