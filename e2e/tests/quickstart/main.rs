//! The quickstart, started as a user starts it, once with each data plane.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop where it stands, and say what it measured"
)]

use anyhow::{Context, Result, ensure};
use e2e::{
    held::Held,
    http::{self, Request},
    process::{Signal, signal, wait_for},
    stack::{DataPlane, PATIENCE, Stack},
    tls,
};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::mpsc,
    thread,
};

mod websocket;

e2e::with_each_data_plane! {
    answers_and_headers_are_those_of_the_contract,
    a_copied_file_serves_and_a_deleted_one_stops,
    a_broken_file_changes_nothing_and_is_reported,
    an_https_listener_is_chosen_by_server_name,
    a_request_on_the_connection_of_another_listener_is_misdirected,
    a_redirect_to_a_scheme_leaves_the_port_behind,
    backends_that_fail_answer_500_and_503,
    websockets_pass,
    a_killed_proxy_comes_back,
    a_controller_that_was_stopped_serves_again,
    ctrl_c_leaves_nobody_behind,
    a_killed_controller_costs_no_request,
    a_request_in_flight_is_answered_when_everything_stops,
}

/// A file of the example that isn't in the watched folder.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/quickstart")
        .join(name);
    fs::read_to_string(path).unwrap()
}

fn answers_and_headers_are_those_of_the_contract(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let answer = stack.get("www.example.com", "/some/path?and=query")?;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("server"), Some("edge"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let time = answer
        .header("x-edge-upstream-service-time")
        .context("no x-edge-upstream-service-time")?;
    ensure!(time.parse::<u32>().is_ok(), "{time} is no number of milliseconds");
    let seen = answer.json()?;
    assert_eq!(seen["path"], "/some/path?and=query");
    assert_eq!(seen["host"], "www.example.com");
    let header = |name: &str| seen["headers"][name][0].as_str().map(str::to_owned);
    let client = header("X-Forwarded-For").context("no x-forwarded-for")?;
    match plane {
        DataPlane::EdgeProxy => assert_eq!(client, "127.0.0.1"),
        // Envoy writes the machine's own address for a client on loopback.
        DataPlane::Envoy(_) => ensure!(client.parse::<std::net::IpAddr>().is_ok(), "{client} is no address"),
    }
    assert_eq!(header("X-Forwarded-Proto").as_deref(), Some("http"));
    assert_eq!(header("X-Edge-Internal").as_deref(), Some("true"));
    assert_eq!(header("X-Edge-Expected-Rq-Timeout-Ms").as_deref(), Some("15000"));
    assert_eq!(header("X-Edge-External-Address"), None);
    let id = header("X-Request-Id").context("no x-request-id")?;
    ensure!(id.len() == 36 && id.matches('-').count() == 4, "{id} is no UUID");

    let answer = stack.get("nobody.example", "/")?;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-length"), Some("0"));
    assert_eq!(answer.body, b"");
    Ok(())
}

fn a_copied_file_serves_and_a_deleted_one_stops(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    assert_eq!(stack.get("shop.example.com", "/cart")?.status, 404);
    stack.put("shop.yaml", &stack.site.with_ports(&example("more/shop.yaml")))?;
    let appeared = stack.wait_for_status("shop.example.com", "/cart", 200)?;
    let answer = stack.get("shop.example.com", "/cart")?;
    assert_eq!(answer.json()?["headers"]["X-Shop-Rule"][0], "cart");
    let moved = stack.get("shop.example.com", "/basket")?;
    assert_eq!(moved.status, 301);
    let location = format!("http://shop.example.com:{}/cart", stack.site.ports.gateway);
    assert_eq!(moved.header("location"), Some(location.as_str()));
    stack.remove("shop.yaml")?;
    let went = stack.wait_for_status("shop.example.com", "/cart", 404)?;
    println!("{plane:?}: appeared after {appeared:?}, went after {went:?}");
    // The other route never noticed.
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

fn a_broken_file_changes_nothing_and_is_reported(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    stack.put(
        "broken.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: [never closed\n",
    )?;
    stack.controller.wait_for_output("broken.yaml:4:9", PATIENCE)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    // Breaking a file that serves leaves its objects as they were.
    stack.put("www.yaml", "kind: HTTPRoute\n  metadata: {{{\n")?;
    stack.controller.wait_for_output("www.yaml:", PATIENCE)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    // A good file beside the bad ones is taken up.
    stack.put("shop.yaml", &stack.site.with_ports(&example("more/shop.yaml")))?;
    stack.wait_for_status("shop.example.com", "/cart", 200)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

fn an_https_listener_is_chosen_by_server_name(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let authority = tls::Authority::new()?;
    let mut gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    let mut secrets = String::new();
    for name in ["www.example.com", "api.example.com"] {
        let secret = name.replace('.', "-");
        gateway.push_str(&tls::listener(&secret, name, stack.site.ports.https));
        secrets.push_str(&authority.secret(&secret, name)?);
    }
    stack.put("secrets.yaml", &secrets)?;
    stack.put("gateway.yaml", &gateway)?;
    let address = (std::net::Ipv4Addr::LOCALHOST, stack.site.ports.https).into();
    // The certificate is checked against the name, so an answer proves that the right one was shown.
    let ask = |name: &str| authority.get(address, name, "/");
    let (answer, _) =
        wait_for("an answer over TLS", PATIENCE, || ask("www.example.com").map(Some)).with_context(|| stack.logs())?;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()?["headers"]["X-Forwarded-Proto"][0], "https");
    assert_eq!(ask("api.example.com")?.status, 404);
    assert!(ask("other.example.com").is_err(), "no listener has this server name");
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    stack.interrupt()?;
    Ok(())
}

fn a_request_on_the_connection_of_another_listener_is_misdirected(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let authority = tls::Authority::new()?;
    let mut gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    let mut secrets = String::new();
    for (secret, name) in [("wild", "*.example.com"), ("www", "www.example.com")] {
        gateway.push_str(&tls::listener(secret, &format!("\"{name}\""), stack.site.ports.https));
        secrets.push_str(&authority.secret(secret, name)?);
    }
    stack.put("secrets.yaml", &secrets)?;
    stack.put("gateway.yaml", &gateway)?;
    let address = (std::net::Ipv4Addr::LOCALHOST, stack.site.ports.https).into();
    let ask = |server: &str, host: &str| Ok(authority.get_over(address, server, host, "/")?.status);
    let served = || ask("www.example.com", "www.example.com").map(Some);
    let (status, _) = wait_for("an answer over TLS", PATIENCE, served).with_context(|| stack.logs())?;
    assert_eq!(status, 200);
    // The broader listener covers the name, and its certificate too.
    assert_eq!(ask("other.example.com", "www.example.com")?, 421);
    assert_eq!(ask("other.example.com", "other.example.com")?, 404);
    // And the other way round: the broader one is the most specific listener for this name (GEP-3567).
    assert_eq!(ask("www.example.com", "other.example.com")?, 421);
    stack.interrupt()?;
    Ok(())
}

fn a_redirect_to_a_scheme_leaves_the_port_behind(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let route = |name: &str, redirect: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}, namespace: default }}\n\
             spec:\n  parentRefs: [{{ name: quickstart }}]\n  hostnames: [{name}.example.com]\n  rules:\n    \
             - filters: [{{ type: RequestRedirect, requestRedirect: {{ {redirect} }} }}]\n"
        )
    };
    let routes = [
        route("scheme", "scheme: https"),
        route("port", "port: 443"),
        route("host", "scheme: https, hostname: www.example.com"),
    ];
    stack.put("redirects.yaml", &routes.concat())?;
    stack.wait_for_status("host.example.com", "/", 302)?;
    let port = stack.site.ports.gateway;
    let location = |name: &str| -> Result<String> {
        let answer = stack.get(&format!("{name}.example.com:{port}"), "/x?y")?;
        Ok(answer.header("location").context("no location")?.to_owned())
    };
    // Envoy names the port of a scheme, edge-proxy leaves it out; clients see no difference.
    let implied = match plane {
        DataPlane::EdgeProxy => "",
        DataPlane::Envoy(_) => ":443",
    };
    assert_eq!(location("scheme")?, format!("https://scheme.example.com{implied}/x?y"));
    assert_eq!(location("port")?, "http://port.example.com:443/x?y");
    assert_eq!(location("host")?, "https://www.example.com/x?y");
    Ok(())
}

