//! The door to development: `cargo xtask <command>`. Nothing here is needed to build or run the product.

mod bench;
mod conformance;
mod envoy;
mod fuzz;
mod generate;
mod guided;
#[cfg(test)]
mod images;
mod lab;
mod lint;
mod quickstart;
mod services;
mod test;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of Edge Gateway")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds everything and runs standalone mode on examples/quickstart with a backend, until Ctrl-C.
    Quickstart(quickstart::Options),
    /// Runs the tests; the last line is `N passed, N failed`.
    Test(test::Options),
    /// Looks for worlds that break a law of translation: other ones in every run, and many.
    Laws(test::laws::Options),
    /// Searches with the fuzz targets, guided by coverage; the last line is `N passed, N failed`.
    Fuzz(fuzz::Options),
    /// Writes the outputs of golden cases anew; read the difference before you commit it.
    Golden,
    /// Measures, and writes what was found to docs/performance.md.
    #[command(subcommand)]
    Bench(bench::Subject),
    /// Builds edge-proxy guided by a profile of what it does under load.
    Guided(guided::Options),
    /// Runs the official conformance suite of Gateway API; the last line is `N passed, N failed, N skipped`.
    Conformance(conformance::Options),
    /// Checks house rules that no compiler checks.
    Lint,
    /// Writes the generated files that are checked in.
    Gen(generate::Options),
}

fn main() -> ExitCode {
    let result = fuzz::compile_if_asked().and_then(|()| run(Cli::parse().command));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // Standard error may be closed; there is nobody left to tell then.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Quickstart(options) => quickstart::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Laws(options) => test::laws::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Golden => test::update_golden(),
        Command::Bench(subject) => bench::run(&subject),
        Command::Guided(options) => guided::run(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Lint => lint::run(),
        Command::Gen(options) => generate::run(&options),
    }
}
