//! From a route in the API server to the first answer by it.

use crate::world;
use anyhow::{Result, bail};
use e2e::{
    lab::{Kind, PATIENCE, Tenant},
    traffic::Client,
};
use serde_json::Value;
use std::{
    net::SocketAddr,
    thread::sleep,
    time::{Duration, Instant},
};

/// Routes that come and go, one after the other.
const SAMPLES: usize = 200;
/// Pause between two looks: the figures are exact to this.
const POLL: Duration = Duration::from_micros(500);

/// Times from a moment to the first answer with 200.
#[derive(Debug)]
pub(crate) struct Times {
    median: Duration,
    p99: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            median: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{:.1} ms, {:.1} ms", millis(self.median), millis(self.p99))
    }
}

/// Times of many routes.
#[derive(Debug)]
pub(crate) struct Propagation {
    /// From the API server's answer.
    pub(crate) from_answer: Times,
    /// From the request to it.
    pub(crate) from_request: Times,
}

/// Creates routes one after the other, each of which is gone from the proxy before the next comes.
pub(crate) fn measure(tenant: &Tenant, address: SocketAddr, round: &str) -> Result<Propagation> {
    let mut client = Client::new(address);
    let (mut from_answer, mut from_request) = (Vec::new(), Vec::new());
    for number in 0..SAMPLES {
        let name = format!("probe-{round}-{number}");
        let route = world::route_to_echo(&tenant.apps.name, &name);
        let host = world::host(&name);
        wait_for(&mut client, &host, 404)?;
        let requested = Instant::now();
        tenant.lab.create_all(std::slice::from_ref(&route))?;
        let answered = Instant::now();
        wait_for(&mut client, &host, 200)?;
        let served = Instant::now();
        from_answer.push(served - answered);
        from_request.push(served - requested);
        tenant
            .lab
            .delete(&tenant.object(&Kind::gateway_api("HTTPRoute"), text(&route)))?;
        wait_for(&mut client, &host, 404)?;
    }
    Ok(Propagation {
        from_answer: Times::of(from_answer),
        from_request: Times::of(from_request),
    })
}

fn text(route: &Value) -> &str {
    route["metadata"]["name"].as_str().unwrap_or_default()
}

fn wait_for(client: &mut Client, host: &str, status: u16) -> Result<()> {
    let begun = Instant::now();
    while client.ask(host)? != status {
        if begun.elapsed() > PATIENCE {
            bail!("waited {PATIENCE:?} in vain for {status} from {host}");
        }
        sleep(POLL);
    }
    Ok(())
}
