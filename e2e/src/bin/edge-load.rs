//! `edge-load backend ADDRESS BYTES` and `edge-load run ADDRESS HOST CONNECTIONS SECONDS`: the two ends of a proxy
//! measurement as processes of their own, so that they can be pinned to a core. `cargo xtask bench proxy` runs them.

use anyhow::{Result, bail};
use std::{io::Write, time::Duration};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["backend", address, bytes] => runtime.block_on(e2e::load::backend(address.parse()?, bytes.parse()?)),
        ["run", address, host, connections, seconds] => {
            let time = Duration::from_secs_f64(seconds.parse()?);
            let found = runtime.block_on(e2e::load::run(address.parse()?, host, connections.parse()?, time))?;
            let (p50, p99) = (found.p50.as_micros(), found.p99.as_micros());
            writeln!(std::io::stdout(), "{} {} {p50} {p99}", found.requests, found.errors)?;
            Ok(())
        }
        _ => bail!("usage: edge-load backend ADDRESS BYTES | edge-load run ADDRESS HOST CONNECTIONS SECONDS"),
    }
}
