//! What becomes of a field that no type knows.
//!
//! Fields that belong to a kind but mean nothing to us are skipped without a word: the core kinds have far more of them
//! than translation reads, and warning about a Service's `sessionAffinity` would bury the warning about a mistyped
//! `backendRefs`. A field that narrows what its object takes or guards must not get lost by a slip: without `hostnames`
//! a route takes every host. Where the name of an unknown field is nearly that of such a field, the object is refused.
//! All else is a warning.

use crate::{api::Kind, load::de::Unknown};
use std::collections::BTreeSet;

/// Per type, the fields that are skipped silently.
const SILENT: &[(&str, &[&str])] = &[
    (
        "Metadata",
        &[
            "uid",
            "resourceVersion",
            "selfLink",
            "managedFields",
            "ownerReferences",
            "finalizers",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generateName",
        ],
    ),
    ("Namespace", &["spec", "status"]),
    ("Service", &["status"]),
    (
        "ServiceSpec",
        &[
            "allocateLoadBalancerNodePorts",
            "externalIPs",
            "externalName",
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
            "loadBalancerClass",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "publishNotReadyAddresses",
            "sessionAffinity",
            "sessionAffinityConfig",
        ],
    ),
    ("ServicePort", &["nodePort"]),
    ("ServiceImport", &["status"]),
    (
        "ServiceImportSpec",
        &[
            "sessionAffinity",
            "sessionAffinityConfig",
            "ipFamilies",
            "internalTrafficPolicy",
            "trafficDistribution",
        ],
    ),
    ("Endpoint", &["targetRef", "deprecatedTopology", "hostname", "nodeName"]),
    ("EndpointHints", &["forNodes"]),
    ("ConfigMap", &["immutable"]),
    ("Secret", &["immutable"]),
    ("ReferenceGrant", &["status"]),
    ("ClusterTrustBundle", &["status"]),
    ("ClusterTrustBundleSpec", &["signerName"]),
];

/// Per type, the fields whose absence takes in more, or guards less.
pub(super) const NARROWING: &[(&str, &[&str])] = &[
    ("AllowedRoutes", &["namespaces", "kinds"]),
    ("BackendSpec", &["tls"]),
    ("BackendTlsPolicySpec", &["targetRefs", "validation"]),
    ("BackendTlsValidation", &["subjectAltNames"]),
    ("CookieMatch", &["type"]),
    ("EdgeProxySpec", &["backendTLS"]),
    ("FrontendTls", &["default", "perPort"]),
    ("FrontendTlsConfig", &["validation"]),
    ("FrontendTlsPort", &["tls"]),
    ("GatewaySpec", &["listeners", "tls"]),
    ("GatewayTls", &["frontend"]),
    ("GrantTo", &["name"]),
    ("GrpcHeaderMatch", &["type"]),
    ("GrpcMethodMatch", &["type", "service", "method"]),
    ("GrpcRouteMatch", &["method", "headers"]),
    ("GrpcRouteRule", &["matches", "filters"]),
    ("GrpcRouteSpec", &["parentRefs", "hostnames", "rules"]),
    ("HttpHeaderMatch", &["type"]),
    ("HttpPathMatch", &["type", "value"]),
    ("HttpQueryParamMatch", &["type"]),
    ("HttpRouteFilterSpec", &["directResponse", "matches"]),
    ("HttpRouteMatch", &["path", "headers", "queryParams", "method"]),
    ("HttpRouteRule", &["matches", "filters"]),
    ("HttpRouteSpec", &["parentRefs", "hostnames", "rules"]),
    ("LabelSelector", &["matchLabels", "matchExpressions"]),
    ("Listener", &["hostname", "tls", "allowedRoutes", "filters"]),
    ("ListenerSetSpec", &["listeners"]),
    ("ParentReference", &["sectionName", "port"]),
    ("PolicyTargetRef", &["sectionName"]),
    ("RouteBackendRef", &["weight", "filters"]),
    ("RouteMatchFilter", &["cookies"]),
    ("RouteNamespaces", &["from", "selector"]),
    ("StreamRouteSpec", &["parentRefs", "rules"]),
    ("TlsRouteSpec", &["parentRefs", "hostnames", "rules"]),
];

fn lists(table: &[(&str, &[&str])], owner: &str, field: &str) -> bool {
    table
        .iter()
        .any(|(name, fields)| *name == owner && fields.contains(&field))
}

/// True when an unknown field was most likely meant to be one that must not be missing.
pub(crate) fn loses_a_condition(unknown: Unknown) -> bool {
    unknown
        .meant
        .is_some_and(|meant| lists(NARROWING, unknown.owner, meant))
}

/// The field of a type that somebody most likely meant.
pub(crate) fn nearest(written: &str, fields: &'static [&'static str]) -> Option<&'static str> {
    // Two letters apart is a slip in a long name, and another word among short ones.
    let bound = if written.len() < 5 { 1 } else { 2 };
    // Names can't be nearer than their lengths are, nor than one has letters that the other hasn't; most are far apart.
    let is_as_long = |field: &&str| field.chars().count().abs_diff(written.chars().count()) <= bound;
    let has_its_letters = |field: &&str| (letters(written) & !letters(field)).count_ones() as usize <= bound;
    let distance = |field: &str| strsim::osa_distance(&written.to_ascii_lowercase(), &field.to_ascii_lowercase());
    let near = fields
        .iter()
        .filter(|field| is_as_long(field) && has_its_letters(field));
    near.map(|field| (distance(field), *field))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, field)| field)
}

/// The letters of a name, a bit each, large or small.
fn letters(name: &str) -> u32 {
    let letters = name.bytes().filter(u8::is_ascii_alphabetic);
    letters.fold(0, |seen, letter| seen | 1 << (letter.to_ascii_lowercase() - b'a'))
}

