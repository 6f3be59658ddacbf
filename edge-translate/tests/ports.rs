//! Ports of listeners and the ports that proxies bind.

use edge_translate::{
    Change, Platform, Settings, Translation, Translator,
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
