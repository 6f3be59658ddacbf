//! Server certificates of listeners: permission, existence, and whether they are what they claim to be.

use super::{
    finding::{Finding, OUT_OF_DATE, OVERLAP},
    fleet::Candidate,
    listener_set::Holder,
};
use crate::{
    api::{self, Kind, Protocol, SecretRef, Timestamp, TlsMode},
    engine::reader::Reader,
    name::Id,
    phase::{
        hostname, origin,
        reference::{self, SecretRefusal},
        secrets::{Flaw, Pointer, Provided, is_pointer},
    },
    status::{Condition, sentence},
};
use edge_ir::{Secret, SecretBytes, SecretContent};
use std::sync::Arc;

mod pem;

use pem::Leaf;

/// A Secret that is a certificate, or points to one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerCertificate {
    /// What matters of the certificate itself; not known of one that a server of secrets has.
    leaf: Option<Leaf>,
    /// Where proxies get it: a secret of a fleet is named `<namespace>/<name>`.
    pub(crate) provided: Provided,
}

/// What listeners see of a certificate. A renewed one mostly looks the same, so that no listener is judged again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CertificateView {
    /// The Secret.
    pub(crate) id: Id,
    /// Namespace and name of the Secret.
    name: Arc<str>,
    /// What it says; not known of one that a server of secrets has.
    pub(crate) known: Option<Known>,
}

/// What can be read in a certificate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// Host names that it is for, lower case, sorted.
    pub(crate) names: Vec<String>,
    /// The algorithm of its key.
    algorithm: &'static str,
    /// Whether clients take it, as far as the time goes.
    date: Date,
}

/// Whether it is time for a certificate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Date {
    /// It is, or nobody told us the time.
    Current,
    /// Not before then.
    Early(Timestamp),
    /// Not after then.
    Expired(Timestamp),
}

/// Reads a Secret as a certificate; none when it is gone, or nobody names it as one.
pub(crate) fn certificate(reader: &Reader<'_>, id: Id) -> Option<Result<Arc<ServerCertificate>, Arc<str>>> {
    let secret = reader.secret(id).filter(|_| reader.is_certificate(id))?;
    let name = format!("{}/{}", secret.metadata.namespace, secret.metadata.name);
    let read = match is_pointer(secret) {
        true => elsewhere(reader, secret, &name),
        false => read(secret, &name),
    };
    Some(read.map(Arc::new).map_err(Into::into))
}

/// The certificate that a server of secrets has.
fn elsewhere(reader: &Reader<'_>, secret: &api::Secret, name: &str) -> Result<ServerCertificate, String> {
    let pointer = Pointer::read(reader, secret).map_err(|flaw| match flaw {
        Flaw::Disabled => format!(
            "SDS Secret {name} cannot be used because SDS Secret references are not enabled in EdgeGateway configuration"
        ),
        Flaw::Invalid(why) => format!("secret {name} is not a valid SDS reference secret: {why}"),
    })?;
    Ok(ServerCertificate {
        leaf: None,
        provided: Provided::Elsewhere(Arc::new(pointer)),
    })
}

/// What listeners see of a certificate; none when the Secret is gone.
pub(crate) fn view(reader: &Reader<'_>, id: Id) -> Option<Result<Arc<CertificateView>, Arc<str>>> {
    let certificate = match reader.certificate(id)? {
        Ok(certificate) => certificate,
        Err(error) => return Some(Err(Arc::clone(error))),
    };
    let known = |leaf: &Leaf| Known {
        names: leaf.names.clone(),
        algorithm: leaf.algorithm,
        date: date(reader, leaf),
    };
    Some(Ok(Arc::new(CertificateView {
        id,
        name: format!("{}/{}", reader.text(id.namespace), reader.text(id.name)).into(),
        known: certificate.leaf.as_ref().map(known),
    })))
}

fn date(reader: &Reader<'_>, leaf: &Leaf) -> Date {
    phase(reader, leaf.not_before, Some(leaf.not_after))
}

/// Where we are between two times.
fn phase(reader: &Reader<'_>, from: Timestamp, to: Option<Timestamp>) -> Date {
    // It is good to the end of its last second (RFC 5280 §4.1.2.5).
    let after = |to: Timestamp| Timestamp(to.0.saturating_add(1));
    if reader.has_come(from) == Some(false) {
        return Date::Early(from);
    }
    match to.filter(|to| reader.has_come(after(*to)) == Some(true)) {
        Some(to) => Date::Expired(to),
        None => Date::Current,
    }
}

/// The time of a certificate that somebody trusts.
pub(crate) struct Life(pem::Life);

impl Life {
    /// What is wrong with it now.
    pub(crate) fn flaw(&self, reader: &Reader<'_>) -> Option<String> {
        let pem::Life { subject, from, to } = &self.0;
        match phase(reader, *from, *to) {
            Date::Current => None,
            Date::Early(from) => Some(format!("certificate {subject} will be valid after {from}")),
            Date::Expired(at) => Some(format!("certificate {subject} has expired since {at}")),
        }
    }
}

