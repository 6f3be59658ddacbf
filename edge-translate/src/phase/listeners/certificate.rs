//! Server certificates of listeners: permission, existence, and whether they are what they claim to be.

use super::{
    finding::{Finding, OVERLAP},
    fleet::Candidate,
    listener_set::Holder,
};
use crate::{
    api::{self, Kind, Protocol, SecretRef, TlsMode},
    engine::reader::Reader,
    phase::{
        hostname, origin,
        reference::{Referent, Referrer, is_permitted},
    },
    status::{Condition, sentence},
};
use edge_ir::{Secret, SecretBytes, SecretContent, SecretName};
use std::sync::Arc;

mod pem;

/// A certificate that can be served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerCertificate {
    /// `<namespace>/<name>` of the Secret.
    pub(crate) name: SecretName,
    /// Chain, PEM.
    pub(crate) chain: Arc<str>,
    /// Private key, PEM.
    pub(crate) key: SecretBytes,
    /// Host names that it is for, lower case, sorted.
    pub(crate) names: Vec<String>,
    /// The algorithm of its key.
    pub(crate) algorithm: &'static str,
}

impl ServerCertificate {
    /// The certificate as a secret of a fleet.
    pub(crate) fn secret(&self) -> Arc<Secret> {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        let origin = origin::origin(Kind::Secret, namespace.into(), name.into());
        Arc::new(Secret {
            name: self.name.clone(),
            content: SecretContent::Certificate {
                chain: Arc::clone(&self.chain),
                key: self.key.clone(),
            },
            origins: Arc::new([origin]),
        })
    }
}

/// Why a reference can't be used.
struct RefError {
    permitted: bool,
    message: String,
}

/// Resolves the certificates of a listener that terminates TLS.
pub(crate) fn check(reader: &Reader<'_>, candidate: &mut Candidate) {
    if !candidate.is_sound() || !matches!(candidate.spec().protocol, Protocol::Https | Protocol::Tls) {
        return;
    }
    let holder = candidate.holder.clone();
    let Some(tls) = holder.listeners()[candidate.index]
        .tls
        .as_deref()
        .filter(|t| t.mode == TlsMode::Terminate)
    else {
        return;
    };
    let mut errors: Vec<RefError> = Vec::new();
    for (i, reference) in tls.certificate_refs.iter().enumerate() {
        let resolved =
            resolve(reader, &holder, reference).and_then(|certificate| unlike(&candidate.certificates, certificate));
        match resolved {
            Ok(certificate) => candidate.certificates.push(certificate),
            Err(error) => {
                let message = format!("certificate refs {i}: {}", sentence(&error.message));
                errors.push(RefError { message, ..error });
            }
        }
    }
    if let Some(finding) = finding(&errors, candidate.certificates.is_empty()) {
        candidate.findings.push(finding);
    }
}

fn finding(errors: &[RefError], nothing_left: bool) -> Option<Finding> {
    if errors.is_empty() {
        return None;
    }
    let messages: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
    let messages = messages.join("\n");
    Some(if !nothing_left {
        Finding::resolved_refs(
            "PartiallyInvalidCertificateRef",
            format!("Some secrets are invalid: {messages}"),
        )
    } else if errors.iter().all(|e| !e.permitted) {
        Finding::resolved_refs("RefNotPermitted", format!("No valid secrets exist: {messages}"))
    } else {
        Finding::resolved_refs("InvalidCertificateRef", format!("No valid secrets exist: {messages}"))
    })
}

/// The certificate behind a reference. Permission is asked first, so that a missing grant is all that can be learnt.
fn resolve(reader: &Reader<'_>, holder: &Holder, reference: &SecretRef) -> Result<ServerCertificate, RefError> {
    let invalid = |message: String| RefError {
        permitted: true,
        message,
    };
    if !reference.group.is_empty() || reference.kind != "Secret" {
        let (group, kind) = (&reference.group, &reference.kind);
        return Err(invalid(format!(
            "unsupported certificate ref {group}/{kind}, only core Secret is supported"
        )));
    }
    let own = &*holder.metadata().namespace;
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    let name = &*reference.name;
    let from = Referrer {
        group: "gateway.networking.k8s.io",
        kind: holder.kind().as_str(),
        namespace: own,
    };
    if !is_permitted(
        reader,
        from,
        Referent {
            group: "",
            kind: "Secret",
            namespace,
            name,
        },
    ) {
        let message = format!("certificate ref to secret {namespace}/{name} not permitted by any ReferenceGrant");
        return Err(RefError {
            permitted: false,
            message,
        });
    }
    let Some(secret) = reader.secret(reader.id(namespace, name)) else {
        return Err(invalid(format!("secret {namespace}/{name} does not exist")));
    };
    read(secret, &format!("{namespace}/{name}")).map_err(invalid)
}

