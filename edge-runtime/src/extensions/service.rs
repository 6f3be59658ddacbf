//! One service: where it is, and how it is spoken with.

use super::{
    messages::{AllRequest, AllResponse, Context, OneRequest, OneResponse, path, resources},
    terms::{Tries, hooks_of, message_size},
};
use crate::{
    metrics::{Counter, Metrics},
    state::{ServiceTerms, ServiceTls},
};
use bytes::Bytes;
use edge_translate::{
    api::Text,
    config::extension::{ExtensionService, GroupVersionKind},
};
use edge_xds::hooks::{Answer, Cause, Hook, Hooks, Outcome, Problem, Question, Resources, judge, judge_all};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::{collections::BTreeMap, error::Error, io, path::PathBuf, sync::Arc, time::Duration};
use tokio::{net::UnixStream, time};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri},
};
use tonic_prost::ProstCodec;

/// How long a service may take for an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Without it a service that is gone without a word would go unnoticed.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));

/// All services, in the order in which they are called.
pub(super) struct Services(Vec<Service>);

struct Service {
    name: Text,
    hooks: Hooks,
    fails_open: bool,
    tries: Tries,
    message_size: usize,
    /// Kinds whose objects it is shown where filters of routes refer to them.
    resources: Box<[GroupVersionKind]>,
    /// Kinds of policies that it is shown.
    policies: Box<[GroupVersionKind]>,
    /// Kinds of backends that it is shown.
    backends: Box<[GroupVersionKind]>,
    /// Or why it can't be spoken with.
    channel: Result<Channel, String>,
}

/// A resource of a fleet, or all of them, on the way from service to service.
#[derive(Clone)]
enum Content {
    One(Bytes),
    All(Resources),
}

impl Services {
    pub(super) fn new(terms: &[ServiceTerms]) -> Self {
        Self(terms.iter().map(Service::new).collect())
    }

    /// Asks one service after the other.
    pub(super) async fn ask(&self, question: &Question, metrics: &Metrics) -> Outcome {
        let (hook, mut content) = match question {
            Question::One { hook, resource, .. } => (*hook, Content::One(resource.clone())),
            Question::All { resources, .. } => (Hook::Translation, Content::All(resources.clone())),
        };
        let mut problem = None;
        for service in self.0.iter().filter(|service| service.hooks.hooks.contains(&hook)) {
            match service.ask(question, hook, &content).await {
                Ok(changed) => {
                    metrics.count(Counter::ExtensionCalls);
                    content = changed;
                }
                Err(error) => {
                    metrics.count(Counter::ExtensionFailures);
                    let fails_open = service.fails_open;
                    problem = Some(Problem {
                        text: format!("the extension service {} {}", service.name, error.text).into(),
                        ..error
                    });
                    if !fails_open {
                        return Outcome { answer: None, problem };
                    }
                }
            }
        }
        let answer = match content {
            Content::One(resource) => Answer::One(resource),
            Content::All(resources) => Answer::All(resources),
        };
        Outcome {
            answer: Some(answer),
            problem,
        }
    }
}

impl Service {
    fn new(terms: &ServiceTerms) -> Self {
        let manager = &terms.manager;
        let service = manager.service.as_deref();
        Self {
            name: manager.name.clone().unwrap_or_else(|| "of extensionManager".into()),
            hooks: hooks_of(manager),
            fails_open: manager.fail_open,
            tries: Tries::of(service.and_then(|service| service.retry.as_deref())),
            message_size: message_size(manager),
            resources: manager.resources.clone(),
            policies: manager.policy_resources.clone(),
            backends: manager.backend_resources.clone(),
            channel: match service {
                Some(service) => channel(service, terms.tls.as_ref()),
                None => Err("has no address".to_owned()),
            },
        }
    }

    /// What it makes of the content.
    async fn ask(&self, question: &Question, hook: Hook, content: &Content) -> Result<Content, Problem> {
        let channel = self.channel.as_ref().map_err(|why| problem(Cause::Unreachable, why))?;
        match content {
            Content::One(resource) => {
                let request = OneRequest {
                    resource: Some(resource.clone()),
                    context: Some(self.context(question, hook)),
                };
                let response: OneResponse = self.call(channel, hook, &request).await?;
                let judged = judge(hook, resource, response.resource);
                judged.map(Content::One).map_err(unusable)
            }
            Content::All(resources) => {
                let context = self.context(question, hook);
                self.ask_about_all(channel, resources, context).await
            }
        }
    }

    /// What it is told beside the resource.
    fn context(&self, question: &Question, hook: Hook) -> Context {
        let (Question::One { custom, .. } | Question::All { custom, .. }) = question;
        let custom = custom.as_deref();
        let referred = |kinds| {
            custom
                .map(|custom| resources(&custom.resources, kinds))
                .unwrap_or_default()
        };
        let policies = || {
            custom
                .map(|custom| resources(&custom.policies, &self.policies))
                .unwrap_or_default()
        };
        match (hook, question) {
            (Hook::Route, Question::One { hostnames, .. }) => Context {
                resources: referred(&self.resources),
                hostnames: hostnames.iter().map(|name| name.to_string()).collect(),
                policies: policies(),
            },
            (Hook::Cluster | Hook::Endpoints, _) => Context {
                resources: referred(&self.backends),
                ..Context::default()
            },
            // There policies are all that there is.
            (Hook::HttpListener | Hook::Translation, _) => Context {
                resources: policies(),
                ..Context::default()
            },
            _ => Context::default(),
        }
    }

