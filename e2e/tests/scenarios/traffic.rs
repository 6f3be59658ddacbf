//! BackendTrafficPolicies and HTTPRouteFilters in force: each is shown to act, to be changed, to be taken back by an
//! edit, and to close its route while it can't be honoured.

use crate::{policies::HttpPeer, resources, statuses::wait_until_said};
use anyhow::Result;
use e2e::{
    http::{self, Request, Response},
    stack::{DataPlane, Stack},
};
use std::{
    io::{BufReader, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

mod bounds;
mod choice;
mod filters;
mod health;
mod responses;
mod tries;
mod zones;

pub(crate) use bounds::{requests_beyond_a_rate_are_turned_away, what_a_cluster_bears_is_bounded};
pub(crate) use choice::requests_of_a_user_stay_at_a_backend;
pub(crate) use filters::{
    faults_are_injected, filters_answer_rewrite_and_sign, long_requests_are_refused,
    one_list_of_cookies_is_enough_and_preflights_need_none,
};
pub(crate) use health::{backends_that_fail_are_left_out, backends_that_fail_probes_are_left_out};
pub(crate) use responses::{
    requests_are_refused_while_too_few_succeed, responses_are_compressed_as_clients_like, responses_are_replaced,
    responses_pass_at_a_rate,
};
pub(crate) use tries::{requests_are_tried_again, requests_end_in_time};
pub(crate) use zones::the_zone_of_a_proxy_comes_first;

/// The host of the route to the peers.
const HOST: &str = "peers.example.com";
const POLICY: &str = "policy.yaml";

/// The quickstart with a further route, to backends of the test's own.
struct Routed {
    stack: Stack,
}

impl Routed {
    /// Starts it with a route to endpoints at these ports.
    fn start(plane: &DataPlane, ports: &[u16]) -> Result<Self> {
        let www = Self {
            stack: Stack::start(plane)?,
        };
        let endpoints: Vec<String> = ports
            .iter()
            .map(|port| format!("{{ ip: {{ address: 127.0.0.1, port: {port} }} }}"))
            .collect();
        let backend = format!(
            "---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: {{ name: peers, namespace: default }}\n\
             spec:\n  endpoints: [{}]\n",
            endpoints.join(", ")
        );
        let head = format!("  hostnames: [{HOST}]\n");
        let route = resources::route("HTTPRoute", "peers", "{ name: quickstart }", &head, "peers");
        www.stack.put("peers.yaml", &format!("{backend}{route}"))?;
        Ok(www)
    }

    /// Lets a BackendTrafficPolicy shape the route. Fields are lines of its spec.
    fn shape(&self, fields: &str) -> Result<()> {
        self.stack.put(
            POLICY,
            &format!(
                "---\napiVersion: gateway.edge/v1alpha1\nkind: BackendTrafficPolicy\n\
                 metadata: {{ name: shape, namespace: default }}\nspec:\n  \
                 targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: peers }}]\n{fields}"
            ),
        )
    }

    /// Takes the policy back.
    fn unshape(&self) -> Result<()> {
        self.stack.remove(POLICY)
    }

    /// Shows that the route is closed while the policy says what can't be honoured, as its status tells, and open
    /// without the policy.
    fn fails_closed(&self, fields: &str, why: &str) -> Result<()> {
        self.shape(fields)?;
        self.answers(&get("/"), 500)?;
        wait_until_said(&self.stack, ["BackendTrafficPolicy", "shape", "Accepted", "False"], why)?;
        self.unshape()?;
        self.answers(&get("/"), 200).map(drop)
    }

    /// Asks once.
    fn ask(&self, request: &Request<'_>) -> Result<Response> {
        self.stack.send(request)
    }

    /// Posts a text.
    fn post(&self, text: &str) -> Result<Response> {
        let mut stream = http::connect(self.stack.gateway())?;
        let length = text.len();
        let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("{head}{text}").as_bytes())?;
        http::read_response(&mut BufReader::new(stream))
    }

    /// Asks until what comes back is as it should be.
    fn until(&self, what: &str, request: &Request<'_>, is_so: impl Fn(&Response) -> bool) -> Result<Response> {
        self.stack.ask_until(what, request, is_so)
    }

    /// Asks until the status is this.
    fn answers(&self, request: &Request<'_>, status: u16) -> Result<Response> {
        let what = format!("{status} to {request:?}");
        self.until(&what, request, |answer| answer.status == status)
    }

    /// Waits for anything else.
    fn holds(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        self.stack.look_until(what, || Ok(holds()?.then_some(())))
    }
}

/// A GET of a path.
fn get(path: &str) -> Request<'_> {
    Request::get(HOST, path)
}

/// The same with headers.
fn get_with<'a>(path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { headers, ..get(path) }
}

/// A backend that says its name, fails on paths that begin with `/fail`, and counts what it was asked.
fn backend(name: &'static str) -> Result<(HttpPeer, Arc<AtomicUsize>)> {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    let peer = HttpPeer::start(move |request| {
        asked.fetch_add(1, Ordering::Relaxed);
        let status = match request.line.split(' ').nth(1) {
            Some(path) if path.starts_with("/fail") => 503,
            Some(_) | None => 200,
        };
        (status, Vec::new(), name.to_owned())
    })?;
    Ok((peer, count))
}

/// The body as text.
fn body(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}
