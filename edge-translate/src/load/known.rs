//! Fields that belong to a kind but mean nothing to us: they are skipped without a word.
//!
//! The core kinds have far more fields than translation reads, and warning about a Service's `sessionAffinity` would
//! bury the warning about a mistyped `backendRefs`.

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
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "loadBalancerClass",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "sessionAffinity",
            "sessionAffinityConfig",
        ],
    ),
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
    ("Endpoint", &["targetRef", "deprecatedTopology"]),
    ("ConfigMap", &["immutable"]),
    ("Secret", &["immutable"]),
    ("ReferenceGrant", &["status"]),
    ("ClusterTrustBundle", &["status"]),
];

/// True when the field of a type is skipped without a warning.
pub(crate) fn silent(owner: &str, field: &str) -> bool {
    SILENT
        .iter()
        .any(|(name, fields)| *name == owner && fields.contains(&field))
}
