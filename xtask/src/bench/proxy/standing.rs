//! What a proxy costs that nobody asks (`e2e/benches/standing.rs`): memory, and the time that news of endpoints take.

use crate::{bench::report, workspace::Programs};
use anyhow::Result;

/// Ours and stock Envoy behind the controller.
pub(super) fn table(programs: &Programs) -> Result<String> {
    let table = report::table(&mut report::bench("standing")?, programs)?;
    Ok(format!(
        "Behind the controller with the configuration of the quickstart, a worker for each core: memory after the first \
         answer, and what all workers together run when the endpoints of a backend change while 10,000 connections are \
         open, median of 21 changes:\n\n{table}"
    ))
}
