//! Wasm modules, fetched from real servers and registries of the test, and served to whoever knows their digest.

use super::*;
use crate::{
    certs::{Existing, ensure},
    fetches::client::Client,
    http::serve_each,
    modules::digest,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use edge_ir::SecretBytes;
use edge_translate::{FoundModule, ImageReference, Module, ModuleLook, ModuleSource, WantedModule};
use flate2::{Compression, write::GzEncoder};
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, fs, io::Write as _};

/// The smallest module.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

type Answer = Response<Full<Bytes>>;

/// What a server sees of a request.
struct Seen {
    path: String,
    host: String,
    /// What it is shown of who asks.
    shown: String,
}

impl Seen {
    fn of(request: &Request<Incoming>) -> Self {
        let text = |name| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        Self {
            path: request.uri().to_string(),
            host: text(header::HOST),
            shown: text(header::AUTHORIZATION),
        }
    }
}

/// A server that answers by what it sees.
async fn peer(answer: impl Fn(&Seen) -> Answer + Clone + Send + 'static) -> (SocketAddr, Task) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = http::listen(any, "tests", "").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = Task::spawn("peer", |stop| {
        serve_each(listener, stop, move |socket| {
            let answer = answer.clone();
            async move {
                let service = service_fn(move |request| {
                    let answer = answer(&Seen::of(&request));
                    async move { Ok::<_, Infallible>(answer) }
                });
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            }
        })
    });
    (address, task)
}

fn found(body: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(body.into()))
}

fn status(code: u16) -> Answer {
    Response::builder().status(code).body(Full::default()).unwrap()
}

fn redirect(to: &str) -> Answer {
    let response = Response::builder().status(302).header(header::LOCATION, to);
    response.body(Full::default()).unwrap()
}

fn wanted(source: ModuleSource) -> WantedModule {
    WantedModule {
        source,
        sha256: None,
        look: ModuleLook::Once,
        authorities: None,
        credentials: None,
    }
}

fn at(address: SocketAddr, path: &str) -> Question {
    let url = format!("http://{address}{path}");
    Question::Module(Arc::new(wanted(ModuleSource::Url(url.into()))))
}

/// Modules with a server, and the authority that vouches for it.
struct Site {
    fetcher: Fetcher,
    modules: Modules,
    port: u16,
    authority: String,
    _folder: tempfile::TempDir,
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    ensure(folder.path(), "ns", "cluster.local", Existing::Overwrite).unwrap();
    let files = TlsFiles::below(folder.path(), CONTROLLER);
    let [port] = e2e::ports::free().unwrap();
    let modules = Modules::new(SocketAddr::from(([127, 0, 0, 1], port)), files.clone());
    Site {
        fetcher: Fetcher::new(modules.clone()),
        modules,
        port,
        authority: fs::read_to_string(files.authority).unwrap(),
        _folder: folder,
    }
}

impl Site {
    /// What a proxy is answered.
    async fn fetch(&self, path: &str) -> (StatusCode, Bytes) {
        let ask = Ask {
            uri: format!("https://localhost:{}/{path}", self.port).parse().unwrap(),
            accept: "*/*",
            authorization: None,
            authorities: Some(&self.authority),
            most: 1 << 20,
        };
        let reply = Client::default().get(&ask).await.unwrap();
        (reply.status, reply.body)
    }
}

