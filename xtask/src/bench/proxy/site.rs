//! One proxy between a backend and a load generator, all of them fresh.

use super::peer::{Bench, Key, Logs, Peer, Setup, Size, Speech, on_load_core, on_proxy_core};
use anyhow::{Context, Result, bail, ensure};
use e2e::{
    process::{Process, wait_for},
    tls::Authority,
    usage::{Cpu, memory_kib},
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// The name that certificates are for.
pub(super) const HOST: &str = "app.example.com";
/// How long a proxy with many routes may take to start, under valgrind too.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) speech: Speech,
    pub(super) size: Size,
    pub(super) logs: Logs,
    /// Bytes of an answer.
    pub(super) bytes: usize,
}

impl Plan {
    /// HTTP/1.1, one route, 1 kB, no log.
    pub(super) const PLAIN: Self = Self {
        speech: Speech::Http1,
        size: Size::Any,
        logs: Logs::No,
        bytes: 1024,
    };
}

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// A second.
    pub(super) rps: f64,
    /// Latencies in µs.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// CPU of a request in µs.
    pub(super) user: f64,
    pub(super) system: f64,
    /// Resident, in MiB.
    pub(super) resident: f64,
}

impl Sample {
    /// CPU of a request in µs, all of it.
    pub(super) fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// A running proxy.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) proxy: Process,
    _backend: Process,
    pub(super) setup: Setup,
    load: PathBuf,
    /// Last, so that it outlives the processes.
    _folder: TempDir,
}

impl Site {
    /// Starts one.
    pub(super) fn start(bench: &Bench, peer: &Peer, plan: Plan) -> Result<Self> {
        Self::start_under(bench, peer, plan, &[])
    }

    /// The same under another program, whose words come first. `FOLDER` in them is the folder of the site.
    pub(super) fn start_under(bench: &Bench, peer: &Peer, plan: Plan, above: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("edge-bench-").tempdir()?;
        let [front, back, admin] = e2e::ports::free()?;
        let setup = Setup {
            speech: plan.speech,
            size: plan.size,
            logs: plan.logs,
            front,
            back,
            admin,
            folder: folder.path().to_owned(),
        };
        match plan.speech {
            Speech::Tls(Key::P256) => sign(&setup)?,
            Speech::Tls(Key::Rsa) => sign_with_rsa(&setup)?,
            Speech::Http1 | Speech::Http2 | Speech::Grpc => {}
        }
        let kind = match plan.speech {
            Speech::Grpc => "grpc-backend",
            _ => "backend",
        };
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
        let words = [
            &bench.load.display().to_string(),
            kind,
            &address(back),
            &plan.bytes.to_string(),
        ];
        let mut command = on_load_core(&words.map(str::to_owned));
        let backend = Process::start("backend", folder.path(), &mut command)?;
        listens(back)?;
        let above = above
            .iter()
            .map(|word| word.replace("FOLDER", &setup.folder.display().to_string()));
        let words: Vec<String> = above.chain(peer.words(&setup)?).collect();
        let proxy = Process::start("proxy", folder.path(), &mut on_proxy_core(&words))?;
        listens(front).with_context(|| proxy.output())?;
        Ok(Self {
            proxy,
            _backend: backend,
            setup,
            load: bench.load.clone(),
            _folder: folder,
        })
    }

    /// The address of the proxy.
    pub(super) fn address(&self) -> String {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.setup.front)).to_string()
    }

    /// The load generator with these words; `ADDRESS` is the proxy's.
    pub(super) fn loader(&self, words: &[&str]) -> Command {
        let words = words.iter().map(|word| match *word {
            "ADDRESS" => self.address(),
            "AUTHORITY" => self.setup.authority().display().to_string(),
            other => other.to_owned(),
        });
        let program = std::iter::once(self.load.display().to_string());
        on_load_core(&program.chain(words).collect::<Vec<_>>())
    }

    /// Drives it by these words, whose last is to be how much: finished requests, and latencies in µs.
    pub(super) fn drive(&self, words: &[&str], extent: &str) -> Result<[f64; 3]> {
        let output = self.loader(words).arg(extent).output();
        let output = output.context("taskset can't be started: install util-linux")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("the load generator failed: {said}\n{}", self.proxy.output());
        }
        let text = String::from_utf8(output.stdout)?;
        let found: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [requests, errors, p50, p99] = found[..] else {
            bail!("the load generator said {found:?}")
        };
        ensure!(errors == 0.0, "{errors} connections broke");
        Ok([requests, p50, p99])
    }

    /// Warms it up, drives it for a while and looks what that cost.
    pub(super) fn measure(&self, words: &[&str], seconds: u64) -> Result<Sample> {
        let pid = self.proxy.pid();
        self.drive(words, "0.5")?;
        let before = Cpu::of(pid)?;
        let [requests, p50, p99] = self.drive(words, &seconds.to_string())?;
        let cpu = Cpu::of(pid)?.since(before);
        Ok(Sample {
            rps: requests / seconds as f64,
            p50,
            p99,
            user: cpu.user * 1e6 / requests,
            system: cpu.system * 1e6 / requests,
            resident: memory_kib(pid, "VmRSS")? / 1024.0,
        })
    }
}

fn listens(port: u16) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_for(&format!("a listener on {address}"), PATIENCE, || {
        Ok(TcpStream::connect(address).ok())
    })?;
    Ok(())
}

fn sign(setup: &Setup) -> Result<()> {
    let authority = Authority::new()?;
    fs::write(setup.authority(), authority.pem())?;
    Ok(fs::write(setup.certificate(), authority.certificate_and_key(HOST)?)?)
}

/// Our own signer makes no keys of RSA. The certificate is its own authority.
fn sign_with_rsa(setup: &Setup) -> Result<()> {
    let (key, subject) = (setup.folder.join("key.pem"), format!("/CN={HOST}"));
    let extensions = [
        format!("subjectAltName=DNS:{HOST}"),
        "basicConstraints=critical,CA:FALSE".to_owned(),
    ];
    let mut command = Command::new("openssl");
    command.args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject,
    ]);
    command.args(extensions.iter().flat_map(|extension| ["-addext", extension]));
    command.arg("-keyout").arg(&key).arg("-out").arg(setup.authority());
    let output = command.output();
    let output = output.context("openssl can't be started: install it (Debian: apt-get install openssl)")?;
    ensure!(
        output.status.success(),
        "openssl failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let both = fs::read_to_string(setup.authority())? + &fs::read_to_string(key)?;
    Ok(fs::write(setup.certificate(), both)?)
}
