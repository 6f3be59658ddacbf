//! Wasm modules in images, pulled as the OCI Distribution Specification says: the manifest of the image, then the layer
//! that holds the module.

use super::{
    client::{Ask, Client, Reply, is_of_one_server},
    fetch::{MODULE_SIZE, ok},
    image,
};
use crate::modules::digest;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use edge_ir::SecretBytes;
use edge_translate::{ImageReference, ImageVersion, WantedModule};
use http::{HeaderValue, StatusCode, Uri, header};
use serde::Deserialize;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};
use tokio::task;

mod challenge;

use challenge::Challenge;

/// The largest manifest, as registries have it.
const MANIFEST_SIZE: usize = 4 << 20;
/// The largest answer of a server of tokens.
const TOKEN_SIZE: usize = 1 << 20;
/// Kinds of manifests.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";
/// Layers that are a module themselves.
const MODULES: [&str; 2] = ["application/vnd.module.wasm.content.layer.v1+wasm", "application/wasm"];
/// The registry that tools know by another name than its own, and where it is.
const HUB: &str = "docker.io";
const HUB_HOST: &str = "registry-1.docker.io";
/// The name under which it stands in secrets.
const HUB_IN_SECRETS: &str = "index.docker.io";

/// A module, and the digest of the manifest that the policy speaks of.
pub(super) struct Pulled {
    pub(super) module: Bytes,
    pub(super) manifest: Arc<str>,
}

/// What is read of a manifest, and of a list of them.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Part>,
    #[serde(default)]
    manifests: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

/// Pulls the module of an image.
pub(super) async fn pull(client: &Client, image: &ImageReference, wanted: &WantedModule) -> Result<Pulled, String> {
    let mut session = Session::new(client, image, wanted)?;
    let version = match &image.version {
        ImageVersion::Tag(tag) => tag.to_string(),
        ImageVersion::Digest(digest) => format!("sha256:{digest}"),
    };
    let (mut manifest, mut sha256) = session.manifest(&version).await?;
    if let ImageVersion::Digest(named) = &image.version
        && *named != sha256
    {
        return Err(format!("its manifest has digest {sha256}"));
    }
    if manifest.layers.is_empty() {
        let list = sha256;
        let one = one_of(&manifest.manifests).ok_or("the image has no layers")?;
        (manifest, sha256) = session.checked_manifest(one).await?;
        // The policy may mean either.
        if wanted.sha256.as_ref() == Some(&list) {
            sha256 = list;
        }
    }
    let is_module = |layer: &&Part| MODULES.contains(&&*layer.media_type);
    let whole = manifest.layers.iter().find(is_module);
    let layer = whole.or(manifest.layers.last()).ok_or("the image has no layers")?;
    let bytes = session.blob(&layer.digest).await?;
    let module = match whole {
        Some(_) => bytes,
        None => {
            let unpacked = task::spawn_blocking(move || image::module(&bytes, MODULE_SIZE)).await;
            unpacked.map_err(|error| format!("its layer can't be unpacked: {error}"))??
        }
    };
    Ok(Pulled {
        module,
        manifest: sha256,
    })
}

/// Of images for several platforms one: a module is the same on all of them.
fn one_of(manifests: &[Part]) -> Option<&str> {
    let usual = |part: &&Part| {
        let platform = part.platform.as_ref();
        platform.is_some_and(|platform| (&*platform.os, &*platform.architecture) == ("linux", "amd64"))
    };
    let part = manifests.iter().find(usual).or(manifests.first())?;
    Some(&part.digest)
}

/// The hexadecimal digits of a digest. No other kind is in use.
fn sha256_of(digest: &str) -> Result<&str, String> {
    let digits = digest.strip_prefix("sha256:").filter(|digits| digits.len() == 64);
    digits.ok_or_else(|| "the image names parts by another digest than sha256".to_owned())
}

