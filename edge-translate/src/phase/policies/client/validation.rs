//! Certificates of clients: whether one is asked for, whom it must be from, and what must be in it.

use super::Problems;
use crate::{
    api::{
        ClientValidationContext, ClientValidationMode, Kind, Metadata, SecretRef,
        client_tls::{ClientNames, OtherNameMatch},
        string_match::StringMatch,
    },
    engine::reader::Reader,
    phase::{
        authorities::{self, Unusable},
        listeners::{certificate, client_validation::ClientTrust},
        origin,
        policies::text_match::text_match,
        reference::{Referent, Referrer},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use edge_ir::{CertificateName, CertificateNameKind, ClientCertificates, ClientValidation, Secret, SecretContent};
use std::sync::Arc;

const AREA: &str = "TLS";

/// Whom a policy lets in; none when it can't be said.
pub(super) fn trust(
    reader: &Reader<'_>,
    policy: &Metadata,
    context: &ClientValidationContext,
    problems: &mut Problems,
) -> Option<Arc<ClientTrust>> {
    let certificates = mode(context, problems)?;
    let bundle = bundle(reader, policy, context, problems);
    let revoked = revoked(reader, policy, context, problems);
    let verifies = matches!(
        certificates,
        ClientCertificates::Verified | ClientCertificates::VerifiedIfGiven
    );
    if verifies && context.ca_certificate_refs.is_empty() {
        let word = context.mode.as_ref().map(ClientValidationMode::as_str);
        match (word, context.optional) {
            (None, Some(true)) => problems.add(
                AREA,
                "tls.clientValidation.optional=true requires caCertificateRefs (maps to mode \"VerifyIfGiven\")",
            ),
            (word, _) => problems.add(
                AREA,
                format_args!(
                    "tls.clientValidation.mode {:?} requires caCertificateRefs",
                    word.unwrap_or("RequireAndVerify")
                ),
            ),
        }
    }
    if !verifies {
        check_unverified(context, &certificates, problems);
    }
    let names = context.subject_alt_names.as_deref().map(|list| names(list, problems));
    let names = names.unwrap_or_default();
    if !names.is_empty() && context.ca_certificate_refs.is_empty() {
        // Anybody can make a certificate with any name.
        problems.add(AREA, "subjectAltNames requires caCertificateRefs");
    }
    if context.allow_expired_certificate && !verifies {
        problems.add(
            AREA,
            "allowExpiredCertificate can only be set when mode is VerifyIfGiven or RequireAndVerify",
        );
    }
    let authorities = (!bundle.is_empty()).then(|| Arc::new(secret(policy, bundle, revoked)));
    let leaf_alone = context.crl.as_ref().is_some_and(|crl| crl.only_verify_leaf_certificate);
    Some(Arc::new(ClientTrust {
        validation: Arc::new(ClientValidation {
            authorities: authorities.as_ref().map(|authorities| authorities.name.clone()),
            certificates,
            key_hashes: key_hashes(context, problems),
            certificate_hashes: certificate_hashes(context, problems),
            names,
            revokes_leaf_alone: leaf_alone,
            takes_expired: context.allow_expired_certificate,
        }),
        authorities,
    }))
}

/// What is asked of certificates that nobody verifies would let everybody in. Hashes tell for themselves which they
/// are, where one has to be there and no authorities are asked.
fn check_unverified(context: &ClientValidationContext, mode: &ClientCertificates, problems: &mut Problems) {
    let mut only_verified = |what: &str| {
        problems.add(
            AREA,
            format_args!("{what} can only be set when mode is VerifyIfGiven or RequireAndVerify"),
        );
    };
    if context.subject_alt_names.is_some() {
        only_verified("subjectAltNames");
    }
    if context.crl.is_some() {
        only_verified("crl");
    }
    let is_pinned = *mode == ClientCertificates::Required && context.ca_certificate_refs.is_empty();
    let hashes = [
        ("certificateHashes", context.certificate_hashes.is_empty()),
        ("spkiHashes", context.spki_hashes.is_empty()),
    ];
    for (field, _) in hashes.into_iter().filter(|(_, is_empty)| !is_empty && !is_pinned) {
        problems.add(
            AREA,
            format_args!(
                "{field} can only be set when mode is VerifyIfGiven or RequireAndVerify, or RequireAny without \
                 caCertificateRefs"
            ),
        );
    }
}

/// The older form counts where the newer one is absent.
fn mode(context: &ClientValidationContext, problems: &mut Problems) -> Option<ClientCertificates> {
    Some(match (&context.mode, context.optional) {
        (None, Some(true)) | (Some(ClientValidationMode::VerifyIfGiven), _) => ClientCertificates::VerifiedIfGiven,
        (None, Some(false) | None) | (Some(ClientValidationMode::RequireAndVerify), _) => ClientCertificates::Verified,
        (Some(ClientValidationMode::RequireAny), _) => ClientCertificates::Required,
        (Some(ClientValidationMode::Request), _) => ClientCertificates::Requested,
        (Some(ClientValidationMode::Other(other)), _) => {
            problems.add(AREA, format_args!("unsupported tls.clientValidation.mode {other:?}"));
            return None;
        }
    })
}

fn secret(policy: &Metadata, bundle: String, revoked: Option<String>) -> Secret {
    let origin = origin::origin(
        Kind::ClientTrafficPolicy,
        Arc::clone(&policy.namespace),
        Arc::clone(&policy.name),
    );
    Secret {
        name: format!("{}/{}/ca.crt", policy.namespace, policy.name).into(),
        content: SecretContent::Authorities {
            bundle: bundle.into(),
            revoked: revoked.map(Into::into),
        },
        origins: Arc::new([origin]),
    }
}

/// Who is trusted. Part of what was asked for is not what was asked for.
fn bundle(
    reader: &Reader<'_>,
    policy: &Metadata,
    context: &ClientValidationContext,
    problems: &mut Problems,
) -> String {
    join(policy, &context.ca_certificate_refs, problems, |from, to| {
        let text = authorities::bundle(reader, from, to).map_err(|why| told("certificate", why))?;
        match context.allow_expired_certificate {
            true => Ok(text),
            false => current(reader, to.name, text),
        }
    })
}

/// What all references lead to, and for each that leads nowhere a sentence.
fn join<'a>(
    policy: &Metadata,
    references: &[SecretRef],
    problems: &mut Problems,
    text: impl Fn(Referrer<'_>, Referent<'_>) -> Result<&'a str, String>,
) -> String {
    let own = &*policy.namespace;
    let from = Referrer::of(Kind::ClientTrafficPolicy, own);
    let texts = references
        .iter()
        .map(|reference| text(from, Referent::of_secret(reference, own)));
    let (joined, faults) = authorities::join(texts);
    faults.into_iter().for_each(|why| problems.add(AREA, why));
    joined
}

fn told(what: &str, unusable: Unusable<'_>) -> String {
    format!("failed to get {what} from ref: {}", unusable.clause())
}

/// Certificates, if it is the time of one of them.
fn current<'a>(reader: &Reader<'_>, name: &str, text: &'a str) -> Result<&'a str, String> {
    let mut flaw = None;
    for life in certificate::lives(text.as_bytes()) {
        match life.flaw(reader) {
            None => return Ok(text),
            Some(why) => flaw = Some(why),
        }
    }
    match flaw {
        Some(why) => Err(format!("no valid certificates exist in {name}: {why}")),
        None => Ok(text),
    }
}

/// What was revoked.
fn revoked(
    reader: &Reader<'_>,
    policy: &Metadata,
    context: &ClientValidationContext,
    problems: &mut Problems,
) -> Option<String> {
    let lists = &context.crl.as_ref()?.refs;
    if lists.is_empty() {
        problems.add(
            AREA,
            "failed to get crl from ref: crl.refs must name at least one object",
        );
    }
    if context.ca_certificate_refs.is_empty() {
        problems.add(AREA, "crl requires caCertificateRefs");
    }
    Some(join(policy, lists, problems, |from, to| {
        let text = authorities::revocations(reader, from, to).map_err(|why| told("crl", why))?;
        certificate::check_revocations(reader, text.as_bytes())
            .map_err(|why| format!("invalid crl in {}: {why}", to.name))?;
        Ok(text)
    }))
}

/// SHA-256 in base64.
fn key_hashes(context: &ClientValidationContext, problems: &mut Problems) -> Vec<Arc<str>> {
    let is_hash = |text: &str| STANDARD.decode(text).is_ok_and(|hash| hash.len() == 32);
    for hash in context.spki_hashes.iter().filter(|hash| !is_hash(hash)) {
        problems.add(AREA, format_args!("spkiHashes {hash:?} is no SHA-256 in base64"));
    }
    context.spki_hashes.iter().map(|hash| (&**hash).into()).collect()
}

/// SHA-256 in hexadecimal digits, with or without colons between the bytes.
fn certificate_hashes(context: &ClientValidationContext, problems: &mut Problems) -> Vec<Arc<str>> {
    let plain = |text: &str| text.replace(':', "").to_ascii_lowercase();
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hashes = context.certificate_hashes.iter().map(|hash| plain(hash));
    hashes
        .inspect(|hash| {
            if !is_hash(hash) {
                problems.add(
                    AREA,
                    format_args!("certificateHashes {hash:?} is no SHA-256 in hexadecimal digits"),
                );
            }
        })
        .map(Into::into)
        .collect()
}

fn names(names: &ClientNames, problems: &mut Problems) -> Vec<CertificateName> {
    let lists: [(CertificateNameKind, &[StringMatch]); 4] = [
        (CertificateNameKind::Dns, &names.dns_names),
        (CertificateNameKind::Email, &names.email_addresses),
        (CertificateNameKind::Ip, &names.ip_addresses),
        (CertificateNameKind::Uri, &names.uris),
    ];
    let mut all = Vec::new();
    for (kind, list) in lists {
        for text in list {
            all.extend(text_match(AREA, text, problems).map(|value| CertificateName {
                kind: kind.clone(),
                value,
            }));
        }
    }
    for OtherNameMatch { oid, r#type, value } in &names.other_names {
        if !is_object_identifier(oid) {
            problems.add(AREA, format_args!("otherNames {oid:?} is no object identifier"));
        }
        let text = StringMatch {
            r#type: r#type.clone(),
            value: value.clone(),
        };
        all.extend(text_match(AREA, &text, problems).map(|value| CertificateName {
            kind: CertificateNameKind::Other((&**oid).into()),
            value,
        }));
    }
    all
}

/// Whether a text is an object identifier in numbers with dots between them (X.660): the first arc is one of three, and
/// under two of them the second is below 40.
fn is_object_identifier(text: &str) -> bool {
    let is_number = |arc: &&str| !arc.is_empty() && arc.bytes().all(|byte| byte.is_ascii_digit());
    let arcs: Vec<&str> = text.split('.').collect();
    let [root, second, ..] = arcs.as_slice() else {
        return false;
    };
    let is_below_40 = || second.parse::<u8>().is_ok_and(|arc| arc < 40);
    let is_rooted = match *root {
        "0" | "1" => is_below_40(),
        "2" => true,
        _ => false,
    };
    is_rooted && arcs.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_identifier_is_two_numbers_or_more() {
        for good in ["1.2", "2.999", "0.39.0", "1.3.6.1.4.1.311.20.2.3", "2.5.29.17"] {
            assert!(is_object_identifier(good), "{good}");
        }
        for bad in [
            "", ".", "1", "1..2", "1.2.", ".1.2", "9.99.1", "1.40", "3.1", "1.a", "1.+2", "1.2 ",
        ] {
            assert!(!is_object_identifier(bad), "{bad}");
        }
    }
}
