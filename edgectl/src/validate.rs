//! `edgectl x validate`: would an API server take these resources?
//!
//! Texts are read by the loader that translation uses, and judged by `edge-admission`, which says what an API server
//! would: by the definitions of Gateway API and of our own kinds. Absent on purpose: what resources lead to; that is
//! what `edgectl x translate --strict` tells.

use crate::{cli::whoever_reads, translate::input};
use anyhow::Result;
use edge_admission::{Catalogue, Channel, Verdict, place};
use edge_translate::load::{
    Limits, OneLine, Source,
    tree::{Tree, trees},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

/// What to validate.
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateArgs {
    /// File to read, folder to read with everything below it, or - for standard input. May be given again.
    #[arg(short, long, required = true)]
    pub file: Vec<PathBuf>,
    /// Which definitions of Gateway API the cluster has that is meant.
    #[arg(long, value_enum, default_value = "standard")]
    pub channel: Chosen,
}

/// The channels of Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Chosen {
    /// What is there to stay, as `standard-install.yaml` has it.
    Standard,
    /// Besides, kinds and fields that may still change.
    Experimental,
}

impl Chosen {
    fn channel(self) -> Channel {
        match self {
            Self::Standard => Channel::Standard,
            Self::Experimental => Channel::Experimental,
        }
    }
}

/// Validates what was named; the exit code is 1 if anything isn't valid.
pub fn run(args: &ValidateArgs) -> Result<ExitCode> {
    let input = input::read(&args.file)?;
    let mut report = String::new();
    for problem in &input.problems {
        let _ = writeln!(report, "{problem}\n");
    }
    let mut n_resources = 0;
    for text in &input.texts {
        let source = Source {
            name: &text.name,
            text: &text.text,
        };
        n_resources += validate(&source, args.channel, &mut report);
    }
    if n_resources == 0 && report.is_empty() {
        report.push_str("there are no resources in what was named\n");
    }
    let mut out = io::stdout();
    if !report.is_empty() {
        whoever_reads(out.write_all(report.as_bytes()).map_err(Into::into))?;
        return Ok(ExitCode::FAILURE);
    }
    let is_green = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let ok = if is_green { "\x1b[32mOK\x1b[0m" } else { "OK" };
    writeln!(out, "{ok}")?;
    Ok(ExitCode::SUCCESS)
}

/// Says of a text what is not valid in it; nothing if all is. Gives back how many resources are in it.
pub fn validate(source: &Source<'_>, channel: Chosen, report: &mut String) -> usize {
    let catalogue = Catalogue::of(channel.channel());
    let (trees, findings) = trees(source, &Limits::default());
    // Writing to a string can't fail.
    for finding in &findings {
        let _ = writeln!(report, "{finding}\n");
    }
    for tree in &trees {
        let value = tree.value();
        if let Some(verdict) = catalogue.judge(&value).filter(|verdict| !verdict.refusals.is_empty()) {
            describe(source.name, tree, &value, &verdict, report);
            hint(channel, &value, report);
        }
    }
    trees.len()
}

/// How much of a document shows which one is meant.
const LINES: usize = 6;

/// What the experimental channel has is named by it, so that nobody looks for a slip.
fn hint(channel: Chosen, value: &Value, report: &mut String) {
    let experimental = || Catalogue::of(Channel::Experimental).judge(value);
    if channel == Chosen::Standard && experimental().is_some_and(|verdict| verdict.refusals.is_empty()) {
        report.pop();
        report.push_str("It is valid with the experimental channel of Gateway API: --channel experimental\n\n");
    }
}

fn describe(file: &str, tree: &Tree<'_>, value: &Value, verdict: &Verdict, report: &mut String) {
    for line in tree.document().lines().take(LINES) {
        let _ = writeln!(report, "{}", OneLine(line));
    }
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split('/').next().unwrap_or_default();
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let what = match text("kind") {
        "" => "a resource without a kind".to_owned(),
        kind => format!("{kind}.{group} {name:?}"),
    };
    let _ = write!(report, "...\nlocal validation error: {what} is invalid:");
    let mut places: Vec<_> = verdict.refusals.iter().map(|r| (place(tree, r), r)).collect();
    places.sort_by_key(|(place, _)| *place);
    for ((line, column), refusal) in places {
        let _ = write!(report, "\n* {}:{line}:{column}: {}", OneLine(file), OneLine(refusal));
    }
    report.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> String {
        let mut report = String::new();
        validate(&Source { name: "f.yaml", text }, Chosen::Standard, &mut report);
        report
    }

    #[test]
    fn what_is_valid_or_not_ours_to_judge_is_not_mentioned() {
        let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\n\
                    spec: {gatewayClassName: c, listeners: [{name: http, port: 80, protocol: HTTP}]}\n---\n\
                    apiVersion: v1\nkind: Service\nmetadata: {name: No Name}\n";
        assert_eq!(report(text), "");
    }

    #[test]
    fn each_fault_has_its_line_and_column() {
        let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: g\nspec:\n\
                    \x20 gatewayClassName: c\n  listeners:\n  - name: http\n    port: 0\n    prot: HTTP\n";
        let expected = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: g\nspec:\n\
            \x20 gatewayClassName: c\n...\nlocal validation error: Gateway.gateway.networking.k8s.io \"g\" is invalid:\n\
            * f.yaml:8:5: spec.listeners[0].protocol: Required value\n\
            * f.yaml:9:11: spec.listeners[0].port: Invalid value: 0: spec.listeners[0].port in body should be greater \
            than or equal to 1\n\
            * f.yaml:10:5: spec.listeners[0].prot: unknown field\n\n";
        assert_eq!(report(text), expected);
    }

    #[test]
    fn what_is_no_resource_is_not_valid() {
        assert_eq!(
            report("a: b\n"),
            "a: b\n...\nlocal validation error: a resource without a kind is invalid:\n* \
             f.yaml:1:1: apiVersion: Required value\n\n"
        );
        let cut = "apiVersion: gateway.edge\nkind: SecurityPolicy\nmetadata: {name: p}\n";
        assert!(report(cut).contains("no matches for kind \"SecurityPolicy\" in version \"gateway.edge\""));
    }

    #[test]
    fn what_cannot_be_read_has_its_place() {
        assert_eq!(
            report("- 1\n"),
            "f.yaml:1:1: error: a document must be one resource: a mapping with apiVersion, kind and metadata\n\n"
        );
    }
}
