//! The sockets of a controller, all opened before anything runs.

use super::wants_metrics;
use crate::{
    Error,
    config::{Config, Mode},
    http::listen,
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};
use tokio::net::TcpListener;

/// The field that places the admin pages.
pub(super) const ADMIN_FIELD: &str = "admin.address in the configuration file";

/// Where the command line wants the controller to listen, apart from the admin pages, which the configuration places.
/// What it doesn't name, the mode decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// xDS.
    pub xds: Option<SocketAddr>,
    /// Health.
    pub health: Option<SocketAddr>,
    /// Metrics.
    pub metrics: Option<SocketAddr>,
    /// What the service of global rate limits is told.
    pub rate_limit: Option<SocketAddr>,
    /// Wasm modules.
    pub modules: Option<SocketAddr>,
}

/// Where the controller listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) xds: SocketAddr,
    pub(super) health: SocketAddr,
    pub(super) metrics: SocketAddr,
    pub(super) rate_limit: SocketAddr,
    pub(super) modules: SocketAddr,
}

impl Addresses {
    /// On a machine of its own the controller listens on loopback, in a cluster on every address of its pod: proxies,
    /// probes and scrapers come from elsewhere.
    pub(super) fn of(listen: &Listen, mode: &Mode) -> Self {
        let ip = match mode {
            Mode::Standalone(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Mode::Cluster(_) => every_address(),
        };
        let or = |given: Option<SocketAddr>, port| given.unwrap_or(SocketAddr::new(ip, port));
        Self {
            xds: or(listen.xds, 18000),
            health: or(listen.health, 8081),
            metrics: or(listen.metrics, 19001),
            rate_limit: or(listen.rate_limit, 18001),
            modules: or(listen.modules, 18002),
        }
    }
}

/// Those of both families, where the machine has IPv6.
pub(super) fn every_address() -> IpAddr {
    let six = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    match std::net::TcpListener::bind((six, 0)) {
        Ok(_) => six,
        Err(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

/// All sockets of a controller that starts.
pub(super) struct Sockets {
    pub(super) xds: Socket,
    pub(super) admin: Socket,
    pub(super) health: Socket,
    pub(super) metrics: Option<Socket>,
    pub(super) rate_limit: Option<Socket>,
}

/// An open socket. A server that begins again takes it up where the last one left it: its address is never free for
/// others, and who connects meanwhile waits in it.
#[derive(Clone, Debug)]
pub(super) struct Socket(Arc<std::net::TcpListener>);

impl Socket {
    pub(super) async fn open(address: SocketAddr, purpose: &'static str, remedy: &str) -> Result<Self, Error> {
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

    /// Where it is: the system chooses the port if it was given as 0.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
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
        let rate_limit = match config.settings.rate_limit {
            Some(_) => Some(Self::rate_limit(addresses).await?),
            None => None,
        };
        Ok(Self {
            xds,
            admin,
            health,
            metrics,
            rate_limit,
        })
    }

    /// The one for the service of global rate limits.
    pub(super) async fn rate_limit(addresses: &Addresses) -> Result<Socket, Error> {
        let remedy = "free that port, or choose another address with --rate-limit-xds-address";
        Socket::open(addresses.rate_limit, "rate limits", remedy).await
    }

    /// Where proxies of this machine find the controller.
    pub(super) fn xds_address(&self) -> SocketAddr {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 18000));
        self.xds.address().unwrap_or(local)
    }
}