/// The times of the certificates of a bundle.
pub(crate) fn lives(pem: &[u8]) -> impl Iterator<Item = Life> {
    pem::lives(pem).into_iter().map(Life)
}

/// Whether a text is lists of revoked certificates that hold now.
pub(crate) fn check_revocations(reader: &Reader<'_>, pem: &[u8]) -> Result<(), String> {
    let lists = pem::revocation_lives(pem).ok_or("it holds no CRL that can be read")?;
    for list in lists {
        match phase(reader, list.from, list.to) {
            Date::Current => {}
            Date::Early(from) => return Err(format!("CRL is not yet valid (this update starts at {from})")),
            Date::Expired(at) => return Err(format!("CRL is expired (next update was due at {at})")),
        }
    }
    Ok(())
}

/// Why a reference can't be used.
struct RefError {
    permitted: bool,
    message: String,
}

/// Resolves the certificates of a listener that terminates TLS.
pub(crate) fn check(reader: &Reader<'_>, candidate: &mut Candidate) {
    if !matches!(candidate.spec().protocol, Protocol::Https | Protocol::Tls) {
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
    candidate.findings.extend(out_of_date(&candidate.certificates));
}

/// Warns of certificates that clients won't take. They are served all the same: to serve none instead, or another,
/// would only take from those who don't look.
fn out_of_date(certificates: &[Arc<CertificateView>]) -> Option<Finding> {
    let flaws: Vec<_> = certificates.iter().filter_map(|c| c.flaw_of_date()).collect();
    let (reason, _) = flaws.first()?;
    let messages: Vec<&str> = flaws.iter().map(|(_, message)| message.as_str()).collect();
    let message = format!("{} Clients that verify it refuse the connection.", messages.join(" "));
    Some(Finding::warning(Condition::yes(OUT_OF_DATE, *reason, message)))
}

impl CertificateView {
    /// Reason and message, if it isn't time for it.
    pub(super) fn flaw_of_date(&self) -> Option<(&'static str, String)> {
        let name = &self.name;
        match self.known.as_ref()?.date {
            Date::Current => None,
            Date::Early(from) => Some((
                "CertificateNotYetValid",
                format!("The certificate in {name} is valid only from {from} on."),
            )),
            Date::Expired(at) => Some((
                "CertificateExpired",
                format!("The certificate in {name} expired at {at}."),
            )),
        }
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
        .that_leaves_it_serving()
    } else if errors.iter().all(|e| !e.permitted) {
        Finding::resolved_refs("RefNotPermitted", format!("No valid secrets exist: {messages}"))
    } else {
        Finding::resolved_refs("InvalidCertificateRef", format!("No valid secrets exist: {messages}"))
    })
}

/// The certificate that a reference of a listener leads to.
fn resolve(reader: &Reader<'_>, holder: &Holder, reference: &SecretRef) -> Result<Arc<CertificateView>, RefError> {
    let own = &*holder.metadata().namespace;
    let (namespace, name) = (reference.namespace.as_deref().unwrap_or(own), &*reference.name);
    let (permitted, message) = match referenced(reader, holder.kind(), own, reference) {
        Ok(certificate) => return Ok(Arc::clone(certificate)),
        Err(Unusable::Kind) => {
            let (group, kind) = (&reference.group, &reference.kind);
            let message = format!("unsupported certificate ref {group}/{kind}, only core Secret is supported");
            (true, message)
        }
        Err(Unusable::NotPermitted) => {
            let message = format!("certificate ref to secret {namespace}/{name} not permitted by any ReferenceGrant");
            (false, message)
        }
        Err(Unusable::Malformed(error)) => (true, error.to_string()),
        Err(Unusable::Missing) => (true, format!("secret {namespace}/{name} does not exist")),
    };
    Err(RefError { permitted, message })
}

/// Why a reference leads to no certificate.
pub(super) enum Unusable<'a> {
    /// It names something other than a Secret.
    Kind,
    /// No ReferenceGrant lets it.
    NotPermitted,
    /// There is no such Secret.
    Missing,
    /// The Secret isn't a certificate, and why.
    Malformed(&'a str),
}

/// The certificate behind a reference from an object of a kind. Permission is asked first, so that a missing grant is
/// all that can be learnt.
pub(super) fn referenced<'a>(
    reader: &Reader<'a>,
    from: Kind,
    own: &str,
    reference: &SecretRef,
) -> Result<&'a Arc<CertificateView>, Unusable<'a>> {
    let id = reference::secret(reader, from, own, reference).map_err(|refusal| match refusal {
        SecretRefusal::Kind => Unusable::Kind,
        SecretRefusal::NotPermitted => Unusable::NotPermitted,
    })?;
    match reader.certificate_view(id) {
        Some(Ok(certificate)) => Ok(certificate),
        Some(Err(error)) => Err(Unusable::Malformed(error)),
        None => Err(Unusable::Missing),
    }
}