/// Whether a text is certificates that a proxy could trust.
pub(crate) fn is_bundle(pem: &[u8]) -> bool {
    pem::is_bundle(pem)
}

/// Reads certificate and key out of a Secret; `name` is for messages.
pub(crate) fn read(secret: &api::Secret, name: &str) -> Result<ServerCertificate, String> {
    let (Some(chain), Some(key)) = (secret.data.get("tls.crt"), secret.data.get("tls.key")) else {
        return Err(format!("secret {name} must contain tls.crt and tls.key"));
    };
    let leaf = pem::read_leaf(chain).map_err(|e| match e {
        pem::Error::NotPem => {
            format!("{name} must contain valid tls.crt and tls.key, unable to decode pem data in tls.crt")
        }
        pem::Error::Other(e) => {
            format!("{name} must contain valid tls.crt and tls.key, unable to validate certificate in tls.crt: {e}")
        }
    })?;
    let key_info = pem::read_key(key).map_err(|e| match e {
        pem::Error::NotPem => {
            format!("{name} must contain valid tls.crt and tls.key, unable to decode pem data in tls.key")
        }
        pem::Error::Other(e) => format!("{name} must contain valid tls.crt and tls.key, {e}"),
    })?;
    if !leaf.matches(&key_info) {
        return Err(format!(
            "{name} must contain a matching tls.crt and tls.key: the private key is not that of the certificate"
        ));
    }
    let chain = std::str::from_utf8(chain)
        .map_err(|_| format!("{name} must contain valid tls.crt and tls.key, unable to decode pem data in tls.crt"))?;
    Ok(ServerCertificate {
        name: name.into(),
        chain: chain.into(),
        key: SecretBytes::new(Arc::clone(&key.0)),
        names: leaf.names,
        algorithm: leaf.algorithm,
    })
}

/// Two certificates for the same name must differ in their key's algorithm, or a handshake couldn't choose.
fn unlike(before: &[ServerCertificate], new: ServerCertificate) -> Result<ServerCertificate, RefError> {
    let clash = before
        .iter()
        .filter(|c| c.algorithm == new.algorithm)
        .find_map(|c| c.names.iter().find(|n| new.names.contains(n)));
    match clash {
        None => Ok(new),
        Some(domain) => Err(RefError {
            permitted: true,
            message: format!(
                "{} public key algorithm must be unique, certificate domain {domain} has a conflicting algorithm [{}]",
                new.name, new.algorithm
            ),
        }),
    }
}

/// Warns of HTTPS listeners that serve on one port and whose names overlap: a client may reuse an HTTP/2 connection for
/// a name of the other listener (RFC 9113 §9.1.1), so these offer HTTP/1.1 only.
pub(crate) fn check_overlaps(candidates: &mut [Candidate]) {
    let mut found: Vec<(usize, Condition)> = Vec::new();
    for (i, a) in candidates.iter().enumerate() {
        let others = candidates
            .iter()
            .enumerate()
            .filter(|(j, b)| *j != i && same_port(a, b));
        if let Some(condition) = others.map(|(_, b)| overlap(a, b)).find_map(|c| c) {
            found.push((i, condition));
        }
    }
    for (i, condition) in found {
        candidates[i].findings.push(Finding { condition });
    }
}

fn same_port(a: &Candidate, b: &Candidate) -> bool {
    // What lost a conflict or can't serve takes no connections, and must not slow down the listener that does.
    let terminates = |c: &Candidate| c.spec().protocol == Protocol::Https && c.is_sound() && !c.certificates.is_empty();
    terminates(a) && terminates(b) && a.spec().port == b.spec().port
}

fn overlap(a: &Candidate, b: &Candidate) -> Option<Condition> {
    let other = format!("listener {}{}", b.spec().name, gateway_suffix(a, b));
    if hostname::intersect(&a.hostname, &b.hostname).is_some() {
        let message = format!(
            "The hostname {} overlaps with the hostname {} in {other}.",
            a.hostname, b.hostname
        );
        return Some(Condition::yes(OVERLAP, "OverlappingHostnames", message));
    }
    let pairs = || {
        a.certificates
            .iter()
            .flat_map(|c| &c.names)
            .flat_map(|x| b.certificates.iter().flat_map(|c| &c.names).map(move |y| (x, y)))
    };
    let (x, y) = pairs().find(|(x, y)| hostname::intersect(x, y).is_some())?;
    let message = format!(
        "The certificate SAN {x} overlaps with the certificate SAN {y} in {other}. ALPN will default to HTTP/1.1 to prevent \
         HTTP/2 connection coalescing, unless explicitly configured via ClientTrafficPolicy"
    );
    Some(Condition::yes(OVERLAP, "OverlappingCertificates", message))
}

fn gateway_suffix(a: &Candidate, b: &Candidate) -> String {
    if a.id.gateway == b.id.gateway {
        String::new()
    } else {
        format!(" of gateway {}", b.holder.gateway().metadata.name)
    }
}