    /// It is given the kinds that it asks for; what it adds to others is added.
    async fn ask_about_all(
        &self,
        channel: &Channel,
        resources: &Resources,
        context: Context,
    ) -> Result<Content, Problem> {
        let given = resources.iter().filter(|(kind, _)| self.hooks.whole.contains(kind));
        let given: Resources = given.map(|(kind, all)| (*kind, all.clone())).collect();
        let request = AllRequest::new(&given, context);
        let response: AllResponse = self.call(channel, Hook::Translation, &request).await?;
        let judged = judge_all(&given, response.into()).map_err(unusable)?;
        let mut all: BTreeMap<_, _> = resources.clone();
        for (kind, mut returned) in judged {
            match given.contains_key(&kind) {
                true => drop(all.insert(kind, returned)),
                false => all.entry(kind).or_default().append(&mut returned),
            }
        }
        Ok(Content::All(all))
    }

    /// Calls a method, again after what may pass.
    async fn call<Q, A>(&self, channel: &Channel, hook: Hook, request: &Q) -> Result<A, Problem>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut tried = 0;
        loop {
            let status = match time::timeout(LIMIT, self.call_once(channel, hook, request.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {LIMIT:?}")),
            };
            let pause = self.tries.pause(tried);
            tried += 1;
            if tried >= self.tries.attempts || !self.tries.codes.contains(&status.code()) {
                return Err(failure(&status));
            }
            time::sleep(pause).await;
        }
    }

    async fn call_once<Q, A>(&self, channel: &Channel, hook: Hook, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut client = Grpc::new(channel.clone())
            .max_decoding_message_size(self.message_size)
            .max_encoding_message_size(self.message_size);
        client
            .ready()
            .await
            .map_err(|error| Status::unavailable(with_causes(&error)))?;
        let path = PathAndQuery::from_static(path(hook));
        let answer = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default());
        answer.await.map(tonic::Response::into_inner).map_err(settled)
    }
}

/// A connection that breaks is no word of the service, though the library calls it unknown: that has a cause here.
fn settled(status: Status) -> Status {
    match (status.code(), status.source()) {
        (Code::Unknown, Some(_)) => Status::unavailable(words(&status)),
        _ => status,
    }
}

fn unusable(why: String) -> Problem {
    problem(Cause::Refused, &format!("answers what can't be used: {why}"))
}

fn problem(cause: Cause, text: &str) -> Problem {
    Problem {
        text: text.into(),
        cause,
    }
}

fn failure(status: &Status) -> Problem {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
            problem(Cause::Unreachable, &format!("can't be reached: {}", words(status)))
        }
        code => problem(Cause::Refused, &format!("answers {code:?}: {}", words(status))),
    }
}

fn words(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("{}: {}", status.message(), with_causes(source)),
        None => status.message().to_owned(),
    }
}

/// An error with its causes; the outer ones of a channel say little.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        source = error.source();
    }
    text
}

/// A channel that connects when it is needed, and again.
fn channel(service: &ExtensionService, tls: Option<&Result<ServiceTls, String>>) -> Result<Channel, String> {
    let (authority, socket) = target(service)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let uri: Uri = format!("{scheme}://{authority}")
        .parse()
        .map_err(|error| format!("has no usable address: {error}"))?;
    let mut endpoint = Endpoint::from(uri)
        .connect_timeout(LIMIT)
        .http2_keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1);
    if let Some(tls) = tls {
        let tls = tls.as_ref().map_err(Clone::clone)?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(tls.authorities.expose()));
        if let Some((certificate, key)) = &tls.identity {
            config = config.identity(Identity::from_pem(certificate.expose(), key.expose()));
        }
        if let Some(name) = &service.hostname {
            config = config.domain_name(&**name);
        }
        endpoint = endpoint
            .tls_config(config)
            .map_err(|error| format!("can't be spoken with over TLS: {}", with_causes(&error)))?;
    }
    Ok(match socket {
        None => endpoint.connect_lazy(),
        Some(path) => endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let path = Arc::clone(&path);
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(&*path).await?)) }
        })),
    })
}

/// Host and port, and the path of a socket.
fn target(service: &ExtensionService) -> Result<(String, Option<Arc<PathBuf>>), String> {
    let bracketed = |host: &str| match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    if let Some(fqdn) = &service.fqdn {
        return Ok((format!("{}:{}", fqdn.hostname, fqdn.port), None));
    }
    if let Some(ip) = &service.ip {
        return Ok((format!("{}:{}", bracketed(&ip.address), ip.port), None));
    }
    if let Some(unix) = &service.unix {
        let name = service.hostname.as_deref().unwrap_or("localhost");
        return Ok((name.to_owned(), Some(Arc::new(PathBuf::from(&*unix.path)))));
    }
    match &service.host {
        Some(host) => Ok((format!("{}:{}", bracketed(host), service.port), None)),
        None => Err("has no address".to_owned()),
    }
}