/// Kinds of others in our groups that are named much like ours.
const NAMESAKES: [(&str, &str); 2] = [
    ("gateway.networking.k8s.io", "BackendLBPolicy"),
    ("multicluster.x-k8s.io", "ServiceExport"),
];

/// The groups in which all kinds are ours.
const OWN: [&str; 2] = ["gateway.networking.k8s.io", "gateway.edge"];

/// The kind of ours that somebody most likely meant by one that isn't: its name in our group with a slip, or in a group
/// with one, or in none. Others have kinds of the same names in groups of their own.
pub(crate) fn meant_kind(group: &str, kind: &str) -> Option<Kind> {
    if NAMESAKES.contains(&(group, kind)) {
        return None;
    }
    let in_group = Kind::ALL.iter().filter(|known| known.group() == group);
    let of_name = in_group.filter_map(|known| Some((slips(kind, known.as_str())?, *known)));
    let of_name = of_name.min_by_key(|(distance, _)| *distance).map(|(_, known)| known);
    of_name.or_else(|| {
        let mut same = Kind::ALL.iter().filter(|known| known.as_str() == kind);
        same.find(|known| group.is_empty() || OWN.contains(&group) || is_slip_of_group(group, known.group()))
            .copied()
    })
}

/// Whether one name of a kind is another with a slip, or the same.
pub(crate) fn is_slip_of(written: &str, kind: &str) -> bool {
    slips(written, kind).is_some()
}

/// How many letters a name of a kind is off, where that is a slip.
fn slips(written: &str, kind: &str) -> Option<usize> {
    let kind = kind.to_ascii_lowercase();
    // `HTTPRoutes`, as it stands in paths.
    let bound = if kind.len() < 5 { 1 } else { 2 };
    let distance = strsim::osa_distance(&written.to_ascii_lowercase(), &kind);
    (distance <= bound).then_some(distance)
}

/// Whether there can't be such a kind of anybody else's: its group is ours, or it stands in none at a version that
/// kinds without a group don't have (`gateway.edge`, where the version was forgotten).
pub(crate) fn is_nobody_elses(group: &str, api_version: &str, kind: &str) -> bool {
    let is_versionless = group.is_empty() && api_version != "v1";
    is_versionless || (OWN.contains(&group) && !NAMESAKES.contains(&(group, kind)))
}

fn is_slip_of_group(written: &str, group: &str) -> bool {
    if written.is_empty() || group.is_empty() {
        return false;
    }
    let is_cut = group.starts_with(written) || written.starts_with(group);
    // `security.gateway.edge`, `edge.gateway`
    let is_below = written.strip_suffix(group).is_some_and(|above| above.ends_with('.'));
    is_cut || is_below || labels(written) == labels(group) || strsim::osa_distance(written, group) <= 2
}

fn labels(group: &str) -> BTreeSet<&str> {
    group.split('.').collect()
}

/// True when the field of a type is skipped without a warning.
pub(crate) fn silent(owner: &str, field: &str) -> bool {
    lists(SILENT, owner, field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Limits, Loaded, Source, load};

    fn route(spec: &str) -> Loaded {
        let text = format!("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r}}\n{spec}");
        let source = Source {
            name: "f.yaml",
            text: &text,
        };
        load(&source, &Limits::default())
    }

    #[test]
    fn a_slip_that_would_take_in_more_refuses_the_object() {
        let loaded = route("spec:\n  hostname: [a.example]\n");
        assert!(loaded.objects.is_empty());
        assert_eq!(
            loaded.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "f.yaml:5:3: error: HTTPRoute/default/r: spec.hostname: HTTPRoute has no such field: did you mean \
                 `hostnames`? Without it the object would be in force for more than was meant, so it is not taken"
            ]
        );
        for (spec, meant) in [
            ("spec: {rules: [{match: []}]}", "matches"),
            ("spec: {rules: [{matches: [{header: []}]}]}", "headers"),
            ("spec: {rules: [{matches: [{queryparams: []}]}]}", "queryParams"),
            ("spec: {rules: [{filter: []}]}", "filters"),
            ("spec: {parentRefs: [{name: g, sectionname: a}]}", "sectionName"),
            ("spec: {parentRef: [{name: g}]}", "parentRefs"),
            ("spec: {rules: [{backendRefs: [{name: b, wieght: 0}]}]}", "weight"),
        ] {
            let loaded = route(spec);
            assert!(loaded.objects.is_empty(), "{spec}");
            let finding = loaded.findings[0].to_string();
            assert!(finding.contains(&format!("did you mean `{meant}`?")), "{finding}");
        }
    }

    #[test]
    fn a_slip_elsewhere_is_a_warning_with_what_was_meant() {
        let loaded = route("spec: {rules: [{timeout: {}}]}");
        assert_eq!(loaded.objects.len(), 1);
        let finding = loaded.findings[0].to_string();
        assert!(
            finding.ends_with("it is ignored: did you mean `timeouts`?"),
            "{finding}"
        );
        let loaded = route("spec: {colour: blue}");
        assert_eq!(loaded.objects.len(), 1);
        let finding = loaded.findings[0].to_string();
        assert!(finding.ends_with("check the spelling and the indentation"), "{finding}");
    }

    #[test]
    fn short_words_must_be_nearer() {
        const FIELDS: &[&str] = &["name", "port", "hostnames"];
        assert_eq!(nearest("nmae", FIELDS), Some("name"));
        assert_eq!(nearest("note", FIELDS), None);
        assert_eq!(nearest("Hostname", FIELDS), Some("hostnames"));
    }
}
