//! Ports of listeners and the ports that proxies bind.

use crate::rig::Rig;
use edge_ir::{IpFamily, PortProtocol};
use edge_translate::{Fact, MachinePort, Platform, Question, Settings, api::Kind};

fn world(text: &str, platform: Platform) -> Rig {
    let settings = Settings {
        platform,
        ..Settings::default()
    };
    Rig::with(settings, text)
}

/// Why the port of a listener can't be bound, if it can't.
fn unavailable(rig: &Rig, gateway: &str, listener: &str) -> Option<String> {
    let accepted = rig.listener_condition(gateway, listener, "Accepted").unwrap();
    (accepted.reason == "PortUnavailable").then(|| accepted.message.into_owned())
}

/// The sockets that are bound, by name.
fn bound(rig: &Rig) -> Vec<(String, u16)> {
    let listeners = rig.last.fleets.values().flat_map(|f| f.listeners.iter());
    listeners.map(|l| (l.name.to_string(), l.port)).collect()
}

const TWO_PORTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: edge
  listeners:
  - {name: low, port: 80, protocol: HTTP}
  - {name: high, port: 10080, protocol: HTTP}
";

#[test]
fn a_port_that_another_is_shifted_to_is_unavailable() {
    let rig = world(TWO_PORTS, Platform::Cluster);
    assert_eq!(bound(&rig), [("tcp-80".to_owned(), 10080)]);
    assert!(unavailable(&rig, "g", "high").is_some());
    assert_eq!(unavailable(&rig, "g", "low"), None);
}

#[test]
fn without_shifting_both_ports_are_served() {
    let rig = world(TWO_PORTS, Platform::Host);
    assert_eq!(
        bound(&rig),
        [("tcp-10080".to_owned(), 10080), ("tcp-80".to_owned(), 80)]
    );
    for listener in ["low", "high"] {
        assert_eq!(unavailable(&rig, "g", listener), None);
    }
}

#[test]
fn a_port_of_the_proxy_itself_is_unavailable() {
    let gateway = TWO_PORTS.replace("10080", "19003");
    let rig = world(&gateway, Platform::Cluster);
    assert_eq!(bound(&rig), [("tcp-80".to_owned(), 10080)]);
    let why = unavailable(&rig, "g", "high").unwrap();
    assert!(why.contains("used by the proxy itself"), "{why}");
}

/// Two Gateways that want the same ports.
fn rivals(second: &str) -> String {
    let gateway = |name: &str, listeners: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\n\
             spec: {{gatewayClassName: edge, listeners: [{listeners}]}}\n"
        )
    };
    let listener = |port: u16, protocol: &str| format!("{{name: l-{port}, port: {port}, protocol: {protocol}}}");
    let first = gateway("a", &listener(8080, "HTTP"));
    let both = format!("{}, {}", listener(8080, second), listener(9090, "HTTP"));
    format!("\n{first}---\n{}", gateway("b", &both))
}

#[test]
fn on_a_shared_machine_a_port_belongs_to_the_oldest_gateway_that_names_it() {
    let rig = world(&rivals("HTTP"), Platform::Host);
    assert_eq!(
        bound(&rig),
        [("tcp-8080".to_owned(), 8080), ("tcp-9090".to_owned(), 9090)]
    );
    assert_eq!(unavailable(&rig, "a", "l-8080"), None);
    assert_eq!(
        unavailable(&rig, "b", "l-8080").as_deref(),
        Some(
            "Port 8080 of this machine belongs to Gateway default/a, the first by name of those of one age that name it."
        )
    );
    let ports: Vec<u16> = rig
        .last
        .infra
        .values()
        .flat_map(|i| i.ports.iter().map(|p| p.port))
        .collect();
    assert_eq!(ports, [8080, 9090], "nobody else binds it");
}

#[test]
fn fleets_with_machines_of_their_own_and_other_protocols_share_no_port() {
    for (second, platform) in [("HTTP", Platform::Cluster), ("UDP", Platform::Host)] {
        let rig = world(&rivals(second), platform);
        assert_eq!(unavailable(&rig, "a", "l-8080"), None);
        assert_eq!(unavailable(&rig, "b", "l-8080"), None);
    }
}

#[test]
fn a_port_that_is_given_up_goes_to_the_next() {
    let mut rig = world(&rivals("HTTP"), Platform::Host);
    rig.remove(Kind::Gateway, "a");
    assert_eq!(
        bound(&rig),
        [("tcp-8080".to_owned(), 8080), ("tcp-9090".to_owned(), 9090)]
    );
}

#[test]
fn a_port_that_a_stranger_holds_is_left_alone_until_it_is_free() {
    let mut rig = world(TWO_PORTS, Platform::Host);
    let port = |number| MachinePort {
        protocol: PortProtocol::Tcp,
        number,
        family: IpFamily::V4,
    };
    let held_by = |who: &str| Fact::Port(port(80), Some(who.into()));
    let both = [80, 10080].map(|n| Question::Port(port(n)));
    assert_eq!(rig.last.wanted.added, both);
    assert_eq!(bound(&rig).len(), 2, "free until somebody says otherwise");

    rig.tell(held_by("process 7 (nginx)"));
    assert_eq!(bound(&rig), [("tcp-10080".to_owned(), 10080)]);
    let expected = "Port 80 of this machine is held by process 7 (nginx). The listener is served once it is free.";
    assert_eq!(unavailable(&rig, "g", "low").as_deref(), Some(expected));

    rig.tell(Fact::Port(port(80), None));
    assert_eq!(bound(&rig).len(), 2);

    // What was said is forgotten with the question: whoever asks again is answered again.
    rig.tell(held_by("process 7 (nginx)"));
    assert_eq!(rig.remove(Kind::Gateway, "g").wanted.removed, both);
    rig.tell(held_by("process 8 (nginx)"));
    assert_eq!(rig.put(TWO_PORTS).wanted.added, both);
    assert_eq!(bound(&rig).len(), 2);
}
