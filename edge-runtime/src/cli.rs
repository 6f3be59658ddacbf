//! The command line of `edgegateway`.
//!
//! Exit codes: 0 done, 1 a problem that was told in one message on standard error, 2 wrong usage.

mod certgen;
mod proxy;

use crate::{
    Error,
    config::{self, Overrides},
    host_infra::AtStop,
    logging,
    server::{self, Listen, Start},
    task::StopSource,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use futures_util::future::OptionFuture;
use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is left when everything has stopped: threads that wait for the system.
const LAST_GRACE: Duration = Duration::from_millis(500);

/// The Edge Gateway controller.
#[derive(Debug, Parser)]
#[command(name = "edgegateway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller.
    #[command(visible_alias = "serve")]
    Server(ServerArgs),
    /// Make the certificates that controller and proxies show each other.
    Certgen(certgen::CertgenArgs),
    /// What runs beside a proxy in its pod.
    #[command(subcommand, visible_alias = "envoy")]
    Proxy(proxy::ProxyCommand),
    /// Print the version.
    Version(VersionArgs),
    /// Write the manual pages of this program, for packages of it.
    #[command(hide = true)]
    Manual {
        /// The folder that they go to.
        folder: PathBuf,
    },
}

/// Names have no place here: a server listens on an address of this machine.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let problem = || "write it as IP:PORT, for example 127.0.0.1:18000, 0.0.0.0:18000 or [::1]:18000".to_owned();
    text.parse().map_err(|_| problem())
}

/// A host and a port.
fn host_and_port(text: &str) -> Result<(Arc<str>, u16), String> {
    let problem = || "write it as HOST:PORT, for example 127.0.0.1:8083".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(problem)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().map_err(|_| problem())?;
    if host.is_empty() || port == 0 {
        return Err(problem());
    }
    Ok((host.into(), port))
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// Configuration file of kind EdgeGateway. It is followed: a valid change takes effect at once.
    #[arg(short, long, value_name = "FILE")]
    config_path: Option<PathBuf>,
    /// The proxies' binary: edge-proxy, or a stock Envoy. Overrides the configuration file.
    #[arg(long, value_name = "PATH")]
    proxy_binary: Option<PathBuf>,
    /// Folder with the certificate that a controller in a cluster shows its proxies, a mounted Secret. Default: /certs
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// Where proxies fetch their configuration. Default: 127.0.0.1:18000, in a cluster port 18000 of every address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    xds_address: Option<SocketAddr>,
    /// Where /healthz and /readyz are answered. Default: 127.0.0.1:8081, in a cluster port 8081 of every address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    health_address: Option<SocketAddr>,
    /// Where /metrics is answered. Default: 127.0.0.1:19001, in a cluster port 19001 of every address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    metrics_address: Option<SocketAddr>,
    /// Where the service of global rate limits is told what to count. Default: 127.0.0.1:18001, in a cluster port 18001
    /// of every address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    rate_limit_xds_address: Option<SocketAddr>,
    /// Where proxies fetch Wasm modules, when policies bring some. Default: 127.0.0.1:18002, in a cluster port 18002 of
    /// every address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    wasm_address: Option<SocketAddr>,
    /// Where proxies find the service of global rate limits. Default: 127.0.0.1:8083, in a cluster port 8081 of the
    /// Service edge-ratelimit beside the controller.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    rate_limit_service: Option<(Arc<str>, u16)>,
    /// Leave the proxies running when the controller is asked to stop; the next one takes them over.
    #[arg(long)]
    keep_proxies: bool,
}

