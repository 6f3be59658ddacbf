//! The test cluster: builds `e2e/kubelab`, a real Kubernetes whose pods are processes of this machine, and starts test
//! programs inside of it.
//!
//! The first build compiles Kubernetes, which takes minutes; after that the sources' digest beside the program says
//! that it is up to date. What a lab needs of the machine is checked before anything is built, each with its remedy.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// Go that the lab's modules are written for, as major and minor.
const GO: (u32, u32) = (1, 26);

/// Which definitions of Gateway API a lab has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Channel {
    /// What is settled.
    Standard,
    /// The same with fields and kinds that are not.
    Experimental,
}

impl Channel {
    /// As folders and reports call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Experimental => "experimental",
        }
    }
}

/// The built program.
#[derive(Debug)]
pub(crate) struct Lab {
    program: PathBuf,
}

impl Lab {
    /// Checks what labs need and builds the program if its sources or the compiler have changed.
    pub(crate) fn build() -> Result<Self> {
        let compiler = check_needs()?;
        let program = workspace::target_dir()?.join("kubelab/kubelab");
        let stamp = program.with_extension("stamp");
        let digest = digest(&compiler)?;
        let is_built = program.is_file() && program.with_file_name("kubectl").is_file();
        let is_current = is_built && fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == digest);
        if !is_current {
            compile(&program)?;
            fs::write(stamp, digest)?;
        }
        Ok(Self { program })
    }

    /// Builds the official conformance suite and its backend beside the program, and gives the suite's path. Go's own
    /// cache says what is up to date.
    pub(crate) fn build_suite(&self) -> Result<PathBuf> {
        let folder = self.program.parent().context("the lab's program has no folder")?;
        let mut command = Command::new("sh");
        command.arg("conformance/build.sh").arg(folder).current_dir(sources()?);
        if !command.status()?.success() {
            bail!("the conformance suite (e2e/kubelab/conformance) doesn't build");
        }
        Ok(folder.join("kubelab-conformance"))
    }

    /// A command that runs inside of a lab, whose logs stay in a folder of `target`.
    pub(crate) fn command(&self, name: &str, channel: Channel, program: &Path) -> Result<Command> {
        let [lab, arguments @ ..] = self.runner(name, channel)?;
        let mut command = Command::new(lab);
        command.args(arguments).arg(program);
        command.env(
            "EDGE_GATEWAY_API",
            self.program.with_file_name("crds").join(channel.name()),
        );
        Ok(command)
    }

    /// The lab's own tests.
    pub(crate) fn own_tests(&self) -> Result<Command> {
        let mut command = go()?;
        // Vetting for a test would analyse all of Kubernetes.
        command.args(["test", "-buildvcs=false", "-vet=off", "-v", "."]);
        Ok(command)
    }

    /// Has cargo start test programs in a lab, each in one of its own, whose logs stay in a folder of `target`.
    pub(crate) fn around(&self, tests: &mut Command, name: &str) -> Result<()> {
        let runner = serde_json::to_string(&self.runner(name, Channel::Standard)?)?;
        tests
            .arg("--config")
            .arg(format!("target.'cfg(all())'.runner={runner}"));
        Ok(())
    }

    /// What stands before a command to run it in a lab.
    fn runner(&self, name: &str, channel: Channel) -> Result<[String; 5]> {
        let logs = self.program.with_file_name("logs").join(name);
        let config = workspace::root()?.join("e2e").join(match channel {
            Channel::Standard => "lab.yaml",
            Channel::Experimental => "lab-experimental.yaml",
        });
        Ok([
            self.program.display().to_string(),
            "run".into(),
            format!("--logs={}", logs.display()),
            format!("--config={}", config.display()),
            "--".into(),
        ])
    }
}

/// Fails with the remedy if this machine can't build or run labs; gives the compiler's version.
fn check_needs() -> Result<String> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the test cluster makes namespaces and mounts and must run as root: run this again as root"
    );
    let nft = Command::new("nft").arg("--version").output();
    ensure!(
        nft.is_ok_and(|output| output.status.success()),
        "the test cluster needs the program nft for its Services: install it (Debian: apt-get install nftables)"
    );
    let hint = format!(
        "the test cluster is compiled with Go {}.{} or newer: install it from https://go.dev/dl and put it on the PATH",
        GO.0, GO.1
    );
    let output = go()?
        .args(["env", "GOVERSION"])
        .output()
        .with_context(|| hint.clone())?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let found = format!("{version}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success() && is_recent(&version),
        "{hint}; found: {}",
        found.trim()
    );
    Ok(version)
}

/// Reads `go1.26.8`.
fn is_recent(version: &str) -> bool {
    let mut parts = version.trim_start_matches("go").split('.').map(str::parse);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= GO)
}

/// Go in the lab's module.
fn go() -> Result<Command> {
    let mut command = Command::new("go");
    command.current_dir(sources()?).env("CGO_ENABLED", "0");
    Ok(command)
}

fn sources() -> Result<PathBuf> {
    Ok(workspace::root()?.join("e2e/kubelab"))
}

/// Compiles the lab, and beside it the kubectl that documents tell people to use.
fn compile(program: &Path) -> Result<()> {
    let modules = fs::read_to_string(sources()?.join("go.mod"))?;
    let version = kubernetes(&modules).context("e2e/kubelab/go.mod names no version of k8s.io/kubernetes")?;
    let minor = version.split('.').nth(1).unwrap_or_default();
    let package = "k8s.io/component-base/version";
    let flags =
        format!("-s -w -X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}");
    let kubectl = program.with_file_name("kubectl");
    for (output, package) in [(program, "."), (&kubectl, "k8s.io/kubernetes/cmd/kubectl")] {
        let mut command = go()?;
        command.args(["build", "-buildvcs=false", "-ldflags", &flags, "-o"]);
        command.arg(output).arg(package);
        if !command.status()?.success() {
            bail!("the test cluster (e2e/kubelab) doesn't build: {package}");
        }
    }
    Ok(())
}

/// The version of Kubernetes that a go.mod asks for, as in `v1.36.3`.
fn kubernetes(modules: &str) -> Option<&str> {
    modules
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v").map(|_| line))?
        .split_whitespace()
        .nth(1)
}

/// What the program is made of: its sources and the compiler.
fn digest(compiler: &str) -> Result<String> {
    let mut names: Vec<PathBuf> = fs::read_dir(sources()?)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    names.retain(|path| path.extension().is_some_and(|e| e == "go" || e == "mod" || e == "sum"));
    names.sort();
    let mut hasher = DefaultHasher::new();
    compiler.hash(&mut hasher);
    for name in names {
        name.file_name().hash(&mut hasher);
        fs::read(&name)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_recent("go1.26.8") && is_recent("go1.100") && is_recent("go2.0"));
        assert!(!is_recent("go1.19.8") && !is_recent("") && !is_recent("devel"));
    }

    #[test]
    fn the_version_of_kubernetes_stands_in_the_module() {
        let modules = "require (\n\tk8s.io/kubectl v0.36.3 // indirect\n\tk8s.io/kubernetes v1.36.3\n)\n";
        assert_eq!(kubernetes(modules), Some("v1.36.3"));
        assert!(kubernetes(&fs::read_to_string(sources().unwrap().join("go.mod")).unwrap()).is_some());
    }

    #[test]
    fn a_digest_is_the_same_for_the_same_sources() {
        assert_eq!(digest("go1.26.8").unwrap(), digest("go1.26.8").unwrap());
        assert_ne!(digest("go1.26.8").unwrap(), digest("go1.27.0").unwrap());
    }
}
