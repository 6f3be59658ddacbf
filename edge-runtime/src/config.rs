//! The controller's configuration: from the EdgeGateway file to what the runners need.
//!
//! What the file may hold and how it is checked belongs to `edge-translate`; here stands what it means on this machine:
//! the mode and what belongs to it, folders, addresses, defaults. Relative paths are taken from the folder of the file.
//! No field is ignored in silence: see [`unused`].

use crate::{
    Error,
    error::describe,
    folders,
    host_infra::HostFolders,
    logging::{Encoder, Logging},
    xds_server::Limits,
};
use edge_translate::{
    Feature, Settings,
    api::{CustomKind, DurationText, Quantity, Text},
    config::{
        EdgeGateway, LogEncoder,
        extension::custom_kinds,
        provider::{HostInfrastructure, InfrastructureProviderType, ProviderType, ResourceProviderType},
    },
    load::{LoadFinding, Source},
};
use edge_xds::bootstrap;
use std::{
    fs,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    path::{self, Path, PathBuf},
    sync::Arc,
};

mod cluster;
mod follow;
#[cfg(test)]
mod tests;
mod unused;

pub use crate::cluster::terms::{ClientLimits, Election, LeaseTerms};
pub use cluster::{Cluster, Deploy, Scope};
pub use follow::follow;
pub(crate) use follow::followed;

/// What the command line and the environment say about things that the file says too, or can't know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The proxies' binary.
    pub proxy_binary: Option<PathBuf>,
    /// The folder with the certificate of a controller in a cluster.
    pub certificates: Option<PathBuf>,
    /// The namespace that a controller in a cluster runs in.
    pub namespace: Option<Arc<str>>,
    /// The DNS domain of the cluster.
    pub dns_domain: Option<Arc<str>>,
    /// Image of proxies whose EdgeProxy names none.
    pub proxy_image: Option<Arc<str>>,
    /// Host and port of the service of global rate limits.
    pub rate_limit_service: Option<(Arc<str>, u16)>,
}

/// Port of the service of global rate limits on a machine of its own: 8081, as in a cluster, is the controller's.
const RATE_LIMIT_PORT: u16 = 8083;

impl Overrides {
    fn controller_namespace(&self) -> Arc<str> {
        let default = || Settings::default().controller_namespace;
        self.namespace.clone().unwrap_or_else(default)
    }
}

/// The configuration as the runners need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where resources come from and where proxies run.
    pub mode: Mode,
    /// What translation depends on.
    pub settings: Settings,
    /// What is logged.
    pub logging: Logging,
    /// Where the admin pages are.
    pub admin: SocketAddr,
    /// Whether metrics can be scraped.
    pub metrics: Feature,
    /// Bounds of the xDS server.
    pub xds: Limits,
    /// Whether all of this is to be logged.
    pub dump: Feature,
    /// Fields that change nothing, each with its place.
    pub remarks: Vec<LoadFinding>,
}

/// Where resources come from and where proxies run, with what only that mode has.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Files of this machine, and processes of this machine.
    Standalone(Standalone),
    /// Objects of a cluster, and workloads in it.
    Cluster(Box<Cluster>),
}

/// Settings of standalone mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standalone {
    /// Files and folders with resources.
    pub paths: Arc<[PathBuf]>,
    /// Kinds beside ours that are read in them.
    pub custom: Arc<[CustomKind]>,
    /// Folders of this machine.
    pub folders: HostFolders,
    /// Whether and how proxies are started here.
    pub proxies: Proxies,
}

/// Who looks after the proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxies {
    /// We do: processes of this machine, by this binary if one is named.
    Processes(Option<PathBuf>),
    /// Somebody else does.
    Foreign,
}

/// Reads and checks the file; without one everything has its default.
pub fn read(path: Option<&Path>, overrides: &Overrides) -> Result<Config, Error> {
    let absolute = path::absolute(path.unwrap_or(Path::new("edge-gateway.yaml"))).map_err(|source| Error::System {
        purpose: "the working folder can't be told",
        source,
    })?;
    let folder = absolute.parent().unwrap_or(&absolute).to_owned();
    let Some(path) = path else {
        let (file, name) = (EdgeGateway::default(), String::new());
        return Reading { file, name, folder }.config(overrides, Vec::new());
    };
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| {
        let reason = describe(&error);
        Error::Config(format!(
            "{name}: {reason}; --config-path must name a file of kind EdgeGateway"
        ))
    })?;
    let source = Source {
        name: &name,
        text: &text,
    };
    let (file, remarks) = edge_admission::configuration(&source, unused::unused).map_err(|findings| {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Error::Config(lines.join("\n"))
    })?;
    let reading = Reading { file, name, folder };
    reading.config(overrides, remarks)
}

struct Reading {
    file: EdgeGateway,
    name: String,
    folder: PathBuf,
}

