//! The quickstart as a user has it, in a folder and on ports of its own: echo backend, controller, proxy.

use crate::{
    http::{self, Request, Response},
    ports,
    process::{Process, Signal, processes_with, signal, wait_for},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    env, fmt, fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};
use tempfile::TempDir;

/// How long anything may take before a test gives up. Machines that test are busy machines.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Which proxy serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlane {
    /// Ours.
    EdgeProxy,
    /// Stock Envoy, by path.
    Envoy(PathBuf),
}

/// For the names of what is made for it.
impl fmt::Display for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EdgeProxy => "edge-proxy",
            Self::Envoy(_) => "envoy",
        })
    }
}

impl DataPlane {
    /// The version of stock Envoy that is measured, by name.
    pub const ENVOY: &str = "Envoy 1.40.0";

    /// Stock Envoy as `EDGE_ENVOY` names it.
    pub fn envoy() -> Result<Self> {
        let path = env::var_os("EDGE_ENVOY")
            .map(PathBuf::from)
            .filter(|path| path.is_file());
        path.map(Self::Envoy)
            .context("EDGE_ENVOY must name an Envoy binary: run `cargo xtask test --tier e2e`")
    }

    /// The image that stands for it in the test cluster.
    pub fn image(&self) -> &'static str {
        match self {
            Self::EdgeProxy => "edge-proxy:test",
            Self::Envoy(_) => "envoy:test",
        }
    }

    /// The last part of its program's path.
    pub fn program(&self) -> &'static str {
        match self {
            Self::EdgeProxy => "edge-proxy",
            Self::Envoy(_) => "envoy",
        }
    }
}

/// Path of a built program: in `EDGE_PROGRAMS`, else beside the test.
pub fn program(name: &str) -> Result<PathBuf> {
    let folder = match env::var_os("EDGE_PROGRAMS") {
        Some(folder) => PathBuf::from(folder),
        // target/debug/deps/<test> is two levels below target/debug/<program>.
        None => env::current_exe()?
            .ancestors()
            .nth(2)
            .context("a test without folder")?
            .to_owned(),
    };
    let path = folder.join(name);
    ensure!(
        path.is_file(),
        "{} isn't built: run `cargo xtask test --tier e2e`",
        path.display()
    );
    Ok(path)
}

/// Path of a program that others have written, in `EDGE_SERVICES`.
pub fn service(name: &str) -> Result<PathBuf> {
    let found = env::var_os("EDGE_SERVICES").map(|folder| Path::new(&folder).join(name));
    found
        .filter(|path| path.is_file())
        .with_context(|| format!("EDGE_SERVICES has no {name}: run `cargo xtask test --tier e2e`"))
}

/// Ports of one stack.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// The Gateway's HTTP listener.
    pub gateway: u16,
    /// For an HTTPS listener.
    pub https: u16,
    /// The echo backend.
    pub echo: u16,
    /// The controller's xDS server.
    pub xds: u16,
    /// The controller's health endpoint.
    pub health: u16,
    /// The controller's metrics.
    pub metrics: u16,
    /// The controller's admin endpoint.
    pub admin: u16,
    /// The controller's server of Wasm modules.
    pub wasm: u16,
}

impl Ports {
    fn choose() -> Result<Self> {
        let [gateway, https, echo, xds, health, metrics, admin, wasm] = ports::free()?;
        Ok(Self {
            gateway,
            https,
            echo,
            xds,
            health,
            metrics,
            admin,
            wasm,
        })
    }
}

/// A folder with a copy of the quickstart whose ports and state are its own.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
    /// Its ports.
    pub ports: Ports,
}

impl Site {
    /// A fresh copy.
    pub fn new() -> Result<Self> {
        let site = Self {
            folder: tempfile::Builder::new().prefix("edge-e2e-").tempdir()?,
            ports: Ports::choose()?,
        };
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/quickstart");
        fs::create_dir(site.watched())?;
        for entry in fs::read_dir(example.join("gateway.d"))? {
            let path = entry?.path();
            let name = path.file_name().context("a file without name")?;
            fs::write(site.watched().join(name), site.with_ports(&fs::read_to_string(&path)?))?;
        }
        let config = fs::read_to_string(example.join("edge-gateway.yaml"))?;
        ensure!(
            config.contains("host: {}"),
            "the quickstart's configuration changed: adapt this harness"
        );
        fs::write(
            site.config(),
            config.replace("host: {}", &site.host_settings()) + &site.admin_settings(),
        )?;
        Ok(site)
    }

