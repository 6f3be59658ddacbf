//! `cargo xtask test`: the tiers of tests, and one line at the end that sums them up.
//!
//! | tier | what | needs |
//! |---|---|---|
//! | unit | unit, golden and documentation tests of every crate | cargo |
//! | library | documentation without warnings, packages of the core's crates, and those that a browser runs | cargo |
//! | charts | what Helm says of the charts and renders from them | Go |
//! | properties | the laws of translation over generated worlds, and the fuzz targets for a while | cargo |
//! | fuzz | the fuzz targets with a kept corpus, guided by coverage, for half a minute each | g++ |
//! | envoy | the xDS of every golden case in front of stock Envoy and of edge-proxy | Python 3 or an Envoy binary |
//! | e2e | the quickstart as a user starts it, once for each data plane | the same |
//! | cluster | the controller in a real Kubernetes on this machine, once for each data plane | the same, root, Go, nft |
//! | conformance | the core of all profiles of the official suite, with edge-proxy | the same |
//!
//! A tier whose tool is missing fails and says what to install. Nothing is skipped in silence.

mod charts;
mod failures;
pub(crate) mod laws;
mod library;
pub(crate) mod tally;

use crate::{
    conformance::{self, DataPlane},
    envoy, fuzz,
    lab::Lab,
    services::Service,
    workspace::{self, Profile, Programs},
};
use anyhow::{Result, bail};
use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
    process::Command,
    time::Instant,
};
use tally::Tally;

/// What to test.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Tiers to run, in this order; all when none is named.
    #[arg(long = "tier", value_enum)]
    tiers: Vec<Tier>,
    /// For tier envoy: more folders of input files whose translation Envoy must accept.
    #[arg(long, value_name = "FOLDER")]
    inputs: Vec<PathBuf>,
}

/// A group of tests with the same needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// Unit, golden and documentation tests.
    Unit,
    /// What those who embed the core rely on.
    Library,
    /// The charts.
    Charts,
    /// Properties and fuzz targets.
    Properties,
    /// Fuzz targets, guided by coverage.
    Fuzz,
    /// What stock Envoy thinks of our xDS.
    Envoy,
    /// Whole programs.
    E2e,
    /// The controller in a cluster.
    Cluster,
    /// The core of the official suite.
    Conformance,
}

/// Integration test targets with one of these prefixes hold properties.
const PROPERTY_TARGETS: [&str; 2] = ["laws", "properties"];
/// Package of whole programs' tests.
const END_TO_END: &str = "e2e";
/// Package of fuzz targets.
const FUZZ: &str = "fuzz";
/// The test target of tier envoy in package e2e.
const ENVOY_TARGET: &str = "envoy_accepts";
/// Test targets of tier cluster in package e2e begin so. Each gets a lab of its own.
const CLUSTER_TARGETS: &str = "cluster";
/// The one of them whose tests break the lab, and so run one after the other.
const FAULTS_TARGET: &str = "cluster_faults";

/// What stands before all that failed, told once more at the end. `.ci/run` looks for it.
const FAILURES: &str = "=== what failed";

/// Runs the tiers. The last line of output is `N passed, N failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = [
        Tier::Unit,
        Tier::Library,
        Tier::Charts,
        Tier::Properties,
        Tier::Fuzz,
        Tier::Envoy,
        Tier::E2e,
        Tier::Cluster,
        Tier::Conformance,
    ];
    let tiers = if options.tiers.is_empty() {
        &all[..]
    } else {
        &options.tiers
    };
    let mut total = Tally::default();
    let mut out = io::stdout();
    for tier in tiers {
        writeln!(out, "\n=== tier {tier:?}")?;
        let start = Instant::now();
        let result = match tier {
            Tier::Unit => unit(),
            Tier::Library => library::run(),
            Tier::Charts => charts::run(),
            Tier::Properties => properties(),
            Tier::Fuzz => fuzz::tier(),
            Tier::Envoy => against_envoy(&options.inputs),
            Tier::E2e => end_to_end(),
            Tier::Cluster => in_cluster(),
            Tier::Conformance => conformance(),
        };
        total += result.unwrap_or_else(|error| {
            // A tier that can't even start is one failure.
            let why = format!("tier {tier:?} failed: {error:#}");
            let _ = writeln!(out, "{why}");
            Tally::failure(why)
        });
        writeln!(out, "\n=== tier {tier:?} took {} s", start.elapsed().as_secs())?;
    }
    if total.failed > 0 {
        writeln!(out, "\n{FAILURES}")?;
    }
    for failure in &total.failures {
        writeln!(out, "\n{failure}")?;
    }
    writeln!(out, "\n{total}")?;
    if total.failed > 0 {
        bail!("tests failed");
    }
    Ok(())
}

/// Runs the golden tests in the mode that rewrites their outputs.
pub(crate) fn update_golden() -> Result<()> {
    let mut command = tests()?;
    command.args(["--test", "golden"]).env("EDGE_UPDATE", "1");
    match tally::run(command)? {
        Tally { failed: 0, .. } => Ok(()),
        total => bail!("{total}"),
    }
}

