//! Ports of listeners and the ports that proxies bind.

use edge_ir::{IpFamily, PortProtocol};
use edge_translate::{
    Change, Fact, MachinePort, Platform, Question, Settings, Translation, Translator,
    load::{Limits, Source, load},
};

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
";

fn translate(text: &str, platform: Platform) -> (Translation, String) {
    let text = format!("{CLASS}---{text}");
    let loaded = load(
        &Source {
            name: "test.yaml",
            text: &text,
        },
        &Limits::default(),
    );
    assert_eq!(loaded.findings, []);
    let mut translator = Translator::new(Settings {
        platform,
        ..Settings::default()
    });
    for object in loaded.objects {
        translator.apply(Change::Put(object.object));
    }
    let translation = translator.translate();
    let statuses = format!("{:?}", translation.statuses);
    (translation, statuses)
}

fn bound(translation: &Translation) -> Vec<(String, u16)> {
    let listeners = translation.fleets.values().flat_map(|f| f.listeners.iter());
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
    let (translation, statuses) = translate(TWO_PORTS, Platform::Cluster);
    assert_eq!(bound(&translation), [("tcp-80".to_owned(), 10080)]);
    assert!(statuses.contains("PortUnavailable"), "{statuses}");
}

#[test]
fn without_shifting_both_ports_are_served() {
    let (translation, statuses) = translate(TWO_PORTS, Platform::Host);
    assert_eq!(
        bound(&translation),
        [("tcp-10080".to_owned(), 10080), ("tcp-80".to_owned(), 80)]
    );
    assert!(!statuses.contains("PortUnavailable"), "{statuses}");
}

#[test]
fn a_port_of_the_proxy_itself_is_unavailable() {
    let gateway = TWO_PORTS.replace("10080", "19003");
    let (translation, statuses) = translate(&gateway, Platform::Cluster);
    assert_eq!(bound(&translation), [("tcp-80".to_owned(), 10080)]);
    assert!(statuses.contains("used by the proxy itself"), "{statuses}");
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
    let (translation, statuses) = translate(&rivals("HTTP"), Platform::Host);
    assert_eq!(
        bound(&translation),
        [("tcp-8080".to_owned(), 8080), ("tcp-9090".to_owned(), 9090)]
    );
    assert!(statuses.contains("PortUnavailable"), "{statuses}");
    assert!(
        statuses.contains("Port 8080 of this machine belongs to Gateway default/a, the oldest that names it."),
        "{statuses}"
    );
    let ports: Vec<u16> = translation
        .infra
        .values()
        .flat_map(|i| i.ports.iter().map(|p| p.port))
        .collect();
    assert_eq!(ports, [8080, 9090], "nobody else binds it");
}

#[test]
fn fleets_with_machines_of_their_own_and_other_protocols_share_no_port() {
    for (second, platform) in [("HTTP", Platform::Cluster), ("UDP", Platform::Host)] {
        let (_, statuses) = translate(&rivals(second), platform);
        assert!(!statuses.contains("PortUnavailable"), "{statuses}");
    }
}

#[test]
fn a_port_that_is_given_up_goes_to_the_next() {
    let text = rivals("HTTP");
    let source = Source {
        name: "test.yaml",
        text: &format!("{CLASS}---{text}"),
    };
    let objects = load(&source, &Limits::default()).objects;
    let first = objects[1].object.key();
    let mut translator = Translator::new(Settings {
        platform: Platform::Host,
        ..Settings::default()
    });
    objects
        .into_iter()
        .for_each(|object| translator.apply(Change::Put(object.object)));
    translator.translate();
    translator.apply(Change::Remove(first));
    assert_eq!(
        bound(&translator.translate()),
        [("tcp-8080".to_owned(), 8080), ("tcp-9090".to_owned(), 9090)]
    );
}

#[test]
fn a_port_that_a_stranger_holds_is_left_alone_until_it_is_free() {
    let objects = load(
        &Source {
            name: "test.yaml",
            text: &format!("{CLASS}---{TWO_PORTS}"),
        },
        &Limits::default(),
    )
    .objects;
    let listeners = objects[1].object.clone();
    let mut translator = Translator::new(Settings {
        platform: Platform::Host,
        ..Settings::default()
    });
    objects
        .into_iter()
        .for_each(|object| translator.apply(Change::Put(object.object)));
    let translation = translator.translate();
    let port = |number| MachinePort {
        protocol: PortProtocol::Tcp,
        number,
        family: IpFamily::V4,
    };
    assert_eq!(translation.wanted.added, [80, 10080].map(|n| Question::Port(port(n))));
    assert_eq!(bound(&translation).len(), 2, "free until somebody says otherwise");

    translator.apply(Change::Fact(Fact::Port(port(80), Some("process 7 (nginx)".into()))));
    let translation = translator.translate();
    assert_eq!(bound(&translation), [("tcp-10080".to_owned(), 10080)]);
    let statuses = format!("{:?}", translation.statuses);
    let expected = "Port 80 of this machine is held by process 7 (nginx). The listener is served once it is free.";
    assert!(statuses.contains(expected), "{statuses}");

    translator.apply(Change::Fact(Fact::Port(port(80), None)));
    assert_eq!(bound(&translator.translate()).len(), 2);

    // What was said is forgotten with the question: whoever asks again is answered again.
    translator.apply(Change::Fact(Fact::Port(port(80), Some("process 7 (nginx)".into()))));
    translator.apply(Change::Remove(listeners.key()));
    let wanted = translator.translate().wanted;
    assert_eq!(wanted.removed, [80, 10080].map(|n| Question::Port(port(n))));
    translator.apply(Change::Fact(Fact::Port(port(80), Some("process 8 (nginx)".into()))));
    translator.apply(Change::Put(listeners));
    let translation = translator.translate();
    assert_eq!(translation.wanted.added, [80, 10080].map(|n| Question::Port(port(n))));
    assert_eq!(bound(&translation).len(), 2);
}
