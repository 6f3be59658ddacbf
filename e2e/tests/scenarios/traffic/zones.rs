//! The zone of a proxy comes first.
//!
//! On a machine nobody tells a proxy its zone: an operator does, by the bootstrap, and lists the proxies of the fleet
//! as the EndpointSlice that a cluster would keep.

use super::{HOST, POLICY, backend, body};
use crate::resources;
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request},
    process::wait_for,
    stack::{DataPlane, PATIENCE, Site, Stack},
};
use std::fs;

/// Requests at once, enough that two endpoints that are asked both have some.
const REQUESTS: usize = 32;

/// What an operator adds to a bootstrap.
const BOOTSTRAP: &str = r#"{ "node": { "locality": { "zone": "near" } },
    "cluster_manager": { "local_cluster_name": "default/quickstart" },
    "static_resources": { "clusters": [{ "name": "default/quickstart", "type": "EDS", "connect_timeout": "1s",
        "eds_cluster_config": { "eds_config": { "ads": {}, "resource_api_version": "V3" } } }] } }"#;

pub(crate) fn the_zone_of_a_proxy_comes_first(plane: &DataPlane) -> Result<()> {
    let (near, _) = backend("near")?;
    let (far, _) = backend("far")?;
    let www = Zoned::start(plane)?;
    let both = [("near", near.port), ("far", far.port)];
    www.sends_to(&both)?;
    www.asks("both, as no zone matters", |near, far| near > 0 && far > 0)?;

    // Proxies of the own zone alone: what comes to it is all there is, unless it is told to stay there.
    www.proxies(&["near"])?;
    www.prefers("minEndpointsThreshold: 1, force: {}")?;
    www.asks("the zone it is told to stay in", |_, far| far == 0)?;
    www.prefers("minEndpointsThreshold: 3, force: {}")?;
    www.asks("both, as there are too few for zones", |near, far| near > 0 && far > 0)?;

    // As many proxies as endpoints in either zone: each zone keeps its own. With more of them here than that, what the
    // endpoints here can't take goes to the others; of that the proxies alone are told.
    www.prefers("minEndpointsThreshold: 1")?;
    www.proxies(&["near", "far"])?;
    www.asks("the own zone, which can take all of it", |_, far| far == 0)?;
    www.proxies(&["near", "near", "near", "far"])?;
    www.asks("both, for their share", |near, far| near > 0 && far > 0)?;

    www.proxies(&["near", "far"])?;
    www.asks("the own zone again", |_, far| far == 0)?;
    www.sends_to(&[("far", far.port)])?;
    www.asks("another zone, as there is nobody in the own", |near, _| near == 0)?;
    www.sends_to(&both)?;
    www.asks("the own zone, where somebody is again", |_, far| far == 0)?;
    www.stack.remove(POLICY)?;
    www.asks("both, as no zone matters any more", |near, far| near > 0 && far > 0)
}

/// The quickstart with proxies in a zone, and a further route.
struct Zoned {
    stack: Stack,
}

impl Zoned {
    fn start(plane: &DataPlane) -> Result<Self> {
        let site = Site::new()?;
        let config = fs::read_to_string(site.config())?;
        let text: String = BOOTSTRAP.lines().map(str::trim).collect();
        let config = format!("{config}\nedgeProxy: {{ bootstrap: {{ type: Merge, value: '{text}' }} }}\n");
        fs::write(site.config(), config)?;
        let stack = Stack::start_at(site, plane)?;
        let head = format!("  hostnames: [{HOST}]\n");
        let route = resources::route("HTTPRoute", "peers", "{ name: quickstart }", &head, "peers");
        stack.put("route.yaml", &route)?;
        Ok(Self { stack })
    }

    /// Where the route leads: zones and ports.
    fn sends_to(&self, endpoints: &[(&str, u16)]) -> Result<()> {
        let endpoints: Vec<String> = endpoints
            .iter()
            .map(|(zone, port)| format!("{{ zone: {zone}, ip: {{ address: 127.0.0.1, port: {port} }} }}"))
            .collect();
        let endpoints = endpoints.join(", ");
        let backend = format!(
            "---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: {{ name: peers, namespace: default }}\n\
             spec: {{ endpoints: [{endpoints}] }}\n"
        );
        self.stack.put("backend.yaml", &backend)
    }

    /// The zones of all proxies.
    fn proxies(&self, zones: &[&str]) -> Result<()> {
        let endpoints: Vec<String> = (1..)
            .zip(zones)
            .map(|(number, zone)| format!("{{ addresses: [10.0.0.{number}], zone: {zone} }}"))
            .collect();
        let endpoints = endpoints.join(", ");
        let slice = format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata:\n  \
             name: proxies\n  namespace: edge-gateway-system\n  \
             labels: {{ kubernetes.io/service-name: edge-default-quickstart-abcacdcf }}\n\
             endpoints: [{endpoints}]\nports: [{{ port: 80 }}]\n"
        );
        self.stack.put("proxies.yaml", &slice)
    }

    /// How far the own zone comes first.
    fn prefers(&self, fields: &str) -> Result<()> {
        let balancer =
            format!("  loadBalancer: {{ type: RoundRobin, zoneAware: {{ preferLocal: {{ {fields} }} }} }}\n");
        let target = "{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: peers }";
        self.stack
            .put(POLICY, &resources::traffic_policy("zones", target, &balancer))
    }

    /// Asks until the counts of those that answered are as they should be.
    fn asks(&self, who: &str, is_so: impl Fn(usize, usize) -> bool) -> Result<()> {
        let found = wait_for(who, PATIENCE, || {
            let (mut near, mut far) = (0, 0);
            for _ in 0..REQUESTS {
                let answer = http::send(self.stack.gateway(), &Request::get(HOST, "/"))?;
                ensure!(answer.status == 200, "{answer:?}");
                match body(&answer).as_str() {
                    "near" => near += 1,
                    _ => far += 1,
                }
            }
            ensure!(is_so(near, far), "{near} were answered near, {far} far");
            Ok(Some(()))
        });
        found.map(drop).with_context(|| self.stack.logs())
    }
}
