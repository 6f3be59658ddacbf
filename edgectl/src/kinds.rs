//! Kinds by what people may call them on the command line: one table for every command that takes a kind.

use edge_translate::api::Kind;

/// What else a kind may be called: first what the cluster calls it, then what people are used to.
const fn short(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::GatewayClass => &["gc"],
        Kind::Gateway => &["gtw", "gw"],
        Kind::ListenerSet => &["lset"],
        Kind::HttpRoute => &["hr"],
        Kind::GrpcRoute => &["gr"],
        Kind::TlsRoute => &["tr"],
        Kind::TcpRoute => &["tcr"],
        Kind::UdpRoute => &["ur", "udr"],
        Kind::ReferenceGrant => &["refgrant", "rg"],
        Kind::BackendTlsPolicy => &["btlspolicy", "btlsp"],
        Kind::Namespace => &["ns"],
        Kind::Service => &["svc"],
        Kind::ServiceImport => &["si"],
        Kind::EndpointSlice => &["eps"],
        Kind::Secret => &["sec"],
        Kind::ConfigMap => &["cm"],
        Kind::ClusterTrustBundle => &["ctb"],
        Kind::EdgeProxy => &["eproxy", "ep"],
        Kind::Backend => &["be"],
        Kind::HttpRouteFilter => &["hrf"],
        Kind::ClientTrafficPolicy => &["ctp"],
        Kind::BackendTrafficPolicy => &["btp"],
        Kind::SecurityPolicy => &["sp"],
        Kind::EdgeExtensionPolicy => &["eep"],
        Kind::EdgePatchPolicy => &["epp", "EnvoyPatchPolicy"],
        // Only a configuration says which these are.
        Kind::Custom | Kind::CustomPolicy => &[],
    }
}

/// The kind of a name, whichever of its names that is; case doesn't matter.
pub fn find(text: &str) -> Option<Kind> {
    let is = |name: &str| name.eq_ignore_ascii_case(text);
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|kind| is(kind.as_str()) || short(*kind).iter().any(|name| is(name)))
}

/// Kinds, each with the first of its short names, for messages.
pub fn list(kinds: impl Iterator<Item = Kind>) -> String {
    let named = kinds.map(|kind| match short(kind).first() {
        Some(short) => format!("{kind} ({short})"),
        None => kind.to_string(),
    });
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{collections::BTreeSet, fs, path::Path};

    /// Definitions of kinds: ours, and those of Gateway API.
    fn definitions() -> Vec<Value> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway-api");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
        let mut found = crate::install::objects::definitions().unwrap();
        found.extend(
            files.flat_map(|path| serde_yaml::from_multiple::<Value>(&fs::read_to_string(path).unwrap()).unwrap()),
        );
        found.retain(|object| object["kind"] == "CustomResourceDefinition");
        found
    }

    #[test]
    fn short_names_are_those_of_the_definitions() {
        let mut seen = 0;
        for definition in definitions() {
            let spec = &definition["spec"];
            let (group, names) = (spec["group"].as_str().unwrap(), &spec["names"]);
            let kind = Kind::of(group, names["kind"].as_str().unwrap()).unwrap();
            for name in names["shortNames"].as_array().into_iter().flatten() {
                assert_eq!(short(kind)[0], name.as_str().unwrap(), "{kind}");
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen} short names");
    }

    #[test]
    fn a_name_is_of_one_kind() {
        let mut names = BTreeSet::new();
        for kind in Kind::ALL {
            for name in short(*kind).iter().copied().chain([kind.as_str()]) {
                assert!(names.insert(name.to_lowercase()), "{name}");
                assert_eq!(find(&name.to_uppercase()), Some(*kind));
            }
        }
        assert_eq!(find("pod"), None);
    }
}
