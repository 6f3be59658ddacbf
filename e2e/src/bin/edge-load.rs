//! The two ends of a proxy measurement as processes of their own, so that they can be pinned to a core;
//! `cargo xtask bench proxy` runs them. A load prints finished exchanges, errors, and the 50th and 99th percentile of
//! latencies in µs.

use anyhow::{Result, bail};
use e2e::load::{Extent, Summary, backend, handshakes, http1, http2};
use std::{
    io::{self, Read, Write},
    path::Path,
};

const USAGE: &str = "usage: edge-load backend|grpc-backend ADDRESS BYTES
       edge-load get|browse ADDRESS HOST PATH CONNECTIONS EXTENT
       edge-load http2|grpc ADDRESS HOST CONNECTIONS STREAMS EXTENT
       edge-load new|resumed ADDRESS HOST AUTHORITY.PEM EXTENT
       edge-load hold ADDRESS HOST CONNECTIONS     (until the end of its input)
EXTENT: seconds, or a number of requests with an x behind";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["backend", address, bytes] => runtime.block_on(backend::http1(address.parse()?, bytes.parse()?)),
        ["grpc-backend", address, bytes] => runtime.block_on(backend::grpc(address.parse()?, bytes.parse()?)),
        [fields @ ("get" | "browse"), address, host, path, connections, extent] => {
            let fields = match fields {
                "get" => http1::Fields::None,
                _ => http1::Fields::Browser,
            };
            let request = http1::request(host, path, fields);
            tell(&runtime.block_on(http1::run(
                address.parse()?,
                request,
                connections.parse()?,
                extent.parse()?,
            ))?)
        }
        [asked @ ("http2" | "grpc"), address, host, connections, streams, extent] => {
            let load = http2::Load {
                address: address.parse()?,
                host,
                connections: connections.parse()?,
                streams: streams.parse()?,
                asked: match asked {
                    "grpc" => http2::Asked::Call,
                    _ => http2::Asked::Get,
                },
            };
            tell(&runtime.block_on(http2::run(load, extent.parse()?))?)
        }
        [memory @ ("new" | "resumed"), address, host, authority, extent] => {
            let memory = match memory {
                "new" => handshakes::Memory::None,
                _ => handshakes::Memory::Tickets,
            };
            let extent: Extent = extent.parse()?;
            tell(&handshakes::run(
                address.parse()?,
                host,
                Path::new(authority),
                memory,
                extent,
            )?)
        }
        ["hold", address, host, connections] => {
            let request = http1::request(host, "/x", http1::Fields::None);
            let held = runtime.block_on(http1::hold(address.parse()?, &request, connections.parse()?))?;
            writeln!(io::stdout(), "holding")?;
            io::stdin().read_to_end(&mut Vec::new())?;
            drop(held);
            Ok(())
        }
        _ => bail!(USAGE),
    }
}

fn tell(found: &Summary) -> Result<()> {
    let (p50, p99) = (found.p50.as_micros(), found.p99.as_micros());
    Ok(writeln!(
        io::stdout(),
        "{} {} {p50} {p99}",
        found.requests,
        found.errors
    )?)
}