#[derive(Debug, Args)]
struct VersionArgs {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Runs a command line.
pub fn run(args: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_usage = error.use_stderr();
            // Nobody is left to tell when the terminal is gone.
            let _ = error.print();
            return if is_usage { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Server(args) => serve(args),
        Command::Certgen(args) => certgen::certgen(args),
        Command::Proxy(command) => proxy::run(command),
        Command::Version(args) => version(args.output),
        Command::Manual { folder } => manual(&folder),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "edgegateway: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A variable of the environment, unless it is empty.
fn variable(name: &str) -> Option<Arc<str>> {
    let value = std::env::var(name).ok()?;
    (!value.is_empty()).then(|| value.into())
}

fn serve(args: ServerArgs) -> Result<(), Error> {
    let overrides = Overrides {
        proxy_binary: args.proxy_binary,
        certificates: args.certificates,
        namespace: variable("EDGE_GATEWAY_NAMESPACE"),
        dns_domain: variable("KUBERNETES_CLUSTER_DOMAIN"),
        proxy_image: variable("EDGE_PROXY_IMAGE"),
        rate_limit_service: args.rate_limit_service,
    };
    let config = config::read(args.config_path.as_deref(), &overrides)?;
    let log = logging::start(&config.logging)?;
    let listen = Listen {
        xds: args.xds_address,
        health: args.health_address,
        metrics: args.metrics_address,
        rate_limit: args.rate_limit_xds_address,
        modules: args.wasm_address,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .thread_name("edgegateway")
        .build()
        .map_err(|source| Error::System {
            purpose: "can't start the runtime",
            source,
        })?;
    let result = runtime.block_on(async {
        let (source, stop) = StopSource::new();
        let mut signals = Signals::listen()?;
        let start = Start {
            config_path: args.config_path,
            overrides,
            listen,
            log: Some(log),
            at_stop: if args.keep_proxies { AtStop::Keep } else { AtStop::End },
        };
        let server = server::run(config, start, stop);
        tokio::pin!(server);
        let name = tokio::select! {
            result = &mut server => return result,
            name = signals.first() => name,
        };
        tracing::info!(signal = name, "stopping; a second signal ends everything at once");
        source.stop();
        tokio::select! {
            result = &mut server => result,
            // Dropping the server kills those of its processes that were told to end.
            () = signals.second() => Ok(()),
        }
    });
    // Work that blocks a thread, a file system that hangs above all, must not hold up the end.
    runtime.shutdown_timeout(LAST_GRACE);
    result
}

/// The signals that end the controller.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where the controller outlives its terminal.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|source| Error::System {
                purpose: "can't listen to signals",
                source,
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: match outlives_its_terminal() {
                true => None,
                false => Some(listen(SignalKind::hangup())?),
            },
        })
    }

    /// The first signal: it asks to stop. Gives its name.
    async fn first(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupt",
            _ = self.terminate.recv() => "terminate",
            Some(_) = OptionFuture::from(self.hang_up.as_mut().map(Signal::recv)) => "hang up",
        }
    }

    /// The next one: it ends everything at once, unless only the terminal has gone.
    async fn second(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whether whoever started us said that the end of the terminal is not ours, as `nohup` does.
fn outlives_its_terminal() -> bool {
    const HANG_UP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & HANG_UP != 0)
}

fn version(format: Format) -> Result<(), Error> {
    let version = server::version();
    say(&match format {
        Format::Yaml => crate::status::to_yaml(&version),
        Format::Json => format!("{version:#}\n"),
    })
}

fn manual(folder: &Path) -> Result<(), Error> {
    clap_mangen::generate_to(Cli::command(), folder).map_err(|source| Error::File {
        purpose: "can't write the manual to",
        path: folder.to_owned(),
        remedy: "the folder must be there, and writable".to_owned(),
        source,
    })
}

fn say(text: &str) -> Result<(), Error> {
    io::stdout().write_all(text.as_bytes()).map_err(|source| Error::System {
        purpose: "can't print",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_parse() {
        Cli::command().debug_assert();
        for line in [
            "server -c f",
            "serve --config-path f --proxy-binary p",
            "certgen -l -o",
            "certgen --overwrite --disable-topology-injector",
            "version -o json",
        ] {
            let args = std::iter::once("edgegateway").chain(line.split(' '));
            assert!(Cli::try_parse_from(args).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["edgegateway", "server", "--nonsense"]).is_err());
        let error = Cli::try_parse_from(["edgegateway", "server", "--xds-address", ":18000"]).unwrap_err();
        assert!(error.to_string().contains("write it as IP:PORT"), "{error}");
    }
}