/// Whether a text is certificates that a proxy could trust.
pub(crate) fn is_bundle(pem: &[u8]) -> bool {
    pem::is_bundle(pem)
}

/// Reads certificate and key out of a Secret; `name` is for messages.
fn read(secret: &api::Secret, name: &str) -> Result<ServerCertificate, String> {
    let (Some(chain), Some(key)) = (secret.data.get("tls.crt"), secret.data.get("tls.key")) else {
        return Err(format!("secret {name} must contain tls.crt and tls.key"));
    };
    let (chain, key) = (chain.expose(), key.expose());
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
    let metadata = &secret.metadata;
    let origin = origin::origin(
        Kind::Secret,
        Arc::clone(&metadata.namespace),
        Arc::clone(&metadata.name),
    );
    Ok(ServerCertificate {
        leaf: Some(leaf),
        provided: Provided::Held(Arc::new(Secret {
            name: name.into(),
            content: SecretContent::Certificate {
                chain: chain.into(),
                key: SecretBytes::new(Arc::clone(key)),
            },
            origins: Arc::new([origin]),
        })),
    })
}

/// Two certificates for the same name must differ in their key's algorithm, or a handshake couldn't choose.
fn unlike(before: &[Arc<CertificateView>], new: Arc<CertificateView>) -> Result<Arc<CertificateView>, RefError> {
    let Some(known) = &new.known else {
        return Ok(new);
    };
    let alike = before.iter().filter_map(|c| c.known.as_ref());
    let clash = alike
        .filter(|other| other.algorithm == known.algorithm)
        .find_map(|other| other.names.iter().find(|n| known.names.contains(n)));
    match clash {
        None => Ok(new),
        Some(domain) => Err(RefError {
            permitted: true,
            message: format!(
                "{} public key algorithm must be unique, certificate domain {domain} has a conflicting algorithm [{}]",
                new.name, known.algorithm
            ),
        }),
    }
}

/// Warns of HTTPS listeners that serve on one port and whose names overlap: a client may reuse an HTTP/2 connection for
/// a name of the other listener (RFC 9113 §9.1.1), is answered 421 there and asks again on another (GEP-3567).
pub(crate) fn check_overlaps(candidates: &mut [Candidate]) {
    let mut found: Vec<(usize, Condition)> = Vec::new();
    for (i, a) in candidates.iter().enumerate() {
        let others = candidates.iter().enumerate();
        let mut others = others.filter(|(j, b)| *j != i && same_port(a, b)).map(|(_, b)| b);
        // Hostnames say more than certificates do.
        let named = others
            .clone()
            .find(|b| hostname::intersect(&a.hostname, &b.hostname).is_some());
        let condition = match named {
            Some(b) => overlap(a, b),
            None => others.find_map(|b| overlap(a, b)),
        };
        found.extend(condition.map(|condition| (i, condition)));
    }
    for (i, condition) in found {
        candidates[i].findings.push(Finding::warning(condition));
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
    if is_opaque(&a.certificates) || is_opaque(&b.certificates) {
        let message = format!(
            "Which names the certificates of this listener and of {other} have isn't known where a server of secrets has \
             them. A client that uses one HTTP/2 connection for names of both is answered 421 and has to open another."
        );
        return Some(Condition::yes(OVERLAP, "SDSCertificateOpaque", message));
    }
    let mut pairs = names(&a.certificates).flat_map(|x| names(&b.certificates).map(move |y| (x, y)));
    let (x, y) = pairs.find(|(x, y)| hostname::intersect(x, y).is_some())?;
    let message = format!(
        "The certificate SAN {x} overlaps with the certificate SAN {y} in {other}. A \
         client that uses one HTTP/2 connection for both is answered 421 and has to open another."
    );
    Some(Condition::yes(OVERLAP, "OverlappingCertificates", message))
}

/// Whether the names of a certificate aren't known, so that it may have any.
pub(super) fn is_opaque(certificates: &[Arc<CertificateView>]) -> bool {
    certificates.iter().any(|certificate| certificate.known.is_none())
}

/// The names of certificates, as far as they are known.
pub(super) fn names(certificates: &[Arc<CertificateView>]) -> impl Iterator<Item = &String> {
    let known = certificates.iter().filter_map(|certificate| certificate.known.as_ref());
    known.flat_map(|known| &known.names)
}

fn gateway_suffix(a: &Candidate, b: &Candidate) -> String {
    if a.id.gateway == b.id.gateway {
        String::new()
    } else {
        format!(" of gateway {}", b.holder.gateway().metadata.name)
    }
}
