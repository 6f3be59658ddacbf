//! Whether an object may be called what it is called: name, namespace, labels and annotations by the rules of the API
//! server (RFC 1123, and the grammar of qualified names), for objects that never saw one.
//!
//! Names are parts of other names further on, joined by `/`: a Service `a/b` in `c` must not pass for `b` in `c/a`.

use crate::api::label;
use crate::api::text::{is_dns_label, is_dns_subdomain};
use crate::api::{Kind, Metadata, Scope};
use crate::load::Fault;
use crate::load::node::{Data, Node};

/// A DNS label in words.
const LABEL: &str =
    "a DNS label (RFC 1123): 1 to 63 lower-case letters, digits and `-`, starting and ending with a letter or digit";
/// A DNS subdomain in words.
const SUBDOMAIN: &str = "a DNS subdomain (RFC 1123): 1 to 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends \
                         of each part between dots";
/// The name of a trust bundle in words.
const BUNDLE: &str = "DNS subdomains joined by `:`, at most 253 characters";
/// What an API server would refuse about the identity of an object.
pub(super) fn fault(kind: Kind, root: &Node<'_>, metadata: &Metadata) -> Option<Fault> {
    let written = root.get("metadata")?;
    let at = |field: &str| written.get(field).map_or(written.at, |node| node.at);
    let (is_name, words) = name_rule(kind);
    if !is_name(&metadata.name) {
        let message = format!(
            "metadata.name: {:?} can't be the name of a {kind}: write {words}",
            metadata.name
        );
        return Some(Fault::new(at("name"), message));
    }
    if kind.scope() == Scope::Namespaced && !is_dns_label(&metadata.namespace) {
        let message = format!(
            "metadata.namespace: {:?} can't be a namespace: write {LABEL}",
            metadata.namespace
        );
        return Some(Fault::new(at("namespace"), message));
    }
    let label = metadata.labels.iter().find_map(|(key, value)| {
        label_error(key, value).map(|message| Fault::new(place(written, "labels", key), message))
    });
    label.or_else(|| {
        // Annotations may hold anything, and their keys ignore case.
        let key = metadata
            .annotations
            .keys()
            .find(|key| !label::is_qualified(&key.to_ascii_lowercase()))?;
        let message = format!(
            "metadata.annotations: {key:?} can't be the name of an annotation: write {}",
            label::QUALIFIED
        );
        Some(Fault::new(place(written, "annotations", key), message))
    })
}

/// What the names of a kind look like, and the same in words.
fn name_rule(kind: Kind) -> (fn(&str) -> bool, &'static str) {
    match kind {
        Kind::Namespace | Kind::Service => (is_dns_label, LABEL),
        Kind::ClusterTrustBundle => (is_bundle, BUNDLE),
        _ => (is_dns_subdomain, SUBDOMAIN),
    }
}

/// `<signer>:<name>`, the signer's `/` written as `:`.
fn is_bundle(name: &str) -> bool {
    name.len() <= 253 && name.split(':').all(is_dns_subdomain)
}

fn label_error(key: &str, value: &str) -> Option<String> {
    let of_name = label::name_error(key).map(|error| format!("metadata.labels: {error}"));
    of_name.or_else(|| label::value_error(value).map(|error| format!("metadata.labels.{key}: {error}")))
}

/// Where a key of a mapping of the metadata stands.
fn place(metadata: &Node<'_>, field: &str, key: &str) -> u32 {
    match metadata.get(field).map(|node| (node.at, &node.data)) {
        Some((at, Data::Map(entries))) => entries.iter().find(|e| e.key == key).map_or(at, |e| e.at),
        _ => metadata.at,
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{Limits, Source, load};

    fn findings(text: &str) -> Vec<String> {
        let loaded = load(&Source { name: "f.yaml", text }, &Limits::default());
        assert_eq!(loaded.objects.is_empty(), !loaded.findings.is_empty(), "{text}");
        loaded.findings.iter().map(ToString::to_string).collect()
    }

    fn service(metadata: &str) -> Vec<String> {
        findings(&format!("apiVersion: v1\nkind: Service\nmetadata:\n{metadata}"))
    }

    #[test]
    fn names_that_an_api_server_refuses_keep_their_place_and_the_rule() {
        assert_eq!(
            service("  namespace: c\n  name: a/b\n"),
            [
                "f.yaml:5:9: error: Service/c/a/b: metadata.name: \"a/b\" can't be the name of a Service: write a DNS \
                 label (RFC 1123): 1 to 63 lower-case letters, digits and `-`, starting and ending with a letter or digit"
            ]
        );
        let cases = [
            ("  name: A\n", "4:9: error: Service/default/A: metadata.name"),
            ("  name: a.b\n", "metadata.name: \"a.b\" can't be the name of a Service"),
            ("  name: -a\n", "metadata.name: \"-a\""),
            ("  name: \"a\\0b\"\n", "metadata.name: \"a\\0b\""),
            (
                "  name: a\n  namespace: a/b\n",
                "5:14: error: Service/a/b/a: metadata.namespace: \"a/b\" can't be a namespace",
            ),
            ("  name: a\n  namespace: a.b\n", "metadata.namespace: \"a.b\""),
            (
                "  name: a\n  labels:\n    -x: b\n",
                "6:5: error: Service/default/a: metadata.labels: \"-x\"",
            ),
            ("  name: a\n  labels: {a/b/c: d}\n", "metadata.labels: \"a/b/c\""),
            ("  name: a\n  labels: {A.b/c: d}\n", "metadata.labels: \"A.b/c\""),
            (
                "  name: a\n  labels: {a: b c}\n",
                "metadata.labels.a: \"b c\" can't be the value of a label",
            ),
            ("  name: a\n  annotations: {a b: c}\n", "metadata.annotations: \"a b\""),
        ];
        for (metadata, expected) in cases {
            let found = service(metadata);
            assert!(found.len() == 1 && found[0].contains(expected), "{metadata}: {found:?}");
        }
        let long = "a".repeat(64);
        assert_eq!(service(&format!("  name: {long}\n")).len(), 1);
        assert_eq!(service(&format!("  name: a\n  labels: {{a: {long}}}\n")).len(), 1);
    }

    #[test]
    fn names_that_an_api_server_takes_are_taken() {
        for metadata in [
            "  name: a-1\n",
            "  name: 1a\n",
            "  name: a\n  labels: {app.kubernetes.io/name: A_b.c, x: \"\"}\n",
            "  name: a\n  annotations: {Example.COM/Key: \"any thing\"}\n",
        ] {
            assert_eq!(service(metadata), [""; 0], "{metadata}");
        }
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a.b}\n";
        assert_eq!(findings(map), [""; 0]);
        let bundle = "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\n\
                      metadata: {name: \"example.com:a:b\"}\nspec: {trustBundle: x}\n";
        assert_eq!(findings(bundle), [""; 0]);
    }
}
