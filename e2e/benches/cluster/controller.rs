//! The controller as its machine and its own metrics see it.

use anyhow::{Context, Result, bail, ensure};
use e2e::lab::{PATIENCE, Tenant};
use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

/// Clock ticks of `/proc/<pid>/stat` in a second; fixed for user space on Linux.
const TICKS: f64 = 100.0;
/// Nothing has been written for so long: it has said all that it had to say.
const QUIET: Duration = Duration::from_secs(3);

/// Memory of a process in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All that is resident.
    pub(crate) resident: f64,
    /// Of that, what is its own and not the program's text.
    pub(crate) anonymous: f64,
}

/// The process of the tenant's only controller.
pub(crate) fn process(tenant: &Tenant) -> Result<u32> {
    let [pod] = &tenant.replicas()?[..] else {
        bail!("there is not one controller")
    };
    the_one(tenant, pod, "edgegateway")
}

/// The process of a pod that runs a program.
pub(crate) fn the_one(tenant: &Tenant, pod: &str, program: &str) -> Result<u32> {
    let mut processes = tenant.lab.processes(pod, program)?;
    processes.retain(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(program)));
    ensure!(
        processes.len() == 1,
        "{} processes of {program} in {pod}",
        processes.len()
    );
    Ok(processes[0])
}

/// What a process has in memory.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mib = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let text = line
            .with_context(|| format!("no {field}"))?
            .trim()
            .trim_end_matches(" kB");
        anyhow::Ok(text.parse::<f64>()? / 1024.0)
    };
    Ok(Memory {
        resident: mib("VmRSS:")?,
        anonymous: mib("RssAnon:")?,
    })
}

/// The part of a core that a process uses, over some time in which nothing happens.
pub(crate) fn load(pid: u32, time: Duration) -> Result<f64> {
    let (before, begun) = (cpu_seconds(pid)?, Instant::now());
    sleep(time);
    Ok((cpu_seconds(pid)? - before) / begun.elapsed().as_secs_f64())
}

fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime: fields 14 and 15 of proc(5), counted from the state, which is 3.
    let ticks = |i: usize| anyhow::Ok(fields.get(i).context("a short stat")?.parse::<f64>()?);
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}

/// Statuses that it has written.
pub(crate) fn written(tenant: &Tenant) -> Result<f64> {
    tenant.metric("status_update_total{status=\"success\"}")
}

/// Waits until it has written all statuses and sent all configuration that it had.
pub(crate) fn settle(tenant: &Tenant) -> Result<()> {
    let mut last = (f64::NAN, f64::NAN);
    let mut since = Instant::now();
    let begun = since;
    loop {
        let waiting = tenant.metric("watchable_depth{message=\"statuses\"}")?;
        let now = (written(tenant)?, tenant.metric("xds_sent_bytes_total")?);
        if waiting > 0.0 || now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > QUIET {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < 4 * PATIENCE,
            "the controller still has {waiting} statuses to write, or still sends"
        );
        sleep(Duration::from_millis(100));
    }
}

/// Bytes that it has sent to proxies, by type.
pub(crate) fn sent(tenant: &Tenant) -> Result<Sent> {
    let all = tenant.metric("xds_sent_bytes_total")?;
    let endpoints = tenant.metric("xds_sent_bytes_total{type=\"endpoint\"}")?;
    Ok(Sent {
        endpoints,
        others: all - endpoints,
    })
}

/// Bytes of responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// With endpoints.
    pub(crate) endpoints: f64,
    /// With anything else.
    pub(crate) others: f64,
}
