//! `cargo xtask quickstart`: from a checkout to a serving proxy in one command.
//!
//! Builds the programs, starts the echo backend and the controller as processes of ours, waits until the proxy answers,
//! says what to try, and waits for Ctrl-C. However it ends, nobody is left behind: the children are told to stop, and
//! the controller stops its proxy.

use crate::{
    envoy,
    workspace::{self, Profile, Programs},
};
use anyhow::{Context, Result, bail};
use e2e::{
    http::{self, Request},
    process::{Signal, signal},
};
use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal as on_signal},
    time::{sleep, timeout},
};

/// How to run it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Use stock Envoy as the data plane: the path of a binary, or none to have it installed below target/.
    #[arg(long, value_name = "PATH")]
    envoy: Option<Option<PathBuf>>,
    /// Check the two answers and stop, instead of waiting for Ctrl-C.
    #[arg(long)]
    check: bool,
    /// How the programs are built; `dev` takes those of the tests.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

/// Folder of the example.
const EXAMPLE: &str = "examples/quickstart";
/// Port of the Gateway's listener in the example.
const GATEWAY: u16 = 8888;
/// Port of the backend in the example.
const BACKEND: u16 = 3000;
/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a child may take to stop.
const STOP: Duration = Duration::from_secs(75);

/// Runs the quickstart.
pub(crate) fn run(options: &Options) -> Result<()> {
    // Before the build, which takes minutes the first time.
    require_free(
        Ipv4Addr::UNSPECIFIED,
        GATEWAY,
        "the Gateway's listener: `port` in gateway.d/gateway.yaml",
    )?;
    require_free(
        Ipv4Addr::LOCALHOST,
        BACKEND,
        "the echo backend: the Backend in gateway.d/www.yaml",
    )?;
    let envoy = match &options.envoy {
        Some(None) => Some(envoy::binary()?),
        Some(Some(path)) => Some(std::path::absolute(path)?),
        None => None,
    };
    let programs = Programs::build(options.profile)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(&programs, envoy, options.check))
}

fn require_free(address: Ipv4Addr, port: u16, what: &str) -> Result<()> {
    match TcpListener::bind((address, port)) {
        Ok(_) => Ok(()),
        Err(error) => bail!("port {port} can't be used ({error}). It is for {what} in {EXAMPLE}"),
    }
}

/// Why the wait ended.
enum End {
    /// Somebody pressed Ctrl-C, or asked us to stop.
    Asked,
    /// The checks are done.
    Checked,
}

async fn serve(programs: &Programs, envoy: Option<PathBuf>, check: bool) -> Result<()> {
    let mut echo = start(Command::new(programs.path("edgectl")).args(["x", "echo", "--port", &BACKEND.to_string()]))?;
    let config = workspace::root()?.join(EXAMPLE).join("edge-gateway.yaml");
    let mut server = Command::new(programs.path("edgegateway"));
    server.args(["server", "--config-path"]).arg(config);
    if let Some(path) = envoy {
        server.arg("--proxy-binary").arg(path);
    }
    let mut controller = start(&mut server)?;
    let end = tokio::select! {
        end = serve_until_asked(check) => end,
        status = echo.wait() => Err(ended("the echo backend", status)),
        status = controller.wait() => Err(ended("the controller", status)),
    };
    // The controller first: its proxy still answers while it drains.
    stop(&mut controller).await?;
    stop(&mut echo).await?;
    match end? {
        End::Asked => writeln!(io::stdout(), "\nStopped.")?,
        End::Checked => writeln!(io::stdout(), "\nBoth answers are right. Stopped.")?,
    }
    Ok(())
}

fn start(command: &mut Command) -> Result<Child> {
    let name = command.as_std().get_program().to_owned();
    // A group of its own: Ctrl-C in the terminal then reaches us alone, and we stop the children in order.
    command.process_group(0).kill_on_drop(true);
    command
        .spawn()
        .with_context(|| format!("{} can't be started", name.display()))
}

fn ended(who: &str, status: io::Result<std::process::ExitStatus>) -> anyhow::Error {
    match status {
        Ok(status) => anyhow::anyhow!("{who} ended ({status}); its last message above says why"),
        Err(error) => anyhow::anyhow!("{who} can't be watched: {error}"),
    }
}

async fn stop(child: &mut Child) -> Result<()> {
    let Some(pid) = child.id() else { return Ok(()) };
    // It may end by itself between the two lines.
    let _ = signal(pid, Signal::Terminate);
    if timeout(STOP, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

async fn serve_until_asked(check: bool) -> Result<End> {
    let mut interrupt = on_signal(SignalKind::interrupt())?;
    let mut terminate = on_signal(SignalKind::terminate())?;
    tokio::select! {
        result = greet(check) => result?,
        _ = interrupt.recv() => return Ok(End::Asked),
        _ = terminate.recv() => return Ok(End::Asked),
    }
    if check {
        return Ok(End::Checked);
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(End::Asked)
}

/// Waits for the first answer, then says what to try.
async fn greet(check: bool) -> Result<()> {
    let start = Instant::now();
    while status("www.example.com").await != Some(200) {
        if start.elapsed() > PATIENCE {
            bail!("no answer on port {GATEWAY} after {PATIENCE:?}; the controller's messages above say why");
        }
        sleep(Duration::from_millis(20)).await;
    }
    if check {
        return match status("nobody.example").await {
            Some(404) => Ok(()),
            other => bail!("an unknown host must answer 404, not {other:?}"),
        };
    }
    let mut out = io::stdout();
    writeln!(out, "\nServing. Try:\n")?;
    writeln!(
        out,
        "  curl -i -H 'Host: www.example.com' http://127.0.0.1:{GATEWAY}/     → 200, from the backend"
    )?;
    writeln!(
        out,
        "  curl -i -H 'Host: nobody.example'  http://127.0.0.1:{GATEWAY}/     → 404, no body"
    )?;
    writeln!(
        out,
        "  cp {EXAMPLE}/more/shop.yaml {EXAMPLE}/gateway.d/            then ask for shop.example.com/cart"
    )?;
    writeln!(out, "\nCtrl-C stops everything.")?;
    Ok(())
}

/// The status that the proxy answers for a host; none while nobody answers.
async fn status(host: &'static str) -> Option<u16> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, GATEWAY));
    let answer = tokio::task::spawn_blocking(move || http::send(address, &Request::get(host, "/")));
    Some(answer.await.ok()?.ok()?.status)
}
