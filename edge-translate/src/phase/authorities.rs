//! Authorities to trust: the certificates behind a reference to an object that keeps them.

use crate::{
    engine::reader::Reader,
    name::{Id, Interner},
    phase::listeners::certificate,
};

/// What a reference names, its namespace filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// API group.
    pub(crate) group: &'a str,
    /// Kind.
    pub(crate) kind: &'a str,
    /// Namespace; of no account for kinds that have none.
    pub(crate) namespace: &'a str,
    /// Name.
    pub(crate) name: &'a str,
}

/// Why a reference leads to no certificates, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It names a kind that keeps none.
    Kind(String),
    /// The object is missing, or has none.
    Content(String),
}

/// The certificates behind a reference, PEM. Whether it is permitted has been asked before.
pub(crate) fn bundle<'a>(reader: &Reader<'a>, source: Source<'_>) -> Result<&'a str, Unusable> {
    let Source { namespace, name, .. } = source;
    let missing = |word: &str| Unusable::Content(format!("{word} {name} not found in namespace {namespace}."));
    let (word, found) = match (source.group, source.kind) {
        ("", "ConfigMap") => {
            let map = reader.config_map(reader.id(namespace, name));
            let map = map.ok_or_else(|| missing("Configmap"))?;
            let texts = map.data.iter().map(|(key, text)| (key, text.as_bytes()));
            ("configmap", certificates_in(texts))
        }
        ("", "Secret") => {
            let secret = reader.secret(reader.id(namespace, name));
            let secret = secret.ok_or_else(|| missing("Secret"))?;
            let texts = secret.data.iter().map(|(key, bytes)| (&**key, &*bytes.0));
            ("secret", certificates_in(texts))
        }
        ("" | "certificates.k8s.io", "ClusterTrustBundle") => {
            let id = Id {
                namespace: Interner::EMPTY,
                name: reader.sym(name),
            };
            let bundle = reader.cluster_trust_bundle(id);
            let bundle = bundle.ok_or_else(|| Unusable::Content(format!("Cluster trust bundle {name} not found.")))?;
            let text = [("ca.crt", bundle.spec.trust_bundle.as_bytes())];
            ("cluster trust bundle", certificates_in(text.into_iter()))
        }
        _ => {
            let message = "Unsupported reference kind, supported kinds are ConfigMap, Secret, and ClusterTrustBundle \
                           in caCertificateRefs.";
            return Err(Unusable::Kind(message.to_owned()));
        }
    };
    found.ok_or_else(|| Unusable::Content(format!("No ca found in {word} {name}.")))
}

/// Adds certificates to a bundle.
pub(crate) fn add(bundle: &mut String, text: &str) {
    bundle.push_str(text.trim());
    bundle.push('\n');
}

/// The text under `ca.crt`, or under the only key there is, if it is certificates.
fn certificates_in<'a>(entries: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<&'a str> {
    let entries: Vec<_> = entries.collect();
    let named = entries.iter().find(|(key, _)| *key == "ca.crt");
    let only = || entries.first().filter(|_| entries.len() == 1);
    let (_, bytes) = named.or_else(only)?;
    certificate::is_bundle(bytes).then(|| std::str::from_utf8(bytes).ok())?
}
