//! Names of what the controller makes for itself in its own namespace, beside what the chart lists: who takes an
//! installation away must know them, too.

/// The Secret of the authority that signs the other certificates.
pub const AUTHORITY: &str = "edge-gateway-ca";
/// The Secret with the controller's server certificate.
pub const CONTROLLER: &str = "edge-gateway";
/// The Secret with the client certificate of proxies that somebody else starts.
pub const PROXY: &str = "edge";
/// The Secret with the certificate of the service of rate limits.
pub const RATE_LIMIT: &str = "edge-rate-limit";
/// The Secret that cookies of logins are signed with. The translation looks it up under this name, first of those that
/// it knows.
pub const OIDC_HMAC: &str = "edge-oidc-hmac";
/// The Lease of the leader among replicas.
pub const LEADER: &str = "edge-gateway-leader";
/// The ConfigMap of documents that were fetched.
pub const DOCUMENTS: &str = "edge-gateway-documents";

/// All of these: version, kind and name.
pub const ALL: [(&str, &str, &str); 7] = [
    ("v1", "Secret", CONTROLLER),
    ("v1", "Secret", PROXY),
    ("v1", "Secret", RATE_LIMIT),
    ("v1", "Secret", AUTHORITY),
    ("v1", "Secret", OIDC_HMAC),
    ("coordination.k8s.io/v1", "Lease", LEADER),
    ("v1", "ConfigMap", DOCUMENTS),
];