fn backends_that_fail_answer_500_and_503(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    // Nobody listens on it, and nobody else is given it.
    let [closed] = e2e::ports::free()?;
    let route = |host: &str, backend: &str| {
        fs::read_to_string(stack.site.watched().join("www.yaml"))
            .map(|text| text.split("---\n").next().unwrap_or_default().to_owned())
            .map(|text| text.replace("name: www", &format!("name: {backend}")))
            .map(|text| {
                text.replace("[www.example.com]", &format!("[{host}]"))
                    .replace("name: echo", &format!("name: {backend}"))
                    .replace(&stack.site.ports.echo.to_string(), &closed.to_string())
            })
    };
    let gone = format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: {{ name: gone, namespace: default }}\n\
         spec: {{ endpoints: [{{ ip: {{ address: 127.0.0.1, port: {closed} }} }}] }}\n"
    );
    let (missing, refused) = (
        route("missing.example.com", "absent")?,
        route("refused.example.com", "gone")?,
    );
    stack.put("failing.yaml", &format!("{missing}---\n{refused}{gone}"))?;
    stack.wait_for_status("missing.example.com", "/", 500)?;
    stack.wait_for_status("refused.example.com", "/", 503)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

fn websockets_pass(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let stream = http::connect(stack.gateway())?;
    assert_eq!(
        websocket::echo(stream, "www.example.com", b"over the gateway")?,
        b"over the gateway"
    );
    Ok(())
}

