//! A backend that answers when it is told to: a request is in flight for as long as a test wants, on any machine.

use crate::stack::PATIENCE;
use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
};

/// The backend. It lives as long as the test process.
#[derive(Debug)]
pub struct Held {
    /// Its port.
    pub port: u16,
    asked: mpsc::Receiver<TcpStream>,
}

/// A request that has reached the backend, without a body. It is in flight until it is answered.
#[derive(Debug)]
pub struct Unanswered(TcpStream);

impl Held {
    /// Starts one on a port of its own.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (report, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let report = report.clone();
                thread::spawn(move || {
                    if has_head(&stream) {
                        // A test that has ended waits for nothing.
                        let _ = report.send(stream);
                    }
                });
            }
        });
        Ok(Self { port, asked })
    }

    /// Waits for the next request.
    pub fn request(&self) -> Result<Unanswered> {
        let stream = self.asked.recv_timeout(PATIENCE);
        stream.map(Unanswered).context("no request reached the backend")
    }
}

impl Unanswered {
    /// Answers with 200.
    pub fn answer(mut self) -> Result<()> {
        Ok(self.0.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?)
    }
}

/// Whether the head of a request comes in whole.
fn has_head(stream: &TcpStream) -> bool {
    let lines = BufReader::new(stream).lines();
    lines.map_while(Result::ok).any(|line| line.is_empty())
}
