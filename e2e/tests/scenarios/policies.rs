//! SecurityPolicies in force: each is shown to act, to be changed and taken back by an edit, and to close what it
//! guards when it can't do its work.

use crate::{resources, statuses::wait_until_said};
use anyhow::{Result, ensure};
use e2e::{
    http::{Request, Response},
    stack::{DataPlane, Stack},
};

mod browsers;
mod certified;
mod cookies;
mod credentials;
mod logins;
mod peers;
mod places;
mod provider;
mod rules;
mod services;
mod signer;
mod tokens;
mod ways;

pub(crate) use browsers::{scripts_of_other_origins_are_told_what_they_may_do, sites_that_forge_requests_are_refused};
pub(crate) use cookies::cookies_of_logins_are_of_one_form;
pub(crate) use credentials::{clients_need_a_key, users_need_a_password};
pub(crate) use logins::{
    a_login_outlives_the_controller_and_its_provider, a_provider_that_fails_is_asked_again,
    clients_log_in_at_a_certified_provider, clients_log_in_at_a_provider,
    nobody_gets_in_by_the_login_or_the_session_of_another, sessions_are_renewed_while_the_provider_does_it,
};
pub(crate) use peers::{Answer, GrpcPeer, HttpPeer, Received};
pub(crate) use places::rules_decide_by_where_clients_are;
pub(crate) use rules::{connections_are_let_in_by_address, rules_decide_by_expressions, rules_decide_who_may_do_what};
pub(crate) use services::{a_service_decides_over_grpc, a_service_decides_over_http};
pub(crate) use tokens::{claims_of_tokens_decide, tokens_of_an_issuer_are_needed};
pub(crate) use ways::{a_guard_that_breaks_opens_nothing, connections_of_before_are_not_let_past_a_new_guard};

/// The host of the quickstart's route.
const HOST: &str = "www.example.com";

/// The quickstart, whose route a policy guards.
pub(crate) struct Guarded {
    stack: Stack,
}

impl Guarded {
    /// Starts it without a policy.
    fn start(plane: &DataPlane) -> Result<Self> {
        Ok(Self {
            stack: Stack::start(plane)?,
        })
    }

    /// Guards the route as lines of a SecurityPolicy's spec say.
    fn guard(&self, fields: &str) -> Result<()> {
        let target = "{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: www }";
        self.stack
            .put("policy.yaml", &resources::security_policy("guard", target, fields))
    }

    /// Takes the policy away and waits until everybody is let in again.
    fn open(&self) -> Result<()> {
        self.stack.remove("policy.yaml")?;
        self.answers(&get(&[]), 200).map(drop)
    }

    /// Waits until a request is answered with a status, and gives that answer.
    fn answers(&self, request: &Request<'_>, status: u16) -> Result<Response> {
        let what = format!("{status} to {request:?}");
        self.stack.ask_until(&what, request, |answer| answer.status == status)
    }

    /// Waits until a request is answered with a status whichever worker takes it, as far as sixteen connections tell.
    /// Each takes over a configuration by itself, and what a test does next may reach another one than what it waited
    /// for.
    fn answers_everywhere(&self, request: &Request<'_>, status: u16) -> Result<()> {
        let what = format!("{status} to {request:?} from each worker");
        self.stack.look_until(&what, || {
            for _ in 0..16 {
                let answer = self.stack.send(request)?;
                ensure!(answer.status == status, "the last answer was {answer:?}");
            }
            Ok(Some(()))
        })
    }

    /// Waits until a request is answered with a status, and must not be let through meanwhile.
    fn closes(&self, request: &Request<'_>, status: u16) -> Result<Response> {
        let what = format!("{status} to {request:?}");
        let answer = self
            .stack
            .ask_until(&what, request, |answer| [200, status].contains(&answer.status))?;
        let is_closed = answer.status == status;
        ensure!(
            is_closed,
            "{request:?} was let through: {answer:?}\n{}",
            self.stack.logs()
        );
        Ok(answer)
    }

    /// What the backend saw of a header in a request that is let through.
    fn seen(&self, request: &Request<'_>, header: &str) -> Result<Option<String>> {
        let seen = self.answers(request, 200)?.json()?;
        Ok(seen["headers"][header][0].as_str().map(str::to_owned))
    }

    /// Waits until the status of the policy says that it is refused, and why.
    fn is_refused_for(&self, why: &str) -> Result<()> {
        wait_until_said(&self.stack, ["SecurityPolicy", "guard", "Accepted", "False"], why)
    }
}

/// A GET of the root with headers.
fn get<'a>(headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request {
        headers,
        ..Request::get(HOST, "/")
    }
}
