//! `cargo xtask laws`: a search for worlds that break a law. Tier properties looks at the same few worlds in every run,
//! so that a change is judged by what it does; this looks at others, as long as somebody cares to wait.

use super::tally;
use anyhow::{Result, bail};
use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

/// The seed of every generated input (proptest's own variable).
const SEED: &str = "PROPTEST_RNG_SEED";
/// How many times as many worlds as usual.
const TIMES: &str = "EDGE_LAWS_TIMES";

/// Where to look, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many times as many worlds as tier properties looks at.
    #[arg(long, default_value_t = 20)]
    times: u32,
    /// What the worlds are made from; another number in every run unless it is given.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the laws; the last line of output is `N passed, N failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?,
    };
    let mut out = io::stdout();
    writeln!(
        out,
        "to look at the same worlds again: cargo xtask laws --times {} --seed {seed}",
        options.times
    )?;
    let mut command = super::laws()?;
    command
        .env(SEED, seed.to_string())
        .env(TIMES, options.times.to_string());
    let total = tally::run(command)?;
    writeln!(out, "\n{total}")?;
    if total.failed > 0 {
        bail!("a law is broken: the case stands in the regressions beside it, check that in");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_by_cargo_has_a_seed() {
        let seed = std::env::var(SEED).unwrap();
        assert!(
            seed.parse::<u64>().is_ok(),
            "{seed}: .cargo/config.toml must name a number"
        );
    }
}