impl Reading {
    fn config(&self, overrides: &Overrides, remarks: Vec<LoadFinding>) -> Result<Config, Error> {
        let mut settings = Settings::of(&self.file, Some(bootstrap::check)).with_object_check(edge_infra::check);
        let mode = match self.file.provider.r#type {
            ProviderType::Custom => {
                if let Some(service) = &mut settings.rate_limit {
                    let address = overrides.rate_limit_service.clone();
                    service.address = Some(address.unwrap_or_else(|| ("127.0.0.1".into(), RATE_LIMIT_PORT)));
                }
                Mode::Standalone(self.standalone(overrides)?)
            }
            _ => {
                if let Some(service) = &mut settings.rate_limit {
                    service.address.clone_from(&overrides.rate_limit_service);
                }
                settings.controller_namespace = overrides.controller_namespace();
                let domain = overrides.dns_domain.clone();
                settings.dns_domain = domain.unwrap_or(settings.dns_domain);
                let cluster = self.cluster(overrides);
                self.check_rate_limit(&cluster)?;
                Mode::Cluster(Box::new(cluster))
            }
        };
        settings
            .check_default_proxy()
            .map_err(|problem| self.fault("edgeProxy", &problem))?;
        Ok(Config {
            mode,
            settings,
            logging: self.logging(),
            admin: self.admin()?,
            metrics: self.metrics(),
            xds: self.limits(),
            dump: Feature::when(self.file.admin.enable_dump_config),
            remarks,
        })
    }

    fn standalone(&self, overrides: &Overrides) -> Result<Standalone, Error> {
        let host = self.host()?;
        let binary = overrides
            .proxy_binary
            .clone()
            .map(|path| path::absolute(&path).unwrap_or(path));
        let proxies = match host {
            Some(host) => Proxies::Processes(binary.or_else(|| host.proxy_binary.as_deref().map(|p| self.path(p)))),
            None => Proxies::Foreign,
        };
        let none = HostInfrastructure::default();
        Ok(Standalone {
            paths: self.paths()?,
            custom: custom_kinds(self.file.extensions()).into(),
            folders: self.folders(host.unwrap_or(&none))?,
            proxies,
        })
    }

    fn fault(&self, field: &str, problem: &str) -> Error {
        let place = if self.name.is_empty() {
            "the configuration"
        } else {
            self.name.as_str()
        };
        Error::Config(format!("{place}: {field}: {problem}"))
    }

    fn path(&self, text: &str) -> PathBuf {
        self.folder.join(text).components().collect()
    }

    fn paths(&self) -> Result<Arc<[PathBuf]>, Error> {
        let resource = self.file.provider.custom.as_ref().map(|custom| &custom.resource);
        if resource.is_some_and(|resource| resource.r#type == ResourceProviderType::Cluster) {
            return Err(self.fault(
                "provider.custom.resource.type",
                "this build reads files only; set it to File",
            ));
        }
        let files = resource.and_then(|resource| resource.file.as_ref());
        Ok(files
            .iter()
            .flat_map(|files| &*files.paths)
            .map(|path| self.path(path))
            .collect())
    }

    fn host(&self) -> Result<Option<&HostInfrastructure>, Error> {
        let infrastructure = self
            .file
            .provider
            .custom
            .as_ref()
            .and_then(|custom| custom.infrastructure.as_ref());
        let Some(infrastructure) = infrastructure else {
            return Ok(None);
        };
        match &infrastructure.r#type {
            InfrastructureProviderType::Host => Ok(infrastructure.host.as_ref()),
            other => {
                let problem = format!("`{other}` is not supported; set it to Host, or leave infrastructure out");
                Err(self.fault("provider.custom.infrastructure.type", &problem))
            }
        }
    }

    fn folders(&self, host: &HostInfrastructure) -> Result<HostFolders, Error> {
        let given = |text: &Option<Text>| text.as_deref().map(|text| self.path(text));
        Ok(HostFolders {
            config_home: given(&host.config_home).map_or_else(folders::config_home, Ok)?,
            state_home: given(&host.state_home).map_or_else(folders::state_home, Ok)?,
            runtime_dir: given(&host.runtime_dir).unwrap_or_else(folders::runtime_dir),
        })
    }

    fn logging(&self) -> Logging {
        let levels = self.file.logging.level.iter();
        Logging {
            levels: levels
                .map(|(component, level)| (component.to_string(), level.to_string()))
                .collect(),
            encoder: match self.file.logging.encoder {
                Some(LogEncoder::Json) => Encoder::Json,
                _ => Encoder::Text,
            },
        }
    }

    fn admin(&self) -> Result<SocketAddr, Error> {
        let address = &self.file.admin.address;
        if let Ok(ip) = address.host.parse::<IpAddr>() {
            return Ok((ip, address.port).into());
        }
        let found = (&*address.host, address.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next());
        let problem = || format!("`{}` is no address of this machine", address.host);
        found.ok_or_else(|| self.fault("admin.address.host", &problem()))
    }

    fn metrics(&self) -> Feature {
        let metrics = self
            .file
            .telemetry
            .as_ref()
            .and_then(|telemetry| telemetry.metrics.as_ref());
        match metrics.and_then(|metrics| metrics.prometheus.as_ref()) {
            Some(prometheus) if prometheus.disable => Feature::Disabled,
            _ => Feature::Enabled,
        }
    }

    fn limits(&self) -> Limits {
        let default = Limits::default();
        let Some(server) = &self.file.xds_server else {
            return default;
        };
        // Both were checked when the file was read.
        let time = |text: &Option<DurationText>| text.as_ref().and_then(|text| text.parse().ok());
        let size = |text: &Quantity| text.parse().ok().and_then(|bytes| usize::try_from(bytes).ok());
        Limits {
            connection_age: time(&server.max_connection_age).or(default.connection_age),
            connection_grace: time(&server.max_connection_age_grace).unwrap_or(default.connection_grace),
            message_size: server
                .max_receive_message_size
                .as_ref()
                .and_then(size)
                .unwrap_or(default.message_size),
        }
    }
}
