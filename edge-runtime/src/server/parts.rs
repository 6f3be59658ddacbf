//! Sockets, and what a changed configuration means for the parts of a running controller.

use super::{Addresses, PROCESS_GRACE, STOP_GRACE, Server, host_settings, tell, wants_metrics};
use crate::{
    Error,
    admin::Pages,
    config::{Config, Mode, Proxies, Standalone},
    http::listen,
    infra::host::{AtStop, RuntimeFolder},
    state::Input,
    task::Task,
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// The field that places the admin pages.
const ADMIN_FIELD: &str = "admin.address in the configuration file";

/// All sockets of a controller that starts.
pub(super) struct Sockets {
    pub(super) xds: Socket,
    pub(super) admin: Socket,
    pub(super) health: Socket,
    pub(super) metrics: Option<Socket>,
}

/// An open socket. A server that begins again takes it up where the last one left it: its address is never free for
/// others, and who connects meanwhile waits in it.
#[derive(Clone, Debug)]
pub(super) struct Socket(Arc<std::net::TcpListener>);

impl Socket {
    async fn open(address: SocketAddr, purpose: &'static str, remedy: &str) -> Result<Self, Error> {
        let listener = listen(address, purpose, remedy).await?;
        let listener = listener.into_std().map_err(|source| Error::Listen {
            address,
            purpose,
            remedy: remedy.to_owned(),
            source,
        })?;
        Ok(Self(Arc::new(listener)))
    }

    /// The socket, to be served from.
    pub(super) fn listener(&self) -> io::Result<TcpListener> {
        TcpListener::from_std(self.0.try_clone()?)
    }
}

impl Sockets {
    /// Opens all of them, or says which one is taken and how to choose another.
    pub(super) async fn open(config: &Config, addresses: &Addresses) -> Result<Self, Error> {
        let other = "if another edgegateway is running, stop it, or choose another address with";
        let xds = Socket::open(addresses.xds, "xDS", &format!("{other} --xds-address")).await?;
        let admin = Socket::open(config.admin, "the admin pages", &format!("{other} {ADMIN_FIELD}")).await?;
        let health = Socket::open(addresses.health, "health checks", &format!("{other} --health-address")).await?;
        let metrics = match wants_metrics(config) {
            true => Some(Socket::open(addresses.metrics, "metrics", &format!("{other} --metrics-address")).await?),
            false => None,
        };
        Ok(Self {
            xds,
            admin,
            health,
            metrics,
        })
    }

    /// Where proxies find the controller: the system chooses the port if it was given as 0.
    pub(super) fn xds_address(&self) -> SocketAddr {
        self.xds
            .0
            .local_addr()
            .unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 18000)))
    }
}

impl Server {
    /// Brings what is running in line with a changed configuration. What can't be followed is told and stays.
    pub(super) async fn follow(&mut self, new: Config) {
        tracing::info!("the configuration has changed");
        if let Some(log) = &self.start.log {
            log.follow(&new.logging);
        }
        tell(&new, Some(&self.config));
        if new.settings != self.config.settings {
            // The world ends only with the controller.
            let _ = self
                .hub
                .inputs
                .send(Input::Settings(Box::new(new.settings.clone())))
                .await;
        }
        if new.admin != self.config.admin {
            self.move_admin(&new).await;
        }
        if new.xds != self.config.xds {
            self.restart_xds(&new).await;
        }
        if new.metrics != self.config.metrics {
            tracing::warn!("telemetry.metrics.prometheus takes effect at the next start");
        }
        let Mode::Standalone(standalone) = &new.mode;
        self.follow_standalone(standalone).await;
        self.config = new;
    }

    async fn follow_standalone(&mut self, new: &Standalone) {
        let Mode::Standalone(old) = self.config.mode.clone();
        if new.paths != old.paths {
            self.hub.paths.send_replace(Arc::clone(&new.paths));
        }
        if new.folders != old.folders {
            tracing::warn!("configHome, stateHome and runtimeDir take effect at the next start");
        }
        if new.proxies != old.proxies {
            let in_place = Standalone {
                folders: old.folders,
                ..new.clone()
            };
            self.change_proxies(&in_place).await;
        }
    }

    async fn move_admin(&mut self, new: &Config) {
        match Socket::open(
            new.admin,
            "the admin pages",
            &format!("choose another address with {ADMIN_FIELD}"),
        )
        .await
        {
            Ok(socket) => {
                let next = self.hub.serve_pages("admin pages", socket, Pages::admin);
                std::mem::replace(&mut self.admin, next).stop(STOP_GRACE).await;
                tracing::info!(admin = %new.admin, "the admin pages have moved");
            }
            Err(error) => tracing::error!("{error}; the admin pages stay at {}", self.config.admin),
        }
    }

    /// Proxies reconnect, to the same socket, and are sent only what they don't have.
    async fn restart_xds(&mut self, new: &Config) {
        // One after the other: streams are numbered by their server. Who connects in between waits in the socket.
        let nothing = Task::spawn("xDS server", |_| async {});
        std::mem::replace(&mut self.xds, nothing).stop(STOP_GRACE).await;
        self.xds = self.hub.serve_xds(self.xds_socket.clone(), &self.certificates, new);
    }

    /// Running proxies go on until others are ready to take their place.
    async fn change_proxies(&mut self, new: &Standalone) {
        let settings = |at_stop| host_settings(new, at_stop, &self.certificates, self.xds_address);
        match (self.proxies.take(), &new.proxies) {
            (Some(proxies), Proxies::Processes(_)) => {
                proxies.settings.send_replace(Arc::new(settings(self.start.at_stop)));
                self.proxies = Some(proxies);
            }
            (Some(proxies), Proxies::Foreign) => {
                proxies.settings.send_replace(Arc::new(settings(AtStop::End)));
                proxies.task.stop(PROCESS_GRACE).await;
            }
            (None, Proxies::Processes(_)) => match RuntimeFolder::open(&new.folders.runtime_dir) {
                Ok(folder) => self.proxies = Some(self.hub.run_proxies(settings(self.start.at_stop), folder)),
                Err(error) => tracing::error!("{error}; no proxies run until that is mended"),
            },
            (None, Proxies::Foreign) => {}
        }
    }
}
