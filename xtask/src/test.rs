//! `cargo xtask test`: the tiers of tests, and one line at the end that sums them up.
//!
//! | tier | what | needs |
//! |---|---|---|
//! | unit | unit, golden and documentation tests of every crate | cargo |
//! | library | documentation without warnings, packages of the core's crates, those for a browser, the programs alone | cargo |
//! | charts | what Helm says of the charts and renders from them | Go |
//! | properties | the laws of translation over generated worlds, and the fuzz targets for a while | cargo |
//! | fuzz | the fuzz targets with a kept corpus, guided by coverage, for a minute each | g++ |
//! | envoy | the xDS of every golden case in front of stock Envoy and of edge-proxy | Python 3 or an Envoy binary |
//! | e2e | real programs, once with each data plane, and services of others they talk to | the same, Go |
//! | cluster | the same in a real Kubernetes, whose pods are processes of this machine | the same, root, nftables |
//! | conformance | the core of all profiles of the official suite, with edge-proxy | the same |
//!
//! Tests of whole programs, and those in a cluster, wait most of the time. Where they are asked for, the tiers library,
//! properties and fuzz run beside them (`beside`), and what these say follows at the end.
//!
//! A tier whose tool is missing fails and says what to install. Nothing is skipped in silence.

mod beside;
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
    workspace::{self, Profile, Programs, Target},
};
use anyhow::{Result, bail};
use beside::Beside;
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
    /// Tiers to run, in this order but for those that run beside others; all when none is named.
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
    /// What those who embed the core rely on, and those who install the programs.
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

impl Tier {
    /// Whether it waits for processes most of the time.
    fn waits(self) -> bool {
        matches!(self, Self::E2e | Self::Cluster | Self::Conformance)
    }

    /// Whether it computes most of the time, and bears to be slow.
    fn yields(self) -> bool {
        matches!(self, Self::Library | Self::Properties | Self::Fuzz)
    }

    fn run(self, options: &Options) -> Result<Tally> {
        match self {
            Self::Unit => unit(),
            Self::Library => library::run(),
            Self::Charts => charts::run(),
            Self::Properties => properties(),
            Self::Fuzz => fuzz::tier(),
            Self::Envoy => against_envoy(&options.inputs),
            Self::E2e => end_to_end(),
            Self::Cluster => in_cluster(),
            Self::Conformance => conformance(),
        }
    }
}

/// Integration test targets with one of these prefixes hold properties.
const PROPERTY_TARGETS: [&str; 2] = ["laws", "properties"];
/// The package whose library is large and generated, and has no tests at all.
const WITHOUT_UNITS: &str = "edge-envoy";
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
    let (beside, tiers): (Vec<Tier>, Vec<Tier>) = if tiers.iter().any(|tier| tier.waits()) {
        tiers.iter().copied().partition(|tier| tier.yields())
    } else {
        (Vec::new(), tiers.to_vec())
    };
    let mut running = None;
    let mut total = Tally::default();
    let mut out = io::stdout();
    for tier in tiers {
        if tier.waits() && running.is_none() && !beside.is_empty() {
            running = Some(start(&beside)?);
        }
        writeln!(out, "\n=== tier {tier:?}")?;
        let start = Instant::now();
        total += tier.run(options).unwrap_or_else(|error| {
            // A tier that can't even start is one failure.
            let why = format!("tier {tier:?} failed: {error:#}");
            let _ = writeln!(out, "{why}");
            Tally::failure(why)
        });
        writeln!(out, "\n=== tier {tier:?} took {} s", start.elapsed().as_secs())?;
    }
    if let Some(running) = running {
        total += running.end()?;
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

/// Starts tiers beside those that wait, as soon as these have nothing large to compile any more: otherwise the one
/// would wait for the other's compilers.
fn start(beside: &[Tier]) -> Result<Beside> {
    let names: Vec<String> = beside.iter().map(|tier| format!("{tier:?}")).collect();
    writeln!(io::stdout(), "\n=== beside what follows: {}", names.join(", "))?;
    // What can't be built is told by the tier that needs it.
    let _ = build_for_waiting();
    Beside::start(beside)
}

fn build_for_waiting() -> Result<()> {
    Programs::build(Profile::Dev)?;
    let mut command = tests()?;
    let waits = |target: &&Target| target.is_end_to_end() || target.is_for_cluster();
    choose(&mut command, test_targets()?.iter().filter(waits));
    command.arg("--no-run").status()?;
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
    // Not what is known to have none: each would be a program to compile and to link.
    units.args(["--exclude", WITHOUT_UNITS, "--lib"]);
    for program in workspace::targets("bin")?.iter().filter(|target| target.is_tested) {
        units.args(["--bin", &program.name]);
    }
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

/// With one data plane, so that a whole run stays below an hour: the other is
/// `cargo xtask conformance --core --data-plane envoy`, and the scenarios of the cluster run on both.
fn conformance() -> Result<Tally> {
    conformance::core(DataPlane::EdgeProxy)
}

/// A run of tests that are chosen by the name of their target, never by package: cargo unifies the features of what it
/// is asked for, and would compile the large dependencies again for every other set of packages.
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
    workspace::targets("test")
}
