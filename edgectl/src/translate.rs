//! `edgectl x translate`: resource files in; statuses, the intermediate representation and xDS out.
//!
//! The same steps as in the controller, once: load, translate, lower. [`translate`] does them, the modules below show
//! parts of what it gives ([`show`]) and the command writes them. Absent on purpose: infrastructure. Conditions that
//! need it (a Gateway's address, its `Programmed`) are left out, not guessed.

use crate::cli::{OutputFormat, whoever_reads};
use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use edge_ir::{FleetKey, StartPlace};
use edge_threads::Cores;
use edge_translate::{
    Answers, Fault, Once, Settings, Translation,
    api::Timestamp,
    load::{Limits, LoadFinding, LoadedObject, Severity},
};
use edge_xds::{dump::DumpKind, lower::Lowering, snapshot::Snapshot};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

pub mod input;
mod missing;
mod settings;
pub mod show;
mod strict;

use input::Text;

/// What to translate, and what to show of it.
#[derive(Clone, Debug, clap::Args)]
pub struct TranslateArgs {
    /// What the input is.
    #[arg(long, value_enum, default_value = "gateway-api")]
    pub from: From,
    /// What to print.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "gateway-api,xds")]
    pub to: Vec<Target>,
    /// The part of xDS to print.
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "all", value_parser = dump_kinds())]
    pub part: DumpKind,
    /// File to read, folder to read with everything below it, or - for standard input. May be given again.
    #[arg(short, long, required = true)]
    pub file: Vec<PathBuf>,
    /// Configuration file of the controller that is meant; without it, one in a cluster with every optional kind.
    #[arg(short, long, value_name = "FILE")]
    pub config_path: Option<PathBuf>,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: OutputFormat,
    /// Adds what the input refers to and doesn't bring: Services with an endpoint, a GatewayClass, an EdgeProxy.
    #[arg(long)]
    pub add_missing_resources: bool,
    /// Fails on everything that is odd: warnings, unknown fields, what an API server would refuse, and statuses that
    /// say that something isn't in force.
    /// Each is a line on standard error: file:line: object: condition reason: message.
    #[arg(long)]
    pub strict: bool,
    /// The time by which certificates are judged, e.g. 2030-01-01T00:00:00Z; without it, now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub now: Option<Timestamp>,
    /// What stands at a URL that policies make the controller fetch, such as what an identity provider says of itself
    /// or a Wasm module, or the module in an image (`oci://registry/repository:tag=FILE`): nothing is fetched here. May
    /// be given again.
    #[arg(long = "document", value_name = "URL=FILE", value_parser = document)]
    pub documents: Vec<(String, PathBuf)>,
    /// DNS domain of the platform.
    #[arg(long, default_value = "cluster.local")]
    pub dns_domain: String,
    /// Namespace of the controller.
    #[arg(short, long, default_value = "edge-gateway-system")]
    pub namespace: String,
}

/// The names of the parts, which help and messages then list.
fn dump_kinds() -> impl TypedValueParser<Value = DumpKind> {
    let names = DumpKind::EVERY.map(DumpKind::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<DumpKind>())
}

/// Kinds of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// Gateway API resources and whatever they refer to.
    GatewayApi,
}

/// Kinds of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// The resources with computed statuses.
    GatewayApi,
    /// The intermediate representation.
    Ir,
    /// What a proxy is sent.
    Xds,
}

/// How to translate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The controller's settings.
    pub settings: Settings,
    /// What to do about objects that the input refers to and doesn't bring.
    pub missing: Missing,
    /// The time by which certificates are judged; without it, they aren't.
    pub now: Option<Timestamp>,
    /// What stands at URLs and in images.
    pub answers: Answers,
}

/// What to do about objects that aren't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing: the statuses say so.
    Report,
    /// Make them up.
    Add,
}

impl Default for Options {
    /// A cluster's controller, missing objects reported.
    fn default() -> Self {
        Self {
            settings: settings::of_a_cluster(),
            missing: Missing::Report,
            now: None,
            answers: Answers::default(),
        }
    }
}

/// Everything that became of an input.
#[derive(Debug)]
pub struct Outcome {
    /// The objects read (and made up), in the order of the input.
    pub objects: Vec<LoadedObject>,
    /// What is wrong or odd in the text.
    pub findings: Vec<LoadFinding>,
    /// Fleets, infrastructure, statuses.
    pub translation: Translation,
    /// What the proxies of each fleet are sent.
    pub snapshots: BTreeMap<FleetKey, Snapshot>,
    /// Where proxies would start.
    pub start_place: StartPlace,
    /// What our controller calls itself.
    pub controller_name: Arc<str>,
}