fn told(answer: Result<Fact, String>) -> Module {
    match answer {
        Ok(Fact::Module(_, FoundModule::Here(module))) => module,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_module_is_fetched_wherever_its_url_leads_and_served_by_its_digest() {
    let (address, _peer) = peer(|seen| match &*seen.path {
        "/moved" => redirect("/there?x"),
        "/there?x" => found(MODULE),
        "/round" => redirect("/round"),
        "/text" => found("hello"),
        "/away" => redirect("file:///etc/passwd"),
        _ => status(404),
    })
    .await;
    let site = site();
    let module = told(site.fetcher.fetch(&at(address, "/moved#part")).await);
    assert_eq!((&*module.sha256, module.image), (&*digest(MODULE), None));
    let served = format!("{}.wasm", module.sha256);
    assert_eq!(site.fetch(&served).await, (StatusCode::OK, MODULE.into()));
    for path in ["", "other.wasm", &module.sha256, "../etc/passwd"] {
        assert_eq!(site.fetch(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    for (path, why) in [
        ("/gone", "status code: 404"),
        ("/round", "more than 5 times"),
        ("/text", "no Wasm module"),
        ("/away", "redirected"),
    ] {
        let error = site.fetcher.fetch(&at(address, path)).await.unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
    // What nobody asks for any more is served to nobody.
    site.modules.retain(|_| false);
    assert_eq!(site.fetch(&served).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_module_that_cant_be_served_cant_be_had() {
    let (address, _peer) = peer(|_| found(MODULE)).await;
    let site = site();
    let taken = std::net::TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let error = site.fetcher.fetch(&at(address, "/")).await.unwrap_err();
    assert!(error.contains("--wasm-address"), "{error}");
    drop(taken);
    told(site.fetcher.fetch(&at(address, "/")).await);
}

/// An image in a registry.
struct Image {
    layer: Vec<u8>,
    media_type: &'static str,
    /// Whether its tag leads to a list of images.
    is_listed: bool,
}

impl Image {
    fn manifest(&self) -> String {
        let (media_type, digest) = (self.media_type, digest(&self.layer));
        format!(r#"{{"layers": [{{"mediaType": "{media_type}", "digest": "sha256:{digest}"}}]}}"#)
    }

    /// What a registry answers that wants tokens, for a user and a password.
    fn answer(&self, seen: &Seen) -> Answer {
        let manifest = self.manifest();
        let image = digest(manifest.as_bytes());
        let user = format!("Basic {}", STANDARD.encode("user:swordfish"));
        match &*seen.path {
            "/token?service=reg&scope=repository%3Ateam%2Ffilter%3Apull" if seen.shown == user => {
                found(r#"{"token": "t0"}"#)
            }
            path if path.starts_with("/token") => status(401),
            _ if seen.shown != "Bearer t0" => {
                let realm = format!("http://{}/token", seen.host);
                let asked = format!(r#"Bearer realm="{realm}",service="reg",scope="repository:team/filter:pull""#);
                let response = Response::builder().status(401).header(header::WWW_AUTHENTICATE, asked);
                response.body(Full::default()).unwrap()
            }
            "/v2/team/filter/manifests/v1" if self.is_listed => {
                found(format!(r#"{{"manifests": [{{"digest": "sha256:{image}"}}]}}"#))
            }
            "/v2/team/filter/manifests/v1" => found(manifest),
            path if path == format!("/v2/team/filter/manifests/sha256:{image}") => found(manifest),
            path if path == format!("/v2/team/filter/blobs/sha256:{}", digest(&self.layer)) => {
                found(self.layer.clone())
            }
            _ => status(404),
        }
    }

    /// A registry with this image.
    async fn served(self) -> (SocketAddr, Task) {
        let image = Arc::new(self);
        peer(move |seen| image.answer(seen)).await
    }
}

/// The image of a tag, shown a pull secret for this user.
fn image(address: SocketAddr, user: Option<&str>) -> WantedModule {
    let named = ImageReference::parse(&format!("oci://{address}/team/filter:v1")).unwrap();
    let credentials = user.map(|user| {
        let auth = STANDARD.encode(user);
        SecretBytes::new(format!(r#"{{"auths": {{"{address}": {{"auth": "{auth}"}}}}}}"#).into_bytes())
    });
    WantedModule {
        credentials,
        ..wanted(ModuleSource::Image(named))
    }
}

fn packed() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(MODULE.len() as u64);
    archive.append_data(&mut header, "plugin.wasm", MODULE).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&archive.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn modules_are_pulled_from_images_of_every_form() {
    let site = site();
    for (layer, media_type, is_listed) in [
        (
            MODULE.to_vec(),
            "application/vnd.module.wasm.content.layer.v1+wasm",
            false,
        ),
        (packed(), "application/vnd.oci.image.layer.v1.tar+gzip", true),
    ] {
        let pushed = Image {
            layer,
            media_type,
            is_listed,
        };
        let manifest = digest(pushed.manifest().as_bytes());
        let (address, _registry) = pushed.served().await;
        let wanted = image(address, Some("user:swordfish"));
        let module = told(site.fetcher.fetch(&Question::Module(Arc::new(wanted))).await);
        assert_eq!((&*module.sha256, module.image), (&*digest(MODULE), Some(manifest)));
    }
}

#[tokio::test]
async fn a_registry_that_refuses_is_told_of_without_secrets() {
    let site = site();
    let pushed = Image {
        layer: b"text".to_vec(),
        media_type: "application/wasm",
        is_listed: false,
    };
    let (address, _registry) = pushed.served().await;
    for (user, why) in [
        (None, "no token is to be had: status code: 401"),
        (Some("user:pike"), "no token is to be had: status code: 401"),
        (Some("user:swordfish"), "it is no Wasm module"),
    ] {
        let question = Question::Module(Arc::new(image(address, user)));
        assert!(!format!("{question:?}").contains("user:"), "{question:?}");
        let error = site.fetcher.fetch(&question).await.unwrap_err();
        assert_eq!(error, why);
    }
    let pinned = WantedModule {
        source: ModuleSource::Image(
            ImageReference::parse(&format!("{address}/team/filter@sha256:{}", "0".repeat(64))).unwrap(),
        ),
        ..image(address, Some("user:swordfish"))
    };
    let error = site
        .fetcher
        .fetch(&Question::Module(Arc::new(pinned)))
        .await
        .unwrap_err();
    assert_eq!(error, "status code: 404");
}

#[tokio::test]
async fn whom_a_registry_leads_to_is_shown_no_secret() {
    let site = site();
    let secrets = Arc::new(AtomicUsize::new(0));
    let seen_there = Arc::clone(&secrets);
    let (elsewhere, _elsewhere) = peer(move |seen| {
        seen_there.fetch_add(usize::from(!seen.shown.is_empty()), Ordering::Relaxed);
        let asked = format!(r#"Bearer realm="http://{}/token""#, seen.host);
        let response = Response::builder().status(401).header(header::WWW_AUTHENTICATE, asked);
        response.body(Full::default()).unwrap()
    })
    .await;
    let (address, _registry) = peer(move |_| redirect(&format!("http://{elsewhere}/m"))).await;
    let question = Question::Module(Arc::new(image(address, Some("user:swordfish"))));
    assert_eq!(site.fetcher.fetch(&question).await.unwrap_err(), "status code: 401");
    assert_eq!(secrets.load(Ordering::Relaxed), 0);
}
