//! Where clients reach the Gateways of a machine.

use super::*;
use serde_json::json;

/// The status of a Gateway.
fn gateway(status: &Value, name: &str) -> Value {
    let all = status["resources"].as_array().cloned().unwrap_or_default();
    let gateway = all
        .into_iter()
        .find(|resource| resource["kind"] == "Gateway" && resource["name"] == name);
    gateway.unwrap_or_default()["status"].clone()
}

fn addresses(status: &Value, name: &str) -> Vec<Value> {
    let addresses = gateway(status, name)["addresses"].as_array().cloned();
    addresses
        .unwrap_or_default()
        .iter()
        .map(|address| address["value"].clone())
        .collect()
}

/// Reason and message of its `Programmed`.
fn programmed(status: &Value, name: &str) -> (Value, String) {
    let conditions = gateway(status, name)["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let programmed = conditions
        .into_iter()
        .find(|condition| condition["type"] == "Programmed");
    let programmed = programmed.unwrap_or_default();
    let message = programmed["message"].as_str().unwrap_or_default().to_owned();
    (programmed["reason"].clone(), message)
}

#[tokio::test]
async fn a_gateway_of_a_machine_says_where_it_is_reached_and_which_addresses_it_cannot_have() {
    let place = Place::new("    infrastructure: { type: Host, host: { proxyBinary: none } }\n");
    let ports: [u16; 2] = e2e::ports::free().unwrap();
    let asks = |addresses: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: asks, namespace: default }}\n\
             spec:\n  gatewayClassName: edge\n  addresses: {addresses}\n  listeners: [{{ name: http, protocol: HTTP, \
             port: {} }}]\n",
            ports[0]
        )
    };
    place.write(
        "gateway.d/asks.yaml",
        &asks("[{ value: 192.0.2.9 }, { type: Hostname, value: www.example.com }]"),
    );
    place.write(
        "gateway.d/six.yaml",
        &format!(
            "apiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: six, namespace: default }}\n\
             spec: {{ ipFamily: IPv6 }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {{ name: six, namespace: default }}\nspec:\n  gatewayClassName: edge\n  infrastructure: \
             {{ parametersRef: {{ group: gateway.edge, kind: EdgeProxy, name: six }} }}\n  listeners: \
             [{{ name: http, protocol: HTTP, port: {} }}]\n",
            ports[1]
        ),
    );
    let _server = place.start().await;
    let said = "One or more Gateway addresses cannot be used: 192.0.2.9, www.example.com";
    place
        .status_says("addresses that the machine hasn't are told", |status| {
            programmed(status, "asks") == (json!("AddressNotUsable"), said.to_owned())
                && addresses(status, "six") == [json!("::1")]
                && addresses(status, "gw") == [json!("127.0.0.1")]
        })
        .await;
    // One that it has is where the Gateway is reached, and nothing but the proxy is missing.
    place.write("gateway.d/asks.yaml", &asks("[{ value: 127.0.0.2 }]"));
    place
        .status_says("an address of the machine is told", |status| {
            programmed(status, "asks").0 == "NoResources" && addresses(status, "asks") == [json!("127.0.0.2")]
        })
        .await;
}
