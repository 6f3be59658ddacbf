//! What translation asks of servers elsewhere: texts, and Wasm modules.

use super::{
    client::{Ask, Client},
    registry,
};
use crate::modules::{Modules, digest};
use bytes::Bytes;
use edge_translate::{Fact, Fetched, FoundModule, Module, ModuleSource, Question, WantedModule};
use http::{StatusCode, Uri};
use std::{sync::Arc, time::Duration};
use tokio::time;

/// The longest time for a document, and for a module.
const TIME: Duration = Duration::from_secs(10);
const MODULE_TIME: Duration = Duration::from_secs(120);
/// The largest document.
const SIZE: usize = 1 << 20;
/// The largest module.
pub(super) const MODULE_SIZE: usize = 64 << 20;
/// What every Wasm module begins with (WebAssembly Core Specification §5.5.16).
const MAGIC: &[u8] = b"\0asm";

/// Fetches what is asked for.
pub(super) struct Fetcher {
    client: Client,
    /// Where modules go.
    modules: Modules,
}

impl Fetcher {
    pub(super) fn new(modules: Modules) -> Self {
        Self {
            client: Client::default(),
            modules,
        }
    }

    /// The answer to a question, or why there is none.
    pub(super) async fn fetch(&self, question: &Question) -> Result<Fact, String> {
        match question {
            Question::Document(url) => {
                let text = within(TIME, self.text(url)).await?;
                Ok(Fact::Document(Arc::clone(url), Fetched::Text(text)))
            }
            Question::Module(wanted) => {
                let (module, bytes) = within(MODULE_TIME, self.module(wanted)).await?;
                // First, so that who hears of it can have it.
                self.modules.put(wanted, &module.sha256, bytes).await?;
                Ok(Fact::Module(Arc::clone(wanted), FoundModule::Here(module)))
            }
            Question::Time(_) | Question::Port(_) => Err("nobody can be asked for it".to_owned()),
        }
    }

    async fn text(&self, url: &str) -> Result<Arc<str>, String> {
        let ask = Ask {
            uri: uri(url)?,
            accept: "application/json",
            authorization: None,
            authorities: None,
            most: SIZE,
        };
        // Whoever is meant is named as they are: another address is nobody's word about them.
        let reply = self.client.get(&ask).await?;
        let body = ok(reply.status, reply.body)?;
        let text = String::from_utf8(body.into()).map_err(|_| "the answer is no text")?;
        Ok(text.into())
    }

    /// A module, with what is to be said of it.
    async fn module(&self, wanted: &WantedModule) -> Result<(Module, Bytes), String> {
        let (bytes, image) = match &wanted.source {
            ModuleSource::Url(url) => {
                let ask = Ask {
                    uri: uri(url)?,
                    accept: "application/wasm, application/octet-stream, */*",
                    authorization: None,
                    authorities: wanted.authorities.as_deref(),
                    most: MODULE_SIZE,
                };
                let reply = self.client.follow(ask).await?;
                (ok(reply.status, reply.body)?, None)
            }
            ModuleSource::Image(image) => {
                let pulled = registry::pull(&self.client, image, wanted).await?;
                (pulled.module, Some(pulled.manifest))
            }
        };
        if !bytes.starts_with(MAGIC) {
            return Err("it is no Wasm module".to_owned());
        }
        let sha256 = digest(&bytes);
        Ok((Module { sha256, image }, bytes))
    }
}

/// What comes of it within a time.
pub(super) async fn within<T>(time: Duration, answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let answer = time::timeout(time, answer).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} seconds", time.as_secs())))
}

fn uri(url: &str) -> Result<Uri, String> {
    // What stands behind # is for the reader of a page.
    let url = url.split('#').next().unwrap_or_default();
    url.parse().map_err(|error| format!("it is no URL: {error}"))
}

/// The body of an answer that went well.
pub(super) fn ok(status: StatusCode, body: Bytes) -> Result<Bytes, String> {
    match status {
        StatusCode::OK => Ok(body),
        other => Err(format!("status code: {}", other.as_u16())),
    }
}
