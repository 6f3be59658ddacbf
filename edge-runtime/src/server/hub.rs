//! What every mode has: the channels between tasks, the world, and the servers.

use super::sockets::Socket;
use crate::{
    admin::Pages,
    certs::{ServerTls, TlsFiles},
    config::Config,
    extensions, fetches,
    http::{self, Query, Reply},
    metrics::Metrics,
    modules::Modules,
    replicas,
    state::{
        AdminAddresses, Deliveries, Extensions, FetchNumbers, Findings, Input, Ledger, ProviderName, Published,
        Rejections, Reports,
    },
    status::Sources,
    task::{Supervision, Task},
    world::{self, Outputs, Pace, WorldConfig},
    xds_server::{
        self, Authorizer, Shared,
        limits::{self, Domains},
    },
};
use serde_json::Value;
use std::{collections::BTreeSet, future::Future, sync::Arc, time::Instant};
use tokio::sync::{mpsc, watch};

/// Readers of the status page that wait for an answer; more of them wait for a place.
const QUESTIONS: usize = 16;

/// The channels between tasks.
pub(super) struct Hub {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) published: watch::Receiver<Option<Arc<Published>>>,
    pub(super) reports: Arc<watch::Sender<Option<Reports>>>,
    pub(super) admins: Arc<watch::Sender<AdminAddresses>>,
    pub(super) rejections: Arc<watch::Sender<Rejections>>,
    pub(super) deliveries: Arc<watch::Sender<Deliveries>>,
    /// What a provider waits for before anything is published.
    pub(super) awaited: watch::Sender<Option<Arc<str>>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) supervision: Supervision,
    /// What translation wants fetched.
    fetches: watch::Receiver<FetchNumbers>,
    /// What extension services are asked.
    extensions: watch::Receiver<Extensions>,
    pages: Pages,
}

/// The ends of channels that belong to one task of the mode each.
pub(super) struct Ends {
    /// For whoever writes statuses.
    pub(super) sources: Sources,
    /// For the provider.
    pub(super) found: watch::Sender<Findings>,
}

impl Hub {
    /// Makes the channels and starts the world, which waits for `providers`.
    pub(super) fn start(
        config: &Config,
        providers: BTreeSet<ProviderName>,
        pace: Pace,
        info: Value,
    ) -> (Self, Ends, Task) {
        let (inputs, world_inputs) = mpsc::channel(world::QUEUE);
        let (published, published_state) = watch::channel(None);
        let (ask, requests) = mpsc::channel(QUESTIONS);
        let ledger = Arc::new(Ledger::default());
        let (found, findings) = watch::channel(Findings::default());
        let metrics = Arc::new(Metrics::default());
        let supervision = Supervision::new(Arc::clone(&metrics));
        let reports = Arc::new(watch::Sender::new(None));
        let admins = Arc::new(watch::Sender::new(AdminAddresses::new()));
        let rejections = Arc::new(watch::Sender::new(Rejections::new()));
        let deliveries = Arc::new(watch::Sender::new(Deliveries::new()));
        let (awaited, progress) = watch::channel(None);
        let (asking, fetches) = watch::channel(FetchNumbers::default());
        let (asking_services, extensions) = watch::channel(Extensions::default());
        let outputs = Outputs {
            published,
            ledger: Arc::clone(&ledger),
            fetches: asking,
            extensions: asking_services,
            rejections: Arc::clone(&rejections),
            metrics: Arc::clone(&metrics),
        };
        let terms = WorldConfig {
            settings: config.settings.clone(),
            providers,
            pace,
        };
        let world = Task::vital_blocking("world", &supervision, move || world::run(terms, world_inputs, outputs));
        let sources = Sources {
            ledger,
            requests,
            published: published_state.clone(),
            reports: reports.subscribe(),
            rejections: rejections.subscribe(),
            deliveries: deliveries.subscribe(),
            findings,
        };
        let pages = Pages {
            published: published_state.clone(),
            awaited: progress,
            world: inputs.clone(),
            failures: supervision.failures(),
            reports: reports.subscribe(),
            admins: admins.subscribe(),
            status: ask,
            metrics: Arc::clone(&metrics),
            info: Arc::new(info),
            started: Instant::now(),
        };
        let hub = Self {
            inputs,
            published: published_state,
            reports,
            admins,
            rejections,
            deliveries,
            awaited,
            metrics,
            supervision,
            fetches,
            extensions,
            pages,
        };
        (hub, Ends { sources, found }, world)
    }

    /// What the proxies say that are connected to this replica.
    pub(super) fn own_proxies(&self) -> replicas::Own {
        replicas::Own {
            rejections: self.rejections.subscribe(),
            deliveries: self.deliveries.subscribe(),
        }
    }

    /// Starts what fetches documents and modules that translation asks for.
    pub(super) fn fetch(&self, modules: Modules, storage: fetches::Storage) -> Task {
        let (asked, inputs) = (self.fetches.clone(), self.inputs.clone());
        Task::lasting("documents", &self.supervision, move |stop| {
            let (modules, storage) = (modules.clone(), storage.clone());
            fetches::run(asked.clone(), modules, storage, inputs.clone(), stop)
        })
    }