    fn host_settings(&self) -> String {
        let below = |name: &str| self.path(name).display().to_string();
        let (config, state, runtime) = (below("config"), below("state"), below("run"));
        format!("host: {{ configHome: {config}, dataHome: {config}, stateHome: {state}, runtimeDir: {runtime} }}")
    }

    fn admin_settings(&self) -> String {
        format!("\nadmin: {{ address: {{ port: {} }} }}\n", self.ports.admin)
    }

    /// A text of the example with this site's ports.
    pub fn with_ports(&self, text: &str) -> String {
        with_ports(text, self.ports.gateway, self.ports.echo)
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The controller's configuration.
    pub fn config(&self) -> PathBuf {
        self.path("edge-gateway.yaml")
    }

    /// The folder that the controller watches.
    pub fn watched(&self) -> PathBuf {
        self.path("gateway.d")
    }

    /// The command that starts the controller.
    pub fn controller(&self, plane: &DataPlane) -> Result<Command> {
        let mut command = Command::new(program("edgegateway")?);
        command.arg("server").arg("--config-path").arg(self.config());
        let ports = [
            ("--xds-address", self.ports.xds),
            ("--health-address", self.ports.health),
            ("--wasm-address", self.ports.wasm),
        ];
        for (flag, port) in ports.into_iter().chain([("--metrics-address", self.ports.metrics)]) {
            command.args([flag, &format!("127.0.0.1:{port}")]);
        }
        match plane {
            DataPlane::EdgeProxy => drop(program("edge-proxy")?),
            DataPlane::Envoy(path) => drop(command.arg("--proxy-binary").arg(path)),
        }
        Ok(command)
    }

    /// Starts the echo backend.
    pub fn start_echo(&self) -> Result<Process> {
        self.echo_on(self.ports.echo, "echo")
    }

    /// Starts a second echo backend, on a port of its own.
    pub fn start_another_echo(&self) -> Result<Backend> {
        let [port] = ports::free()?;
        let process = self.echo_on(port, "another-echo")?;
        Ok(Backend { process, port })
    }

    fn echo_on(&self, port: u16, name: &str) -> Result<Process> {
        let mut command = Command::new(program("edgectl")?);
        command.args(["x", "echo", "--port", &port.to_string()]);
        let mut echo = Process::start(name, self.folder.path(), &mut command)?;
        echo.wait_for_output("echo backend on", PATIENCE)?;
        Ok(echo)
    }

    /// Starts the controller.
    pub fn start_controller(&self, plane: &DataPlane) -> Result<Process> {
        Process::start("controller", self.folder.path(), &mut self.controller(plane)?)
    }

    /// Processes that have to do with this site.
    pub fn processes(&self) -> Result<Vec<(u32, String)>> {
        processes_with(&self.folder.path().display().to_string())
    }
}

impl Drop for Site {
    /// Proxies outlive a controller that is killed, as a test's is.
    fn drop(&mut self) {
        for (pid, _) in self.processes().unwrap_or_default() {
            // It may have ended by itself.
            let _ = signal(pid, Signal::Kill);
        }
    }
}

/// A backend beside the quickstart's.
#[derive(Debug)]
pub struct Backend {
    /// The process; it ends with this.
    pub process: Process,
    /// Its port.
    pub port: u16,
}

/// A running quickstart.
#[derive(Debug)]
pub struct Stack {
    /// The controller.
    pub controller: Process,
    /// The backend.
    pub echo: Process,
    /// Where it lives. Last, so that the folder outlives the processes.
    pub site: Site,
}

impl Stack {
    /// Starts the quickstart and waits until it serves.
    pub fn start(plane: &DataPlane) -> Result<Self> {
        Self::start_at(Site::new()?, plane)
    }

    /// The same in a folder that is there already.
    pub fn start_at(site: Site, plane: &DataPlane) -> Result<Self> {
        let echo = site.start_echo()?;
        let controller = site.start_controller(plane)?;
        let mut stack = Self { controller, echo, site };
        stack.wait_for_status("www.example.com", "/", 200)?;
        Ok(stack)
    }

    /// Where the Gateway listens.
    pub fn gateway(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.site.ports.gateway).into()
    }

    /// Asks the gateway.
    pub fn get(&self, host: &str, path: &str) -> Result<Response> {
        http::send(self.gateway(), &Request::get(host, path))
    }