fn a_killed_proxy_comes_back(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let before = stack.proxy()?;
    signal(before, Signal::Kill)?;
    wait_for("another proxy", PATIENCE, || {
        Ok((stack.proxy()? != before).then_some(()))
    })
    .with_context(|| stack.logs())?;
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}

fn a_controller_that_was_stopped_serves_again(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    // Once with the time to clean up, once without.
    for kind in [Signal::Terminate, Signal::Kill] {
        stack.controller.signal(kind)?;
        stack.controller.wait(PATIENCE)?;
        stack.controller = stack.site.start_controller(plane)?;
        stack.wait_for_status("www.example.com", "/", 200)?;
    }
    Ok(())
}

fn ctrl_c_leaves_nobody_behind(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let address = stack.gateway();
    ensure!(
        !stack.site.processes()?.is_empty(),
        "the controller has the folder in its command line"
    );
    let status = stack.interrupt()?;
    ensure!(status.success(), "{status}\n{}", stack.logs());
    let log = stack.controller.output();
    ensure!(
        !log.contains("no Gateway makes this fleet"),
        "nobody deleted it:\n{log}"
    );
    wait_for("every process to end", PATIENCE, || {
        Ok(stack.site.processes()?.is_empty().then_some(()))
    })?;
    assert!(http::send(address, &Request::get("www.example.com", "/")).is_err());
    TcpListener::bind(address).context("the Gateway's port is still in use")?;
    Ok(())
}

/// Asks again and again, a connection each, until told to stop; gives what it saw: answers, and everything else.
struct Load {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (mut answers, mut faults) = (0, Vec::new());
            while matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Empty)) {
                match http::send(address, &Request::get("www.example.com", "/")) {
                    Ok(answer) if answer.status == 200 => answers += 1,
                    Ok(answer) => faults.push(format!("{}", answer.status)),
                    Err(error) => faults.push(format!("{error:#}")),
                }
            }
            (answers, faults)
        });
        Self { stop, thread }
    }

    fn end(self) -> (usize, Vec<String>) {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

fn a_killed_controller_costs_no_request(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let before = stack.proxy()?;
    let load = Load::start(stack.gateway());
    for round in 1..=2 {
        stack.controller.signal(Signal::Kill)?;
        stack.controller.wait(PATIENCE)?;
        stack.controller = stack.site.start_controller(plane)?;
        stack.controller.wait_for_output("is taken over", PATIENCE)?;
        // The proxy is the old one, and follows the new controller.
        let name = format!("shop-{round}.example.com");
        let shop = stack.site.with_ports(&example("more/shop.yaml"));
        stack.put("shop.yaml", &shop.replace("shop.example.com", &name))?;
        stack.wait_for_status(&name, "/cart", 200)?;
    }
    let (answers, faults) = load.end();
    ensure!(
        faults.is_empty(),
        "of {answers} requests were lost: {faults:?}\n{}",
        stack.logs()
    );
    ensure!(answers > 0, "nothing was asked");
    assert_eq!(stack.proxy()?, before);
    Ok(())
}

fn a_request_in_flight_is_answered_when_everything_stops(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let backend = Held::start()?;
    let www = fs::read_to_string(stack.site.watched().join("www.yaml"))?;
    let moved = www.replace(
        &format!("port: {}", stack.site.ports.echo),
        &format!("port: {}", backend.port),
    );
    // However long this machine takes.
    let moved = moved.replace(
        "      backendRefs:",
        "      timeouts: { request: 0s }\n      backendRefs:",
    );
    ensure!(
        moved.contains("timeouts"),
        "the quickstart's route changed: adapt this test"
    );
    stack.put("www.yaml", &moved)?;
    let address = stack.gateway();
    // The first answers still come from the backend before.
    let (stop, stopped) = mpsc::channel();
    let client = thread::spawn(move || -> Result<u16> {
        loop {
            let status = http::send(address, &Request::get("www.example.com", "/"))?.status;
            if status != 200 || stopped.try_recv().is_ok() {
                return Ok(status);
            }
        }
    });
    let in_flight = backend.request().with_context(|| stack.logs())?;
    stop.send(())?;
    stack.controller.signal(Signal::Interrupt)?;
    stack.wait_until_closed(address)?;
    in_flight.answer()?;
    assert_eq!(client.join().unwrap()?, 200, "{}", stack.logs());
    let status = stack.controller.wait(PATIENCE)?;
    ensure!(status.success(), "{status}\n{}", stack.logs());
    assert!(stack.site.processes()?.is_empty());
    Ok(())
}
