//! Where certificates and authorities come from: a Secret that holds them, or one of type `gateway.edge/sds` that says
//! which server of secrets beside the proxy has them (Envoy's SDS), and what they are called there.
//!
//! Whoever may write such a Secret makes proxies ask for whatever their server gives them, so the controller's
//! configuration has to allow it.

use super::backends::cluster;
use crate::{api, engine::reader::Reader, name::hashed, settings::Feature};
use edge_ir::{
    AppProtocol, Cluster, ClusterName, Discovery, Endpoint, EndpointAddress, EndpointHealth, Secret, SecretSource,
};
use std::sync::Arc;

/// Type of the Secrets that point to a server.
const TYPE: &str = "gateway.edge/sds";
/// Longest path of a socket in bytes, with the zero at its end (`sun_path`, unix(7)).
const LONGEST_PATH: usize = 107;

/// Whether a Secret points to a server, instead of holding something.
pub(crate) fn is_pointer(secret: &api::Secret) -> bool {
    *secret.r#type == *TYPE
}

/// A secret that a server beside the proxy has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pointer {
    /// Path of the server's socket.
    path: Arc<str>,
    /// What the server calls the secret.
    secret: Arc<str>,
}

/// Why a Secret points nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The configuration doesn't allow it.
    Disabled,
    /// It isn't complete, or can't be read.
    Invalid(String),
}

impl Pointer {
    /// Reads a Secret that [is one](is_pointer).
    pub(crate) fn read(reader: &Reader<'_>, secret: &api::Secret) -> Result<Self, Flaw> {
        if reader.settings().sds_api == Feature::Disabled {
            return Err(Flaw::Disabled);
        }
        let name = format!("{}/{}", secret.metadata.namespace, secret.metadata.name);
        let text = |key: &str| {
            let bytes = secret.data.get(key).map(|bytes| &**bytes.expose()).unwrap_or_default();
            let text = std::str::from_utf8(bytes).map(str::trim).unwrap_or_default();
            match text.is_empty() {
                true => Err(Flaw::Invalid(format!("no {key} found in SDS reference secret {name}"))),
                false => Ok(text),
            }
        };
        let (url, secret) = (text("url")?, text("secretName")?);
        let path = path(url)
            .map_err(|problem| Flaw::Invalid(format!("invalid URL in SDS reference secret {name}: {problem}")))?;
        Ok(Self {
            path: path.into(),
            secret: secret.into(),
        })
    }

    /// Proxies ask for it as the authority of the server (RFC 3986 §3.2), which knows no slashes. Where the path can't
    /// be told from the name, a hash of it stands behind. No backend is called so.
    fn cluster_name(&self) -> ClusterName {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let name: String = self.path.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        match self.path.chars().all(|c| is_plain(c) || c == '/') {
            true => format!("sds{name}").into(),
            false => format!("sds{name}{}", hashed(&self.path)).into(),
        }
    }

    fn source(&self) -> SecretSource {
        SecretSource::Server {
            server: self.cluster_name(),
            secret: Arc::clone(&self.secret),
        }
    }

    /// The cluster of the server.
    fn server(&self) -> Cluster {
        let endpoint = Endpoint {
            address: EndpointAddress::Pipe {
                path: Arc::clone(&self.path),
            },
            hostname: None,
            health: EndpointHealth::Serving,
        };
        cluster::of_one(self.cluster_name(), endpoint, AppProtocol::Http2, Discovery::Fixed)
    }
}

/// The path of a Unix socket, as it is or as `unix:` and the path. Servers of secrets listen on nothing else: what they
/// give away is for who is on the same machine.
fn path(url: &str) -> Result<&str, String> {
    let path = match url.split_once(':') {
        Some(("unix", path)) => path.strip_prefix("//").unwrap_or(path),
        Some((scheme, _)) if !scheme.contains('/') => return Err(format!("unsupported URL scheme: {scheme}")),
        _ => url,
    };
    if !path.starts_with('/') {
        return Err(format!("{path} is not an absolute path"));
    }
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return Err(format!(
            "the path must have at most {LONGEST_PATH} bytes, none of them zero"
        ));
    }
    Ok(path)
}

/// A certificate or authorities, wherever they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Provided {
    /// A secret of the fleet.
    Held(Arc<Secret>),
    /// A server has it.
    Elsewhere(Arc<Pointer>),
}

impl Provided {
    /// As listeners and clusters name it.
    pub(crate) fn source(&self) -> SecretSource {
        match self {
            Self::Held(secret) => secret.name.clone().into(),
            Self::Elsewhere(pointer) => pointer.source(),
        }
    }

    /// What a fleet has to hold for it.
    pub(crate) fn held(&self) -> Option<&Arc<Secret>> {
        match self {
            Self::Held(secret) => Some(secret),
            Self::Elsewhere(_) => None,
        }
    }
}

/// What a fleet has to have for what its listeners and clusters name, sorted by name, each once.
pub(crate) struct Needs {
    /// Secrets that it holds.
    pub(crate) secrets: Box<[Arc<Secret>]>,
    /// Clusters of servers.
    pub(crate) servers: Box<[Arc<Cluster>]>,
}

/// What a fleet needs for all of these.
pub(crate) fn needs(provided: impl IntoIterator<Item = Provided>) -> Needs {
    let (mut secrets, mut servers) = (Vec::new(), Vec::new());
    for one in provided {
        match one {
            Provided::Held(secret) => secrets.push(secret),
            Provided::Elsewhere(pointer) => servers.push(Arc::new(pointer.server())),
        }
    }
    secrets.sort_by(|a, b| a.name.cmp(&b.name));
    secrets.dedup_by(|a, b| a.name == b.name);
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers.dedup_by(|a, b| a.name == b.name);
    Needs {
        secrets: secrets.into(),
        servers: servers.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Pointer, path};

    #[test]
    fn servers_have_names_of_their_own() {
        let name = |path: &str| {
            let (path, secret) = (path.into(), "any".into());
            Pointer { path, secret }.cluster_name()
        };
        assert_eq!(&*name("/run/agent-1/sds.sock"), "sds_run_agent-1_sds.sock");
        let odd = ["/run/a_b", "/run/a:b", "/run/a b"].map(name);
        assert!(odd.iter().all(|name| name.starts_with("sds_run_a_b~")), "{odd:?}");
        assert!(odd[0] != odd[1] && odd[1] != odd[2] && odd[0] != odd[2], "{odd:?}");
    }

    #[test]
    fn servers_are_found_at_paths() {
        for url in ["/run/sds.sock", "unix:/run/sds.sock", "unix:///run/sds.sock"] {
            assert_eq!(path(url), Ok("/run/sds.sock"), "{url}");
        }
        assert_eq!(path("/run/a:b"), Ok("/run/a:b"));
        let fault = |url: &str| path(url).unwrap_err();
        assert_eq!(fault("https://sds.example.com"), "unsupported URL scheme: https");
        assert_eq!(fault("sds.sock"), "sds.sock is not an absolute path");
        assert_eq!(fault("unix:sds.sock"), "sds.sock is not an absolute path");
        assert!(fault(&format!("/{}", "x".repeat(107))).contains("at most 107 bytes"));
    }
}
