//! Wasm modules that proxies are to run: where they come from, and what is told of them. Their bytes never come here.

use edge_ir::SecretBytes;
use std::{fmt, sync::Arc};

/// A Wasm module that is asked for. Where anything of it changes, it is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WantedModule {
    /// Where it is.
    pub source: ModuleSource,
    /// SHA-256 that it must have, in 64 lowercase hexadecimal digits: of the file, or of the image's manifest.
    pub sha256: Option<Arc<str>>,
    /// Whether it is looked at again.
    pub look: ModuleLook,
    /// Who vouches for the server (PEM); whom the machine trusts when absent.
    pub authorities: Option<Arc<str>>,
    /// What the registry is shown: the content of a `.dockerconfigjson`.
    pub credentials: Option<SecretBytes>,
}

/// Where a module is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleSource {
    /// A file behind a URL, of scheme `http` or `https`.
    Url(Arc<str>),
    /// An image of a registry.
    Image(ImageReference),
}

/// Whether a module that is there is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleLook {
    /// It stays what it was.
    Once,
    /// It may become another.
    Again,
}

/// What came of fetching a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundModule {
    /// It is there, and proxies can have it.
    Here(Module),
    /// It can't be had, for this reason: part of a sentence that begins with what was fetched.
    Failed(Arc<str>),
}

/// A module that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// SHA-256 of its bytes, in 64 lowercase hexadecimal digits.
    pub sha256: Arc<str>,
    /// SHA-256 of the manifest of the image that it came in.
    pub image: Option<Arc<str>>,
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Image(image) => write!(f, "oci://{image}"),
        }
    }
}

/// The name of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageReference {
    /// Host of the registry, with a port where it isn't the usual one.
    pub registry: Arc<str>,
    /// Path of the repository there.
    pub repository: Arc<str>,
    /// Which of its images.
    pub version: ImageVersion,
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageVersion {
    /// The one that has this tag now.
    Tag(Arc<str>),
    /// The one with this digest: SHA-256 of its manifest in 64 lowercase hexadecimal digits.
    Digest(Arc<str>),
}

/// The registry of names without one.
const USUAL_REGISTRY: &str = "docker.io";
/// Where its own images are.
const USUAL_FOLDER: &str = "library";
/// The tag of names without one.
const USUAL_TAG: &str = "latest";
/// Longest path of a repository, and longest tag (OCI Distribution Specification).
const LONGEST_PATH: usize = 255;
const LONGEST_TAG: usize = 128;

impl ImageReference {
    /// Reads `[oci://][host[:port]/]path[:tag][@sha256:digest]`, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix("oci://").unwrap_or(text);
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        // A first part that can be no folder is a host, as every tool takes it.
        let is_host = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (registry, path) = match rest.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => (USUAL_REGISTRY, rest),
        };
        let (path, tag) = match path.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        if !is_authority(registry) {
            return Err("the host of the registry is none");
        }
        if path.len() > LONGEST_PATH || !path.split('/').all(is_folder) {
            return Err("the repository must be lowercase words with / between them");
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("the tag must be letters, digits, dots, underscores and hyphens");
        }
        let digest = digest.map(|digest| digest.strip_prefix("sha256:").and_then(sha256).ok_or(()));
        let version = match (digest, tag) {
            (Some(Err(())), _) => return Err("the digest must be sha256: and 64 hexadecimal digits"),
            (Some(Ok(digest)), _) => ImageVersion::Digest(digest),
            (None, tag) => ImageVersion::Tag(tag.unwrap_or(USUAL_TAG).into()),
        };
        let is_short = registry == USUAL_REGISTRY && !path.contains('/');
        Ok(Self {
            registry: registry.to_ascii_lowercase().into(),
            repository: match is_short {
                true => format!("{USUAL_FOLDER}/{path}").into(),
                false => path.into(),
            },
            version,
        })
    }

    /// The host of the registry.
    pub fn host(&self) -> &str {
        self.registry.split(':').next().unwrap_or_default()
    }

    /// Whether it leads to another image when somebody moves its tag, as everybody expects of this one.
    pub fn is_moving(&self) -> bool {
        matches!(&self.version, ImageVersion::Tag(tag) if &**tag == USUAL_TAG)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match &self.version {
            ImageVersion::Tag(tag) => write!(f, ":{tag}"),
            ImageVersion::Digest(digest) => write!(f, "@sha256:{digest}"),
        }
    }
}

/// 64 hexadecimal digits, in lower case.
pub(crate) fn sha256(text: &str) -> Option<Arc<str>> {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| text.to_ascii_lowercase().into())
}

fn is_authority(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    !host.is_empty() && host.bytes().all(is_name) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_folder(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(is_word))
        && text
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= LONGEST_TAG
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "2D89c4c6ab2a1c615c7696ed37ade9e50654ac70384b5d45100eb08e62130ff4";

    #[test]
    fn names_of_images_are_made_whole() {
        let on_a_port = ImageReference::parse("registry.example:5000/a").expect("a name");
        assert_eq!(on_a_port.host(), "registry.example");
        let pinned = format!("oci://Registry.example/a/b:v1@sha256:{DIGEST}");
        let whole = format!("registry.example/a/b@sha256:{}", DIGEST.to_ascii_lowercase());
        for (text, found) in [
            ("oci://www.example.com/filter:v1.0.0", "www.example.com/filter:v1.0.0"),
            (
                "www.example.com:8080/wasm/filter-3",
                "www.example.com:8080/wasm/filter-3:latest",
            ),
            ("localhost/a", "localhost/a:latest"),
            ("filter", "docker.io/library/filter:latest"),
            ("team/filter:x", "docker.io/team/filter:x"),
            (&pinned, &whole),
        ] {
            let image = ImageReference::parse(text).expect(text);
            assert_eq!(image.to_string(), found);
            assert_eq!(image.is_moving(), found.ends_with(":latest"));
        }
    }

    #[test]
    fn what_names_no_image_is_refused() {
        for (text, why) in [
            ("", "repository"),
            ("https://a.example/b", "host"),
            ("a.example/", "repository"),
            ("a.example/Upper", "repository"),
            ("a.example/../b", "repository"),
            ("a.example/b:", "tag"),
            ("a.example/b:x/y", "tag"),
            ("a.example:0/b", "host"),
            ("user@a.example/b", "digest"),
            ("a.example/b@sha256:12", "digest"),
        ] {
            let error = ImageReference::parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
