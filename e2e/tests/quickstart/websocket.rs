//! One WebSocket message there and back (RFC 6455).

use anyhow::{Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};

/// Upgrades a connection, sends a message, and gives what comes back.
pub(crate) fn echo(stream: impl Read + Write, host: &str, message: &[u8]) -> Result<Vec<u8>> {
    let mut stream = BufReader::new(stream);
    write!(
        stream.get_mut(),
        "GET /ws HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )?;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head)? > 0, "the connection ended after {head:?}");
    }
    ensure!(head.starts_with("HTTP/1.1 101 "), "no upgrade: {head}");
    // The accept value for the key above, RFC 6455 §1.3.
    ensure!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "another key: {head}");
    let length = u8::try_from(message.len())?;
    ensure!(length < 126, "short messages only");
    // A final text frame, masked with zeros.
    let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
    frame.extend_from_slice(message);
    stream.get_mut().write_all(&frame)?;
    let mut answer = vec![0; 2 + message.len()];
    stream.read_exact(&mut answer)?;
    ensure!(answer[..2] == [0x81, length], "an unexpected frame {:?}", &answer[..2]);
    Ok(answer.split_off(2))
}
