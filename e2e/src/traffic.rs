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
    time::{Duration, Instant},
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

/// Clients of gentle traffic.
const GENTLE_CLIENTS: usize = 2;
/// Pause of each after an answer.
const GENTLE_PAUSE: Duration = Duration::from_millis(10);

impl Traffic {
    /// Starts clients that ask without pause.
    pub fn start(address: SocketAddr, host: &str, n_clients: usize) -> Self {
        Self::start_with_pauses(address, host, n_clients, Duration::ZERO)
    }

    /// Starts a few that leave the machine to others most of the time, for what lasts long.
    pub fn gentle(address: SocketAddr, host: &str) -> Self {
        Self::start_with_pauses(address, host, GENTLE_CLIENTS, GENTLE_PAUSE)
    }

    /// The same with a pause of each client after each answer: what a measurement beside it can bear.
    pub fn start_with_pauses(address: SocketAddr, host: &str, n_clients: usize, pause: Duration) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..n_clients).map(|_| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let (mut client, host) = (Client::new(address), host.to_owned());
            thread::spawn(move || {
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match client.ask(&host) {
                        Ok(200) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        Ok(other) => failures.push(format!("status {other}")),
                        Err(error) => failures.push(format!("{error:#}")),
                    }
                    if !pause.is_zero() {
                        thread::sleep(pause);
                    }
                }
                failures
            })
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

    /// Goes on for so long at least, with answers all the time; `limit` is for each.
    pub fn go_on_for(&self, time: Duration, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.wait_for_more(1, limit)?;
        }
        Ok(())
    }

    /// Stops the clients, each after its last answer.
    pub fn stop(mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for client in std::mem::take(&mut self.clients) {
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

impl Drop for Traffic {
    /// What failed meanwhile is explained without more requests.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Who asks one thing after the other, over a connection that is kept as long as the other side doesn't announce its
/// end.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Connects when it asks first.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            connection: None,
        }
    }

    /// Asks for `/` of a host, and gives the status of the answer. After a fault the next call connects anew.
    pub fn ask(&mut self, host: &str) -> Result<u16> {
        let mut stream = match self.connection.take() {
            Some(stream) => stream,
            None => BufReader::new(http::connect(self.address)?),
        };
        let request = Request::get(host, "/");
        write!(
            stream.get_mut(),
            "{} {} HTTP/1.1\r\nhost: {}\r\n\r\n",
            request.method,
            request.path,
            request.host
        )?;
        let response = http::read_response(&mut stream)?;
        if response
            .header("connection")
            .is_none_or(|value| !value.eq_ignore_ascii_case("close"))
        {
            self.connection = Some(stream);
        }
        Ok(response.status)
    }
}
