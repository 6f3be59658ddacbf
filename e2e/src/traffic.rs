//! Requests without pause over connections that stay open, while something else happens to whoever answers them.

use crate::{
    http::{self, Request},
    process::wait_for,
};
use anyhow::{Result, bail, ensure};
use std::{
    io::{BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Clients that ask for `/` of one host, each with one request in flight. A connection is kept as long as the other
/// side doesn't announce its end.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

/// What became of the requests.
#[derive(Debug)]
pub struct Outcome {
    /// Requests that were answered with 200.
    pub answered: u64,
    /// Other answers, and connections that ended unannounced.
    pub failures: Vec<String>,
}

impl Traffic {
    /// Starts the clients.
    pub fn start(address: SocketAddr, host: &str, n_clients: usize) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..n_clients).map(|_| {
            let (stop, answered, host) = (Arc::clone(&stop), Arc::clone(&answered), host.to_owned());
            thread::spawn(move || ask_until(&stop, &answered, address, &host))
        });
        Self {
            clients: clients.collect(),
            stop,
            answered,
        }
    }

    /// Waits until so many more requests were answered.
    pub fn wait_for_more(&self, n: u64, limit: Duration) -> Result<()> {
        let wanted = self.answered.load(Ordering::Relaxed) + n;
        let enough = || Ok((self.answered.load(Ordering::Relaxed) >= wanted).then_some(()));
        wait_for("answers under load", limit, enough).map(drop)
    }

    /// Stops the clients, each after its last answer.
    pub fn stop(self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for client in self.clients {
            match client.join() {
                Ok(of_client) => failures.extend(of_client),
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(Outcome {
            answered: self.answered.load(Ordering::Relaxed),
            failures,
        })
    }

    /// Stops the clients, and wants every request to have been answered with 200.
    pub fn stop_without_failure(self) -> Result<Outcome> {
        let outcome = self.stop()?;
        let (n, some) = (outcome.failures.len(), outcome.failures.iter().take(5));
        ensure!(
            n == 0,
            "{n} of {} failed: {:?}",
            outcome.answered,
            some.collect::<Vec<_>>()
        );
        Ok(outcome)
    }
}

fn ask_until(stop: &AtomicBool, answered: &AtomicU64, address: SocketAddr, host: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        match ask(&mut connection, address, host) {
            Ok(200) => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(other) => failures.push(format!("status {other}")),
            Err(error) => {
                connection = None;
                failures.push(format!("{error:#}"));
            }
        }
    }
    failures
}

fn ask(connection: &mut Option<BufReader<TcpStream>>, address: SocketAddr, host: &str) -> Result<u16> {
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(BufReader::new(http::connect(address)?)),
    };
    let request = Request::get(host, "/");
    write!(
        stream.get_mut(),
        "{} {} HTTP/1.1\r\nhost: {}\r\n\r\n",
        request.method,
        request.path,
        request.host
    )?;
    let response = http::read_response(stream)?;
    if response
        .header("connection")
        .is_some_and(|v| v.eq_ignore_ascii_case("close"))
    {
        *connection = None;
    }
    Ok(response.status)
}
