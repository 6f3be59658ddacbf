//! Authorities to trust: the certificates behind references to objects that keep them, and what of them was revoked.

use crate::{
    engine::reader::Reader,
    name::{Id, Interner},
    phase::{
        listeners::certificate,
        reference::{Referent, Referrer, is_permitted},
    },
};

/// Kinds that keep certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    ConfigMap,
    Secret,
    /// Which has no namespace.
    TrustBundle,
}

impl Keeper {
    fn of(to: Referent<'_>) -> Option<Self> {
        match (to.group, to.kind) {
            ("", "ConfigMap") => Some(Self::ConfigMap),
            ("", "Secret") => Some(Self::Secret),
            ("" | "certificates.k8s.io", "ClusterTrustBundle") => Some(Self::TrustBundle),
            _ => None,
        }
    }
}

/// Why a reference leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// No ReferenceGrant lets it.
    Permission,
    /// It names a kind that keeps nothing of the sort.
    Kind,
    /// There is no such object.
    Missing,
    /// It holds several things, and none has the right key.
    Unnamed,
    /// What it holds can't be read.
    Unreadable,
}

/// A reference that leads nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unusable<'a> {
    /// Why.
    pub(crate) why: Why,
    to: Referent<'a>,
    key: &'static str,
}

impl Unusable<'_> {
    /// Told on Gateways, and on policies and routes of their API.
    pub(crate) fn told(&self) -> String {
        let Referent {
            kind, namespace, name, ..
        } = self.to;
        match (self.why, Keeper::of(self.to)) {
            (Why::Permission, _) => format!("{kind} {namespace}/{name} is not permitted by any ReferenceGrant"),
            (Why::Kind, _) | (_, None) => "Unsupported reference kind, supported kinds are ConfigMap, Secret, and \
                                           ClusterTrustBundle in caCertificateRefs"
                .to_owned(),
            (Why::Missing, Some(Keeper::TrustBundle)) => format!("cluster trust bundle {name} not found"),
            (Why::Missing, Some(Keeper::ConfigMap)) => format!("configmap {name} not found in namespace {namespace}"),
            (Why::Missing, Some(Keeper::Secret)) => format!("secret {name} not found in namespace {namespace}"),
            (_, Some(Keeper::TrustBundle)) => format!("no ca found in cluster trust bundle {name}"),
            (_, Some(_)) => format!("no ca found in {} {name}", kind.to_ascii_lowercase()),
        }
    }

    /// Told on policies of our own API, within a sentence.
    pub(crate) fn clause(&self) -> String {
        let Self { why, to, key } = self;
        let Referent {
            kind, namespace, name, ..
        } = to;
        let word = match Keeper::of(*to) {
            Some(Keeper::TrustBundle) => (*kind).to_owned(),
            Some(_) | None => kind.to_ascii_lowercase(),
        };
        match why {
            Why::Permission => format!("{kind} {namespace}/{name} is not permitted by any ReferenceGrant"),
            Why::Kind => format!("unsupported reference kind {kind}"),
            Why::Missing if Keeper::of(*to) == Some(Keeper::TrustBundle) => format!("ref {word} [{name}] not found"),
            Why::Missing => format!("{word} {namespace}/{name} does not exist"),
            Why::Unnamed => {
                format!("ref {word} [{name}] has none of the expected keys [{key}] and more than one entry")
            }
            Why::Unreadable => format!("ref {word} [{name}] holds nothing that can be read under {key}"),
        }
    }
}

/// The certificates behind a reference, PEM.
pub(crate) fn bundle<'a, 'b>(
    reader: &Reader<'a>,
    from: Referrer<'_>,
    to: Referent<'b>,
) -> Result<&'a str, Unusable<'b>> {
    let key = "ca.crt";
    let text = text(reader, from, to, key);
    let text = text.and_then(|text| match certificate::is_bundle(text.as_bytes()) {
        true => Ok(text),
        false => Err(Why::Unreadable),
    });
    text.map_err(|why| Unusable { why, to, key })
}

/// The lists of revoked certificates behind a reference, PEM.
pub(crate) fn revocations<'a, 'b>(
    reader: &Reader<'a>,
    from: Referrer<'_>,
    to: Referent<'b>,
) -> Result<&'a str, Unusable<'b>> {
    let key = "ca.crl";
    let text = match Keeper::of(to) {
        Some(Keeper::TrustBundle) => Err(Why::Kind),
        Some(_) | None => text(reader, from, to, key),
    };
    text.map_err(|why| Unusable { why, to, key })
}

/// What stands under a key. Permission is asked first, so that a missing grant is all that can be learnt.
fn text<'a>(reader: &Reader<'a>, from: Referrer<'_>, to: Referent<'_>, key: &str) -> Result<&'a str, Why> {
    let keeper = Keeper::of(to);
    if keeper != Some(Keeper::TrustBundle) && !is_permitted(reader, from, to) {
        return Err(Why::Permission);
    }
    let id = reader.id(to.namespace, to.name);
    let bytes = match keeper.ok_or(Why::Kind)? {
        Keeper::ConfigMap => {
            let map = reader.config_map(id).ok_or(Why::Missing)?;
            under(key, map.data.iter().map(|(key, text)| (key, text.as_bytes())))
        }
        Keeper::Secret => {
            let secret = reader.secret(id).ok_or(Why::Missing)?;
            under(key, secret.data.iter().map(|(key, bytes)| (&**key, &**bytes.expose())))
        }
        Keeper::TrustBundle => {
            let id = Id {
                namespace: Interner::EMPTY,
                name: reader.sym(to.name),
            };
            let bundle = reader.cluster_trust_bundle(id).ok_or(Why::Missing)?;
            Ok(bundle.spec.trust_bundle.as_bytes())
        }
    };
    std::str::from_utf8(bytes?).map_err(|_| Why::Unreadable)
}

/// What stands under a key, else the only thing there is.
fn under<'a>(key: &str, mut entries: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>) -> Result<&'a [u8], Why> {
    let missing = if entries.len() > 1 {
        Why::Unnamed
    } else {
        Why::Unreadable
    };
    let is_alone = entries.len() == 1;
    let found = entries.find(|(name, _)| *name == key || is_alone);
    found.map(|(_, bytes)| bytes).ok_or(missing)
}

/// Puts together what is usable, and what is wrong with the rest.
pub(crate) fn join<'a, E>(texts: impl Iterator<Item = Result<&'a str, E>>) -> (String, Vec<E>) {
    let (mut joined, mut problems) = (String::new(), Vec::new());
    for text in texts {
        match text {
            Ok(text) => {
                joined.push_str(text.trim());
                joined.push('\n');
            }
            Err(problem) => problems.push(problem),
        }
    }
    (joined, problems)
}