/// Requests to one repository.
struct Session<'a> {
    client: &'a Client,
    base: String,
    /// Whether the registry is asked in TLS.
    is_secure: bool,
    authorities: Option<&'a str>,
    /// What the registry is shown of who asks: user and password.
    secret: Option<HeaderValue>,
    /// What it gave for that.
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    fn new(client: &'a Client, image: &ImageReference, wanted: &'a WantedModule) -> Result<Self, String> {
        let host = match &*image.registry {
            HUB => HUB_HOST,
            other => other,
        };
        // A registry of this machine speaks as it is started by default, as every tool takes it.
        let name = host.split(':').next().unwrap_or_default();
        let is_local = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let is_secure = !is_local || wanted.authorities.is_some();
        let scheme = if is_secure { "https" } else { "http" };
        let secret = match &wanted.credentials {
            Some(credentials) => Some(basic(credentials, &image.registry)?),
            None => None,
        };
        Ok(Self {
            client,
            base: format!("{scheme}://{host}/v2/{}", image.repository),
            is_secure,
            authorities: wanted.authorities.as_deref(),
            secret,
            authorization: None,
        })
    }

    async fn manifest(&mut self, version: &str) -> Result<(Manifest, Arc<str>), String> {
        let body = self
            .part(&format!("manifests/{version}"), MANIFESTS, MANIFEST_SIZE)
            .await?;
        let manifest = serde_json::from_slice(&body).map_err(|error| format!("its manifest can't be read: {error}"))?;
        Ok((manifest, digest(&body)))
    }

    async fn checked_manifest(&mut self, named: &str) -> Result<(Manifest, Arc<str>), String> {
        let (manifest, sha256) = self.manifest(named).await?;
        match sha256_of(named)? == &*sha256 {
            true => Ok((manifest, sha256)),
            false => Err(format!("a manifest of it has digest {sha256}, not {named}")),
        }
    }

    async fn blob(&mut self, named: &str) -> Result<Bytes, String> {
        let wanted = sha256_of(named)?.to_owned();
        let body = self.part(&format!("blobs/{named}"), "*/*", MODULE_SIZE).await?;
        let sha256 = digest(&body);
        match wanted == *sha256 {
            true => Ok(body),
            false => Err(format!("a layer of it has digest {sha256}, not {wanted}")),
        }
    }

    /// A part of the repository. Where the registry asks who wants it, it is told, once; whom it merely leads to isn't.
    async fn part(&mut self, path: &str, accept: &str, most: usize) -> Result<Bytes, String> {
        let uri: Uri = format!("{}/{path}", self.base)
            .parse()
            .map_err(|error| format!("it has no URL: {error}"))?;
        let mut reply = self.ask(&uri, accept, most).await?;
        let is_asked = reply.status == StatusCode::UNAUTHORIZED && is_of_one_server(&reply.from, &uri);
        if is_asked && self.authorization.is_none() {
            self.authorization = Some(self.authorize(&reply).await?);
            reply = self.ask(&uri, accept, most).await?;
        }
        ok(reply.status, reply.body)
    }

    async fn ask(&self, uri: &Uri, accept: &str, most: usize) -> Result<Reply, String> {
        let ask = Ask {
            uri: uri.clone(),
            accept,
            authorization: self.authorization.clone(),
            authorities: self.authorities,
            most,
        };
        self.client.follow(ask).await
    }

    /// What the registry wants to be shown.
    async fn authorize(&self, reply: &Reply) -> Result<HeaderValue, String> {
        let challenges = reply.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenges
            .filter_map(|value| Challenge::read(value.to_str().ok()?))
            .next();
        match challenge {
            Some(Challenge::Basic) => self.secret.clone().ok_or_else(|| {
                "status code: 401: the registry asks for a user and a password: name a pull secret".to_owned()
            }),
            Some(Challenge::Bearer(asked)) => self.token(asked.url()).await,
            None => Err("status code: 401".to_owned()),
        }
    }

    /// Asks for a token, where the registry says that there are some.
    async fn token(&self, url: Option<String>) -> Result<HeaderValue, String> {
        let uri: Uri = url
            .and_then(|url| url.parse().ok())
            .ok_or("the registry names no URL for tokens")?;
        if self.is_secure && uri.scheme_str() != Some("https") {
            return Err("the registry wants tokens to be asked for in clear".to_owned());
        }
        let ask = Ask {
            uri,
            accept: "application/json",
            authorization: self.secret.clone(),
            authorities: self.authorities,
            most: TOKEN_SIZE,
        };
        let reply = self
            .client
            .get(&ask)
            .await
            .map_err(|why| format!("no token is to be had: {why}"))?;
        let body = ok(reply.status, reply.body).map_err(|why| format!("no token is to be had: {why}"))?;
        // What it says stays out of messages.
        let token: Token = serde_json::from_slice(&body).map_err(|_| "the answer for a token can't be read")?;
        let token = token
            .token
            .or(token.access_token)
            .ok_or("the answer for a token holds none")?;
        sensitive(&format!("Bearer {token}"))
    }
}

/// What a server of tokens answers.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// The content of a pull secret.
#[derive(Deserialize)]
struct PullSecret {
    #[serde(default)]
    auths: BTreeMap<String, Account>,
}

#[derive(Deserialize)]
struct Account {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// User and password for a registry, as they are shown. Messages tell nothing of what the secret holds.
fn basic(credentials: &SecretBytes, registry: &str) -> Result<HeaderValue, String> {
    let secret: PullSecret = serde_json::from_slice(credentials.expose())
        .map_err(|_| "the pull secret can't be read: it is no docker config")?;
    let is_meant = |name: &&String| {
        let name = name
            .strip_prefix("https://")
            .or(name.strip_prefix("http://"))
            .unwrap_or(name);
        let host = name.split('/').next().unwrap_or_default();
        host.eq_ignore_ascii_case(registry) || (registry == HUB && [HUB_HOST, HUB_IN_SECRETS].contains(&host))
    };
    let account = secret.auths.iter().find(|(name, _)| is_meant(name));
    let (_, account) = account.ok_or_else(|| format!("the pull secret has nothing for {registry}"))?;
    let encoded = match (&account.auth, &account.username, &account.password) {
        (Some(auth), ..) if !auth.is_empty() => auth.clone(),
        (_, Some(user), Some(password)) => STANDARD.encode(format!("{user}:{password}")),
        _ => return Err(format!("the pull secret has no user and password for {registry}")),
    };
    sensitive(&format!("Basic {encoded}"))
}

fn sensitive(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "what the registry is to be shown is no header")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_secret_is_for_its_registry_alone() {
        let secret = |text: &str| SecretBytes::new(text.as_bytes());
        let told =
            |text: &str, registry: &str| basic(&secret(text), registry).map(|value| value.to_str().unwrap().to_owned());
        let one = r#"{"auths": {"https://a.example/v2/": {"username": "u", "password": "p"}, "index.docker.io/v1/": {"auth": "eDp5"}}}"#;
        assert_eq!(told(one, "a.example").unwrap(), "Basic dTpw");
        assert_eq!(told(one, "docker.io").unwrap(), "Basic eDp5");
        assert_eq!(
            told(one, "b.example").unwrap_err(),
            "the pull secret has nothing for b.example"
        );
        let error = told(r#"{"auths": "swordfish"}"#, "a.example").unwrap_err();
        assert!(
            error.contains("can't be read") && !error.contains("swordfish"),
            "{error}"
        );
        assert!(basic(&secret(one), "a.example").unwrap().is_sensitive());
    }
}