/// Translates texts.
pub fn translate(texts: &[Text], options: &Options) -> Outcome {
    let mut loaded = input::load(texts, &Limits::with_kinds(options.settings.custom_kinds()));
    if options.missing == Missing::Add {
        missing::add(&mut loaded.objects, &options.settings);
    }
    let cores = Arc::new(Cores::available());
    let mut once = Once::new(options.settings.clone()).run_by(Arc::clone(&cores) as _);
    once.now = options.now;
    once.answers.clone_from(&options.answers);
    let mut snapshots = BTreeMap::new();
    let outcome = once.run_lowered(loaded, |key, fleet| {
        let mut lowering = Lowering::new().run_by(Arc::clone(&cores) as _);
        snapshots.insert(key.clone(), lowering.lower(fleet));
        (!fleet.patches.is_empty()).then(|| Arc::clone(lowering.failures()))
    });
    Outcome {
        objects: outcome.objects,
        findings: outcome.findings,
        translation: outcome.translation,
        snapshots,
        start_place: options.settings.start_place(),
        controller_name: Arc::clone(&options.settings.controller_name),
    }
}

/// Runs the command.
pub fn run(args: &TranslateArgs) -> Result<ExitCode> {
    let input = input::read(&args.file)?;
    let settings = match &args.config_path {
        Some(path) => settings::of_file(path)?,
        None => settings::of_a_cluster(),
    };
    let options = Options {
        settings: Settings {
            controller_namespace: args.namespace.as_str().into(),
            dns_domain: args.dns_domain.as_str().into(),
            ..settings
        },
        missing: if args.add_missing_resources {
            Missing::Add
        } else {
            Missing::Report
        },
        now: Some(args.now.unwrap_or_else(system_time)),
        answers: read_documents(&args.documents)?,
    };
    let mut outcome = translate(&input.texts, &options);
    outcome.findings.splice(..0, input.problems);
    let is_empty = outcome.objects.is_empty() && outcome.findings.is_empty();
    if args.strict {
        let refused = strict::refusals(&input.texts, &outcome.findings);
        outcome.findings.extend(refused);
    }
    let mut problems = Vec::new();
    let is_strict_about = match args.strict {
        true => strict::report(&outcome, &mut problems)?,
        false => 0,
    };
    let mut findings = outcome.findings.iter();
    let is_unreadable = findings.any(|finding| finding.severity == Severity::Error);
    let is_broken = !outcome.translation.faults.is_empty();
    if is_empty {
        problems.extend_from_slice(b"there are no resources in what was named\n");
    }
    whoever_reads(tell(args, &outcome, &problems))?;
    // The process ends here; taking a large world apart piece by piece would only cost time.
    std::mem::forget(outcome);
    let is_refused = args.strict && (is_empty || is_strict_about > 0);
    Ok(if is_unreadable || is_broken || is_refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Says what is wrong, with the problems that strictness has found, and shows what was asked for.
fn tell(args: &TranslateArgs, outcome: &Outcome, problems: &[u8]) -> Result<()> {
    report(&outcome.findings)?;
    io::stderr().write_all(problems)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    show::write(outcome, &args.to, args.part, args.output, &mut out)?;
    out.flush()?;
    report_faults(&outcome.translation.faults)?;
    Ok(())
}

fn report_faults(faults: &[Fault]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for Fault { object, unit, message } in faults {
        writeln!(out, "error: bug in the translation at {object}, unit {unit}: {message}")?;
    }
    Ok(())
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write it as 2006-01-02T15:04:05Z".to_owned())
}

fn document(text: &str) -> Result<(String, PathBuf), String> {
    // A URL may have the sign in its query; what stands last is the file.
    let (url, file) = text.rsplit_once('=').ok_or("write it as URL=FILE")?;
    Ok((url.to_owned(), file.into()))
}

fn read_documents(named: &[(String, PathBuf)]) -> Result<Answers> {
    let mut answers = Answers::default();
    for (url, file) in named {
        let bytes = fs::read(file).with_context(|| format!("{} can't be read", file.display()))?;
        answers.put(url, bytes);
    }
    Ok(answers)
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn report(findings: &[LoadFinding]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stderr().lock());
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    out.flush()
}
