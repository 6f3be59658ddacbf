//! What all else stands on: the lab serves, and pods run our programs.

use anyhow::{Context, Result};
use e2e::{
    http::{self, Request},
    lab::{Kind, Lab, wait_for},
    stack::DataPlane,
    with_each_data_plane,
};
use std::net::{IpAddr, SocketAddr};

with_each_data_plane! {
    a_proxy_runs_as_a_pod,
}

/// A proxy with everything in its bootstrap, ready when its listener answers.
const PROXY: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: proxy, namespace: NAMESPACE }
spec:
  selector: { matchLabels: { app: proxy } }
  template:
    metadata: { labels: { app: proxy } }
    spec:
      containers:
        - name: proxy
          image: IMAGE
          args:
            - --config-yaml
            - |
              node: { id: alone, cluster: ground }
              static_resources:
                listeners:
                  - name: http
                    address: { socket_address: { address: 0.0.0.0, port_value: 10080 } }
                    filter_chains:
                      - filters:
                          - name: http
                            typed_config:
                              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                              stat_prefix: http
                              route_config:
                                virtual_hosts:
                                  - name: all
                                    domains: ["*"]
                                    routes:
                                      - match: { prefix: / }
                                        direct_response: { status: 200, body: { inline_string: proxied } }
                              http_filters:
                                - name: router
                                  typed_config:
                                    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          readinessProbe: { httpGet: { path: /, port: 10080 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: proxy, namespace: NAMESPACE }
spec:
  type: LoadBalancer
  selector: { app: proxy }
  ports: [{ port: 80, targetPort: 10080 }]
"#;

fn a_proxy_runs_as_a_pod(plane: &DataPlane) -> Result<()> {
    let (name, image) = match plane {
        DataPlane::EdgeProxy => ("ground-edge-proxy", "edge-proxy:test"),
        DataPlane::Envoy(_) => ("ground-envoy", "envoy:test"),
    };
    let lab = Lab::join()?;
    let namespace = lab.namespace(name)?;
    namespace.explain((|| {
        lab.apply(&PROXY.replace("NAMESPACE", name).replace("IMAGE", image))?;
        lab.wait_until_true(&Kind::new("apps/v1", "Deployment").named(name, "proxy"), "Available")?;
        let service = lab.wait_until(
            &Kind::core("Service").named(name, "proxy"),
            "to have an address",
            |service| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string(),
        )?;
        let address: IpAddr = service["status"]["loadBalancer"]["ingress"][0]["ip"]
            .as_str()
            .context("no text")?
            .parse()?;
        let address = SocketAddr::new(address, 80);
        let answer = wait_for("an answer", || {
            Ok(Some(http::send(address, &Request::get("anybody", "/"))?))
        })?;
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"proxied"[..]));
        Ok(())
    })())
}

#[test]
fn the_nodes_are_ready_and_names_of_services_resolve() -> Result<()> {
    let lab = Lab::join()?;
    lab.wait_until_true(&Kind::core("Node").for_all("kubelab"), "Ready")?;
    let api = "kubernetes.default.svc.cluster.local:443";
    let addresses: Vec<_> = std::net::ToSocketAddrs::to_socket_addrs(api)?.collect();
    assert!(addresses.contains(&"10.96.0.1:443".parse()?), "{addresses:?}");
    Ok(())
}