    /// Starts what calls extension services. It sleeps while there are none.
    pub(super) fn call_extensions(&self) -> Task {
        let (asked, inputs, metrics) = (self.extensions.clone(), self.inputs.clone(), Arc::clone(&self.metrics));
        Task::lasting("extensions", &self.supervision, move |stop| {
            extensions::run(asked.clone(), inputs.clone(), Arc::clone(&metrics), stop)
        })
    }

    /// Starts the xDS server.
    pub(super) fn serve_xds(&self, socket: Socket, files: TlsFiles, authorizer: Authorizer, config: &Config) -> Task {
        let shared = Shared {
            published: self.published.clone(),
            rejections: Arc::clone(&self.rejections),
            deliveries: Arc::clone(&self.deliveries),
            authorizer,
            metrics: Arc::clone(&self.metrics),
        };
        let limits = config.xds.clone();
        Task::lasting("xDS server", &self.supervision, move |stop| {
            let (socket, files) = (socket.clone(), files.clone());
            let (limits, shared) = (limits.clone(), shared.clone());
            async move {
                match (ServerTls::read(files), socket.listener()) {
                    (Ok(tls), Ok(listener)) => xds_server::serve(listener, tls, limits, shared, stop).await,
                    (Err(error), _) => tracing::error!("{error}"),
                    (_, Err(error)) => tracing::error!(%error, "the socket of the xDS server can't be used"),
                }
            }
        })
    }

    /// Starts the server that tells the service of global rate limits what to count.
    pub(super) fn serve_limits(&self, socket: Socket, files: TlsFiles, config: &Config) -> Task {
        let domains = Domains {
            published: self.published.clone(),
            namespace: Arc::clone(&config.settings.controller_namespace),
        };
        Task::lasting("rate limits", &self.supervision, move |stop| {
            let (socket, files, domains) = (socket.clone(), files.clone(), domains.clone());
            async move {
                match (ServerTls::read(files), socket.listener()) {
                    (Ok(tls), Ok(listener)) => limits::serve(listener, tls, domains, stop).await,
                    (Err(error), _) => tracing::error!("{error}"),
                    (_, Err(error)) => tracing::error!(%error, "the socket of the rate limits can't be used"),
                }
            }
        })
    }

    /// Starts a server of pages.
    pub(super) fn serve_pages<F>(&self, name: &'static str, socket: Socket, page: fn(Pages, Query) -> F) -> Task
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let pages = self.pages.clone();
        Task::lasting(name, &self.supervision, move |stop| {
            let (socket, pages) = (socket.clone(), pages.clone());
            async move {
                match socket.listener() {
                    Ok(listener) => http::serve(listener, move |query| page(pages.clone(), query), stop).await,
                    Err(error) => tracing::error!(%error, "the socket of the {name} can't be used"),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{self, Overrides},
        http::fetch,
        provider::file::kept::Before,
        server::standalone,
        state::Coverage,
    };
    use ::http::{Method, StatusCode};
    use std::{
        net::{Ipv4Addr, SocketAddr},
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };

    #[tokio::test]
    async fn a_task_that_is_down_is_told_by_readiness_until_it_runs_again() {
        let config = config::read(None, &Overrides::default()).unwrap();
        let (providers, pace) = standalone::inputs(Before::Nothing);
        let (hub, _ends, _world) = Hub::start(&config, providers.clone(), pace, Value::Null);
        let [port] = e2e::ports::free().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = Socket::open(address, "health", "").await.unwrap();
        let _health = hub.serve_pages("health pages", socket, Pages::health);
        let ready = async || {
            let (status, text) = fetch(Method::GET, address, "/readyz").await.unwrap();
            (status, String::from_utf8(text.to_vec()).unwrap())
        };
        let (status, text) = ready().await;
        assert_eq!(
            (status, &*text),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the first translation isn't done yet\n"
            )
        );
        for provider in providers {
            let synced = Input::Synced(provider, Coverage::Whole);
            hub.inputs.send(synced).await.unwrap();
        }
        let until = async |wanted: StatusCode, part: &str| {
            let looking = async {
                loop {
                    let (status, text) = ready().await;
                    if status == wanted && text.contains(part) {
                        return;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(20), looking)
                .await
                .unwrap_or_else(|_| panic!("never {wanted} with {part}"));
        };
        until(StatusCode::OK, "ok").await;
        // It goes on by what it has read.
        hub.awaited.send_replace(Some("HTTPRoute can't be watched".into()));
        until(StatusCode::OK, "HTTPRoute can't be watched").await;
        hub.awaited.send_replace(None);
        let is_well = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&is_well);
        let _task = Task::lasting("test", &hub.supervision, move |mut stop| {
            let is_well = known.load(Ordering::Relaxed);
            async move {
                if is_well {
                    stop.requested().await;
                }
            }
        });
        until(
            StatusCode::SERVICE_UNAVAILABLE,
            "the task `test` has ended without being asked",
        )
        .await;
        is_well.store(true, Ordering::Relaxed);
        until(StatusCode::OK, "ok").await;
    }
}