fn unit() -> Result<Tally> {
    let mut units = tests()?;
    units.args(["--lib", "--bins"]);
    let targets = test_targets()?;
    choose(&mut units, targets.iter().filter(|t| t.is_unit()));
    let mut docs = tests()?;
    docs.arg("--doc");
    Ok(tally::run(units)? + tally::run(docs)?)
}

fn properties() -> Result<Tally> {
    let mut fuzzing = tests()?;
    let targets = test_targets()?;
    choose(&mut fuzzing, targets.iter().filter(|t| t.package == FUZZ));
    Ok(tally::run(laws()?)? + tally::run(fuzzing)?)
}

fn laws() -> Result<Command> {
    let mut command = tests()?;
    let targets = test_targets()?;
    choose(&mut command, targets.iter().filter(|t| t.is_property()));
    Ok(command)
}

fn against_envoy(inputs: &[PathBuf]) -> Result<Tally> {
    let envoy = envoy::binary()?;
    let programs = Programs::build(Profile::Dev)?;
    let mut command = tests()?;
    command.args(["--test", ENVOY_TARGET]);
    command.env("EDGE_ENVOY", envoy).env("EDGE_PROGRAMS", programs.path(""));
    if !inputs.is_empty() {
        let inputs = inputs.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
        command.env("EDGE_ENVOY_INPUTS", std::env::join_paths(inputs)?);
    }
    tally::run(command)
}

fn end_to_end() -> Result<Tally> {
    let envoy = envoy::binary()?;
    let programs = Programs::build(Profile::Dev)?;
    let mut command = tests()?;
    let targets = test_targets()?;
    choose(&mut command, targets.iter().filter(|t| t.is_end_to_end()));
    // They are in one folder.
    Service::H2spec.build()?;
    command
        .env("EDGE_ENVOY", envoy)
        .env("EDGE_SERVICES", Service::OpenIdProvider.build()?)
        .env("EDGE_PROGRAMS", programs.path(""));
    tally::run(command)
}

fn in_cluster() -> Result<Tally> {
    let lab = Lab::build()?;
    let services = Service::RateLimit.build()?;
    let mut total = tally::run_go(lab.own_tests()?)?;
    let (envoy, helm) = (envoy::binary()?, charts::helm()?);
    let programs = Programs::build(Profile::Dev)?;
    for target in test_targets()?.iter().filter(|t| t.is_for_cluster()) {
        let mut command = tests()?;
        lab.around(&mut command, &target.name)?;
        command.args(["--test", &target.name]);
        command.env("RUST_TEST_THREADS", target.cluster_threads());
        command
            .env("EDGE_ENVOY", &envoy)
            .env("EDGE_HELM", &helm)
            .env("EDGE_SERVICES", &services)
            .env("EDGE_PROGRAMS", programs.path(""));
        total += tally::run(command)?;
    }
    Ok(total)
}

/// With one data plane, so that a whole run stays below an hour: the other is `cargo xtask conformance --core --data-plane
/// envoy`, and the scenarios of the cluster run on both.
fn conformance() -> Result<Tally> {
    conformance::core(DataPlane::EdgeProxy)
}

/// A run of tests that are chosen by the name of their target, never by package: cargo unifies the features of what it is
/// asked for, and would compile the large dependencies again for every other set of packages.
fn tests() -> Result<Command> {
    let mut command = workspace::cargo()?;
    command.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
    Ok(command)
}

fn choose<'a>(tests: &mut Command, targets: impl Iterator<Item = &'a Target>) {
    // Several packages have a target of one name.
    let names: BTreeSet<&str> = targets.map(|target| target.name.as_str()).collect();
    for name in names {
        tests.args(["--test", name]);
    }
}

/// An integration test target.
struct Target {
    package: String,
    name: String,
}

impl Target {
    /// Whether it is of no particular tier.
    fn is_unit(&self) -> bool {
        ![END_TO_END, FUZZ].contains(&self.package.as_str()) && !self.is_property()
    }

    fn is_property(&self) -> bool {
        PROPERTY_TARGETS.iter().any(|prefix| self.name.starts_with(prefix))
    }

    fn is_for_cluster(&self) -> bool {
        self.package == END_TO_END && self.name.starts_with(CLUSTER_TARGETS)
    }

    /// Tests that run at a time in a lab: they wait for processes that start, more than they compute.
    fn cluster_threads(&self) -> &'static str {
        if self.name == FAULTS_TARGET { "1" } else { "4" }
    }

    fn is_end_to_end(&self) -> bool {
        self.package == END_TO_END && self.name != ENVOY_TARGET && !self.is_for_cluster()
    }
}

/// Integration tests of all packages.
fn test_targets() -> Result<Vec<Target>> {
    let metadata = workspace::metadata()?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut targets = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]).iter().filter(|t| t["kind"][0] == "test") {
            targets.push(Target {
                package: text(&package["name"]),
                name: text(&target["name"]),
            });
        }
    }
    Ok(targets)
}
