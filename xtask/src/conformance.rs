//! `cargo xtask conformance`: the official suite of Gateway API, unchanged, against our controller in the test cluster.
//!
//! The controller and its class are installed by `edge-conformance` inside the lab, which then becomes the suite. A run
//! of everything writes the official report to `docs/conformance`; one of a part writes it below `target`.

use crate::{
    envoy,
    lab::{Channel, Lab},
    test::tally::{self, Tally},
    workspace::{self, Profile, Programs},
};
use anyhow::{Context, Result, bail};
use std::{fs, path::PathBuf, process::Command};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The data plane behind the Gateways.
    #[arg(long, value_enum, default_value_t = DataPlane::EdgeProxy)]
    data_plane: DataPlane,
    /// Where fleets live, and how many Gateways share one.
    #[arg(long, value_enum, default_value_t = Mode::GatewayNamespace)]
    mode: Mode,
    /// The definitions of Gateway API in the cluster.
    #[arg(long, value_enum, default_value_t = Channel::Standard)]
    channel: Channel,
    /// Profiles to run, as in GATEWAY-HTTP; all five when none is named.
    #[arg(long = "profile", value_name = "PROFILE")]
    profiles: Vec<String>,
    /// Only the tests of what every implementation of a profile must have.
    #[arg(long)]
    core: bool,
    /// One test, by its name.
    #[arg(long, value_name = "TEST")]
    run_test: Option<String>,
    /// Optimised programs, as for a report; unoptimised ones by default.
    #[arg(long)]
    release: bool,
    /// More flags of the suite, after `--`.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DataPlane {
    EdgeProxy,
    Envoy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Each fleet beside its Gateway, which is what the suite's test of infrastructure metadata looks for.
    GatewayNamespace,
    /// All fleets beside the controller.
    ControllerNamespace,
    /// One fleet for all Gateways of the class.
    Merged,
}

/// Profiles, each with the core feature that it has for itself, and with what the suite tests to be refused where it
/// isn't claimed.
const PROFILES: [(&str, &str); 5] = [
    ("GATEWAY-HTTP", "HTTPRoute"),
    ("GATEWAY-GRPC", "GRPCRoute"),
    ("GATEWAY-TLS", "TLSRoute,TLSRouteModeTerminate,TLSRouteModeMixed"),
    ("GATEWAY-TCP", "TCPRoute"),
    ("GATEWAY-UDP", "UDPRoute"),
];
/// Core features that all profiles have.
const OF_ALL: &str = "Gateway,ReferenceGrant";
/// Features with a test each that the suite's gRPC profile doesn't name.
const CALLS: &str = "GRPCRouteNamedRouteRule,GRPCRouteRequestHeaderModifier";
/// Features of the experimental channel that are in force and that no test asks for.
const UNTESTED: &str = "ClusterTrustBundle";
/// An address that the lab gives to a Service that asks for it, and one that it can't give.
const ADDRESSES: [&str; 2] = ["172.30.200.1", "192.0.2.1"];

/// Builds what is needed and runs the suite. The last line of output is the suite's sum.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !command(options)?
        .status()
        .context("the test cluster can't be started")?
        .success()
    {
        bail!("the suite found faults; the logs of all pods are in target/kubelab/logs/conformance");
    }
    Ok(())
}

/// Runs what every implementation of the profiles must have, and counts.
pub(crate) fn core(data_plane: DataPlane) -> Result<Tally> {
    let options = Options {
        data_plane,
        mode: Mode::GatewayNamespace,
        channel: Channel::Standard,
        profiles: Vec::new(),
        core: true,
        run_test: None,
        release: false,
        flags: Vec::new(),
    };
    tally::run_suite(command(&options)?)
}

/// The suite inside of a lab, with all that it needs built.
fn command(options: &Options) -> Result<Command> {
    let lab = Lab::build()?;
    let suite = lab.build_suite()?;
    let profile = if options.release {
        Profile::Release
    } else {
        Profile::Dev
    };
    let programs = Programs::build(profile)?;
    let report = options.report()?;
    let mut command = lab.command("conformance", options.channel, &installer()?)?;
    command
        .args([options.data_plane.name(), options.mode.name()])
        .arg(suite)
        .args(options.flags_of_suite())
        .arg(format!("--report={}", report.display()))
        .env("EDGE_PROGRAMS", programs.path(""))
        // The lab's images name both.
        .env("EDGE_ENVOY", envoy::binary()?);
    Ok(command)
}

impl Options {
    fn profiles(&self) -> Vec<&str> {
        match &self.profiles[..] {
            [] => PROFILES.iter().map(|(name, _)| *name).collect(),
            named => named.iter().map(String::as_str).collect(),
        }
    }

    fn flags_of_suite(&self) -> Vec<String> {
        let profiles = self.profiles();
        let features = self.features(&profiles);
        let [usable, unusable] = ADDRESSES;
        let mut flags = vec![
            "--gateway-class=edge".to_owned(),
            format!("--profiles={}", profiles.join(",")),
            format!("--supported-features={features}"),
            format!("--usable-address={usable}"),
            format!("--unusable-address={unusable}"),
            "--organization=edge-gateway".to_owned(),
            "--project=edge-gateway".to_owned(),
            format!("--version=v{}", env!("CARGO_PKG_VERSION")),
            format!("--mode={}", self.mode.name()),
            // The lab goes with all that is in it. What hangs while it is taken down would cost all results.
            "--cleanup-base-resources=false".to_owned(),
        ];
        flags.extend(self.run_test.iter().map(|name| format!("--run-test={name}")));
        flags.extend(self.flags.iter().cloned());
        flags
    }

    fn features(&self, profiles: &[&str]) -> String {
        if self.core {
            let own = PROFILES.iter().filter(|(name, _)| profiles.contains(name));
            return own.fold(OF_ALL.to_owned(), |all, (_, features)| format!("{all},{features}"));
        }
        let calls = profiles.contains(&"GATEWAY-GRPC").then_some(CALLS);
        let untested = (self.channel == Channel::Experimental).then_some(UNTESTED);
        let all = ["all-of-profile"].into_iter().chain(calls).chain(untested);
        all.collect::<Vec<_>>().join(",")
    }

    /// Where the report goes: a part of the suite is nothing to show.
    fn report(&self) -> Result<PathBuf> {
        let is_part = self.core || !self.profiles.is_empty() || self.run_test.is_some();
        let is_whole = !is_part && self.mode == Mode::GatewayNamespace;
        let folder = if is_whole {
            workspace::root()?.join("docs/conformance")
        } else {
            workspace::target_dir()?.join("kubelab")
        };
        fs::create_dir_all(&folder)?;
        let channel = match self.channel {
            Channel::Standard => "",
            Channel::Experimental => "-experimental",
        };
        let name = format!(
            "v{}-{}{channel}.yaml",
            env!("CARGO_PKG_VERSION"),
            self.data_plane.name()
        );
        Ok(folder.join(name))
    }
}

impl DataPlane {
    fn name(self) -> &'static str {
        match self {
            Self::EdgeProxy => "edge-proxy",
            Self::Envoy => "envoy",
        }
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::GatewayNamespace => "gateway-namespace",
            Self::ControllerNamespace => "controller-namespace",
            Self::Merged => "merged",
        }
    }
}

/// Builds the program that installs the controller inside of the lab.
fn installer() -> Result<PathBuf> {
    let mut command = workspace::build()?;
    command.args(["--bin", "edge-conformance"]);
    if !command.status().context("cargo can't be started")?.success() {
        bail!("edge-conformance doesn't build");
    }
    Ok(workspace::target_dir()?.join("debug/edge-conformance"))
}
