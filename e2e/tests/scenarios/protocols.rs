//! Everything that isn't plain HTTP, through the controller.

use crate::{
    backends, grpc,
    resources::{backend, backend_with, gateway, listener, route},
};
use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{
    http, ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
    tls::Authority,
};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Asks until there is the answer that is wanted.
fn until(stack: &Stack, what: &str, wanted: &str, ask: impl Fn() -> Result<String>) -> Result<()> {
    wait_for(what, PATIENCE, || Ok((ask()? == wanted).then_some(())))
        .map(drop)
        .with_context(|| stack.logs())
}

pub(crate) fn calls_reach_a_grpc_backend(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let server = grpc::Backend::start()?;
    let calls = route(
        "GRPCRoute",
        "calls",
        "{ name: quickstart }",
        "  hostnames: [calls.example.com]\n",
        "calls",
    );
    let fields = "  appProtocols: [gateway.edge/h2c]\n";
    stack.put("calls.yaml", &(calls + &backend_with("calls", server.port, fields)))?;
    until(&stack, "an answered call", "/shop.Cart/Add one apple", || {
        grpc::call(stack.gateway(), "calls.example.com", "/shop.Cart/Add", b"one apple")
    })
}

pub(crate) fn calls_of_scripts_reach_a_grpc_backend(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let server = grpc::Backend::start()?;
    let head = "  hostnames: [calls.example.com]\n";
    let calls = route("GRPCRoute", "calls", "{ name: quickstart }", head, "calls");
    let fields = "  appProtocols: [gateway.edge/h2c]\n";
    stack.put("calls.yaml", &(calls + &backend_with("calls", server.port, fields)))?;
    let call = |media_type: &str, content: &[u8]| {
        grpc::call_from_script(stack.gateway(), "calls.example.com", media_type, content)
    };
    let message = grpc::frame(b"one apple");
    let (binary, text) = ("application/grpc-web+proto", "application/grpc-web-text+proto");
    until(&stack, "an answered call", "200", || {
        Ok(call(binary, &message)?.status.to_string())
    })?;
    let answer = call(binary, &message)?;
    assert_eq!(answer.header("content-type"), Some(binary));
    let wanted = [
        (0, "/shop.Cart/Add one apple".to_owned()),
        // What a script can't read where gRPC has it.
        (0x80, "grpc-status:0\r\n".to_owned()),
    ];
    assert_eq!(grpc::frames(&answer.body)?, wanted);
    let answer = call(text, STANDARD.encode(&message).as_bytes())?;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(text)));
    assert_eq!(grpc::frames(&grpc::decode(&answer.body)?)?, wanted);

    let answer = call(text, b"no base64")?;
    assert_eq!((answer.status, answer.header("grpc-status")), (400, Some("13")));
    let answer = grpc::call_from_script(stack.gateway(), "nobody.example.com", binary, &message)?;
    assert_eq!((answer.status, answer.header("content-type")), (404, Some(binary)));
    drop(server);
    let answer = call(binary, &message)?;
    assert_eq!((answer.status, answer.header("grpc-status")), (503, Some("14")));
    assert_eq!(answer.body, b"");
    Ok(())
}

pub(crate) fn connections_reach_a_tcp_backend(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let resources = [
        gateway("streams", &[listener("lines", "TCP", port)]),
        route("TCPRoute", "lines", "{ name: streams }", "", "lines"),
        backend("lines", backends::tcp()?),
    ];
    stack.put("streams.yaml", &resources.concat())?;
    until(&stack, "a line in capitals", "HELLO", || {
        backends::say(http::connect(here(port))?, "hello")
    })
}

pub(crate) fn datagrams_reach_a_udp_backend(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let resources = [
        gateway("datagrams", &[listener("words", "UDP", port)]),
        route("UDPRoute", "words", "{ name: datagrams }", "", "words"),
        backend("words", backends::udp()?),
    ];
    stack.put("datagrams.yaml", &resources.concat())?;
    until(&stack, "a datagram in capitals", "HELLO", || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(std::time::Duration::from_millis(200)))?;
        socket.send_to(b"hello", here(port))?;
        let mut buffer = [0; 64];
        let n = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..n]).into_owned())
    })
}

pub(crate) fn tls_is_passed_through_by_server_name(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let (authority, [port]) = (Authority::new()?, ports::free()?);
    let named = |name: &str| -> Result<String> {
        let head = format!("  hostnames: [{name}.example.com]\n");
        let server = authority.server(&format!("{name}.example.com"))?;
        Ok(route("TLSRoute", name, "{ name: passthrough }", &head, name) + &backend(name, backends::tls(&server)?))
    };
    let listener = format!("{{ name: tls, protocol: TLS, port: {port}, tls: {{ mode: Passthrough }} }}");
    let resources = [gateway("passthrough", &[listener]), named("one")?, named("two")?];
    stack.put("passthrough.yaml", &resources.concat())?;
    // Each backend has a certificate for its own name only, so an answer proves that the right one was reached.
    for name in ["one.example.com", "two.example.com"] {
        until(&stack, "a line in capitals", "HELLO", || {
            backends::say(authority.connect(here(port), name)?, "hello")
        })?;
    }
    let other = authority.connect(here(port), "other.example.com")?;
    assert!(backends::say(other, "hello").is_err(), "no route has this server name");
    Ok(())
}

pub(crate) fn tls_is_terminated_for_a_tcp_backend(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let (authority, [port]) = (Authority::new()?, ports::free()?);
    let listener = format!(
        "{{ name: tls, protocol: TLS, port: {port}, tls: {{ mode: Terminate, certificateRefs: [{{ name: lines }}] }} }}"
    );
    let resources = [
        gateway("terminated", &[listener]),
        route(
            "TLSRoute",
            "lines",
            "{ name: terminated }",
            "  hostnames: [lines.example.com]\n",
            "lines",
        ),
        backend("lines", backends::tcp()?),
        authority.secret("lines", "lines.example.com")?,
    ];
    stack.put("terminated.yaml", &resources.concat())?;
    until(&stack, "a line in capitals", "HELLO", || {
        backends::say(authority.connect(here(port), "lines.example.com")?, "hello")
    })
}