    /// Sends the gateway a request.
    pub fn send(&self, request: &Request<'_>) -> Result<Response> {
        http::send(self.gateway(), request)
    }

    /// Sends a request until the answer is as wanted, and gives that answer. Workers of a proxy take an edit one by
    /// one.
    pub fn ask_until(
        &self,
        what: &str,
        request: &Request<'_>,
        is_wanted: impl Fn(&Response) -> bool,
    ) -> Result<Response> {
        self.look_until(what, || {
            let answer = self.send(request)?;
            ensure!(is_wanted(&answer), "the last answer was {answer:?}");
            Ok(Some(answer))
        })
    }

    /// Looks until it finds something. The error has everything that the programs said.
    pub fn look_until<T>(&self, what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let found = wait_for(what, PATIENCE, look);
        found.map(|(found, _)| found).with_context(|| self.logs())
    }

    /// Waits until the gateway answers with a status, and gives how long that took.
    pub fn wait_for_status(&mut self, host: &str, path: &str, status: u16) -> Result<Duration> {
        let address = self.gateway();
        let what = format!("{status} from {host}{path}");
        let controller = &mut self.controller;
        let found = wait_for(&what, PATIENCE, || {
            if let Some(ended) = controller.ended()? {
                bail!("the controller ended ({ended})");
            }
            let answer = http::send(address, &Request::get(host, path))?;
            Ok((answer.status == status).then_some(()))
        });
        match found {
            Ok(((), time)) => Ok(time),
            Err(error) => bail!("{error:#}\n{}", self.logs()),
        }
    }

    /// The status document, as the admin page has it.
    pub fn status(&self) -> Result<serde_json::Value> {
        let address = (Ipv4Addr::LOCALHOST, self.site.ports.admin).into();
        http::send(address, &Request::get("localhost", "/status?format=json"))?.json()
    }

    /// Puts a file into the watched folder, by rename as editors do.
    pub fn put(&self, name: &str, text: &str) -> Result<()> {
        let temporary = self.site.path("incoming");
        fs::write(&temporary, text)?;
        Ok(fs::rename(temporary, self.site.watched().join(name))?)
    }

    /// Takes a file out of the watched folder.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.site.watched().join(name))?)
    }

    /// The proxy's process id.
    pub fn proxy(&self) -> Result<u32> {
        let (pid, _) = wait_for("a proxy process", PATIENCE, || {
            let mut all = self.site.processes()?.into_iter();
            Ok(all
                .find(|(_, line)| line.contains("--service-cluster"))
                .map(|(pid, _)| pid))
        })?;
        Ok(pid)
    }

    /// Presses Ctrl-C and waits for the end.
    pub fn interrupt(&mut self) -> Result<ExitStatus> {
        self.controller.signal(Signal::Interrupt)?;
        self.controller.wait(PATIENCE)
    }

    /// Waits until nobody listens on a port of this machine.
    pub fn wait_until_closed(&self, address: SocketAddr) -> Result<()> {
        let closed = wait_for("the listener to close", PATIENCE, || {
            let refused = TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            Ok(refused.then_some(()))
        });
        closed.map(drop).with_context(|| self.logs())
    }

    /// Everything that the programs said, for a failure's message.
    pub fn logs(&self) -> String {
        let mut text = format!("--- controller\n{}", self.controller.output());
        let mut folders = vec![self.site.path("state")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "log") {
                    let log = fs::read_to_string(&path).unwrap_or_default();
                    text.push_str(&format!("--- {}\n{log}", path.display()));
                }
            }
        }
        text
    }
}

/// The text with other ports. All in one pass: the new number of one may begin like the old number of the other.
fn with_ports(text: &str, gateway: u16, echo: u16) -> String {
    let mut parts = text.split("port: ");
    let mut adapted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        let number = match number {
            "8888" => gateway.to_string(),
            "3000" => echo.to_string(),
            other => other.to_owned(),
        };
        adapted.extend(["port: ", &number, rest]);
    }
    adapted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_replaced_whatever_their_numbers() {
        let text = "port: 8888\n- { port: 3000, name: a }\nport: 80\nport: 30001\nport: 3000";
        assert_eq!(
            with_ports(text, 30009, 18888),
            "port: 30009\n- { port: 18888, name: a }\nport: 80\nport: 30001\nport: 18888"
        );
    }
}
