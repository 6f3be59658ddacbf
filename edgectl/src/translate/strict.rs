//! `--strict`: everything that isn't as its author meant it, a line each.

use super::{Outcome, input::Text};
use edge_admission::{Channel, Judge};
use edge_translate::load::{LoadFinding, OneLine, Source};
use edge_translate::status::{Status, StatusBody};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
};

/// Writes what statuses say is wrong, and says how many problems there are, the findings that were told before
/// included.
pub(super) fn report(outcome: &Outcome, out: &mut impl Write) -> io::Result<usize> {
    let places: BTreeMap<_, _> = outcome
        .objects
        .iter()
        .map(|loaded| (loaded.object.key(), (&loaded.file, loaded.line)))
        .collect();
    let mut count = outcome.findings.len();
    for (key, status) in &outcome.translation.statuses {
        // What leads to nothing of ours is among the findings.
        let status = status.as_deref();
        let status = status.filter(|status| !matches!(status.body, StatusBody::Unattached(_)));
        for problem in status.into_iter().flat_map(Status::problems) {
            if let Some((file, line)) = places.get(key) {
                write!(out, "{}:{line}: ", OneLine(file))?;
            }
            let part = problem.part.map(|part| format!("{part}: ")).unwrap_or_default();
            let message = problem.message.replace('\n', " ");
            let line = format!("{key}: {part}{}: {message}", problem.what);
            writeln!(out, "{}", OneLine(line))?;
            count += 1;
        }
    }
    Ok(count)
}

/// What an API server would refuse of the input, except on lines of which something is said already.
pub(super) fn refusals(texts: &[Text], findings: &[LoadFinding]) -> Vec<LoadFinding> {
    let told: BTreeSet<_> = findings.iter().map(|told| (&*told.file, told.line)).collect();
    let refused = texts.iter().flat_map(|Text { name, text }| {
        // Whatever is settled or may still change: the controller reads both.
        Judge::new(Channel::Experimental).judge(&Source { name, text })
    });
    refused
        .filter(|refused| !told.contains(&(&*refused.file, refused.line)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::{Options, input::Text, translate};

    #[test]
    fn every_problem_is_told_once_with_its_place() {
        let text = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: default }
spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: lost, namespace: default }
spec: { parentRefs: [{ name: gateway }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: r, namespace: default }
spec: { parentRefs: [{ name: gw }], rules: [{ backendRefs: [{ name: absent, port: 80 }] }] }
";
        let texts = [Text {
            name: "all.yaml".into(),
            text: text.into(),
        }];
        let outcome = translate(&texts, &Options::default());
        let findings: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("all.yaml:11:"), "{findings:?}");
        let mut out = Vec::new();
        assert_eq!(report(&outcome, &mut out).unwrap(), 2);
        let told = String::from_utf8(out).unwrap();
        assert!(
            told.starts_with("all.yaml:16: HTTPRoute/default/r: Gateway gw: ResolvedRefs BackendNotFound: "),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }

    #[test]
    fn what_an_api_server_would_refuse_is_told_unless_the_line_has_been() {
        let text = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: default }
spec:
  gatewayClassName: edge
  listeners:
  - { name: http, protocol: HTTP, port: 0 }
  unheard: of
";
        let texts = [Text {
            name: "gw.yaml".into(),
            text: text.into(),
        }];
        let outcome = translate(&texts, &Options::default());
        assert!(
            outcome.findings.iter().any(|finding| finding.line == 8),
            "{:?}",
            outcome.findings
        );
        let refused = refusals(&texts, &outcome.findings);
        let lines: Vec<_> = refused.iter().map(|refused| refused.line).collect();
        assert_eq!(lines, [7], "{refused:?}");
    }
}
