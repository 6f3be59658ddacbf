//! A Zipkin collector: takes requests of HTTP/1 and keeps the spans in them.

use serde_json::Value;
use std::{
    cell::RefCell,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

/// A collector that listens as long as the test runs.
pub(super) struct Collector {
    pub(super) address: SocketAddr,
    news: Receiver<Value>,
    heard: RefCell<Vec<Value>>,
}

impl Collector {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, news) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let tell = tell.clone();
                thread::spawn(move || gather(&stream.unwrap(), &tell));
            }
        });
        Self {
            address,
            news,
            heard: RefCell::default(),
        }
    }

    /// All spans that came so far.
    pub(super) fn heard(&self) -> Vec<Value> {
        let mut heard = self.heard.borrow_mut();
        heard.extend(self.news.try_iter());
        heard.clone()
    }
}

fn gather(stream: &TcpStream, tell: &Sender<Value>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut head) = (None, String::new());
        loop {
            let start = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            let line = head[start..].trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(said) = line.strip_prefix("content-length: ") {
                length = Some(said.parse().unwrap());
            }
        }
        assert!(head.starts_with("POST /api/v2/spans HTTP/1.1"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let mut content = Vec::new();
        match length {
            Some(length) => {
                content.resize(length, 0);
                reader.read_exact(&mut content).unwrap();
            }
            None => read_chunks(&mut reader, &mut content),
        }
        let spans: Vec<Value> = serde_json::from_slice(&content).unwrap();
        for span in spans {
            // Nobody listens once the test is over.
            if tell.send(span).is_err() {
                return;
            }
        }
        let mut writer = stream;
        writer
            .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
    }
}

fn read_chunks(reader: &mut BufReader<&TcpStream>, content: &mut Vec<u8>) {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let start = content.len();
        // With the line end behind it.
        content.resize(start + length + 2, 0);
        reader.read_exact(&mut content[start..]).unwrap();
        content.truncate(start + length);
        if length == 0 {
            return;
        }
    }
}
