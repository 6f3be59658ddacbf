//! Rules in CEL that several kinds have.

use kube::core::Rule;

fn rule(rule: &str, message: &str) -> Rule {
    Rule::new(rule).message(message)
}

/// A policy has `targetRef` or `targetRefs`, or selectors.
pub(crate) fn one_form_of_target() -> Rule {
    rule(
        "(has(self.targetRef) && !has(self.targetRefs)) || (!has(self.targetRef) && has(self.targetRefs)) || \
         (has(self.targetSelectors) && self.targetSelectors.size() > 0)",
        "either targetRef or targetRefs must be used",
    )
}

pub(crate) fn group_of_target() -> Rule {
    rule(
        "!has(self.targetRef) || self.targetRef.group == 'gateway.networking.k8s.io'",
        "this policy can only have a targetRef.group of gateway.networking.k8s.io",
    )
}

pub(crate) fn group_of_targets() -> Rule {
    rule(
        "!has(self.targetRefs) || self.targetRefs.all(ref, ref.group == 'gateway.networking.k8s.io')",
        "this policy can only have a targetRefs[*].group of gateway.networking.k8s.io",
    )
}

pub(crate) fn kind_of_target(message: &str, kinds: &[&str]) -> Rule {
    let kinds = list(kinds);
    rule(
        &format!("!has(self.targetRef) || self.targetRef.kind in {kinds}"),
        message,
    )
}

pub(crate) fn kinds_of_targets(message: &str, kinds: &[&str]) -> Rule {
    let kinds = list(kinds);
    rule(
        &format!("!has(self.targetRefs) || self.targetRefs.all(ref, ref.kind in {kinds})"),
        message,
    )
}

pub(crate) fn merged_policies_are_of_routes() -> Rule {
    let routes = every_target_in(&["HTTPRoute", "GRPCRoute", "TCPRoute", "UDPRoute", "TLSRoute"]);
    rule(
        &format!("!has(self.mergeType) || ({routes})"),
        "mergeType can only be used with xRoute targets",
    )
}

pub(crate) fn admission_control_is_of_http() -> Rule {
    let targets = every_target_in(&["Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute"]);
    rule(
        &format!("!has(self.admissionControl) || ({targets})"),
        "admissionControl can only be used with HTTPRoute, GRPCRoute, Gateway, or ListenerSet targets",
    )
}

fn every_target_in(kinds: &[&str]) -> String {
    let kinds = list(kinds);
    format!(
        "(!has(self.targetRef) || self.targetRef.kind in {kinds}) && (!has(self.targetRefs) || \
         self.targetRefs.all(ref, ref.kind in {kinds})) && (!has(self.targetSelectors) || \
         self.targetSelectors.all(selector, selector.kind in {kinds}))"
    )
}

pub(crate) fn no_single_backend() -> Rule {
    rule(
        "!has(self.backendRef)",
        "BackendRefs must be used, backendRef is not supported.",
    )
}

pub(crate) fn some_backend() -> Rule {
    rule(
        "has(self.backendRef) || (has(self.backendRefs) && self.backendRefs.size() > 0)",
        "backendRef or backendRefs needs to be set",
    )
}

pub(crate) fn host_or_backends() -> Rule {
    rule(
        "has(self.host) || (has(self.backendRefs) && self.backendRefs.size() > 0)",
        "host or backendRefs needs to be set",
    )
}

/// Kinds that logs, metrics and traces are sent to.
pub(crate) fn kinds_of_collectors() -> Rule {
    rule(
        "!has(self.backendRefs) || self.backendRefs.all(ref, ref.kind in ['Service', 'Backend'])",
        "BackendRefs only support Service and Backend kind.",
    )
}

pub(crate) fn groups_of_collectors() -> Rule {
    rule(
        "!has(self.backendRefs) || self.backendRefs.all(ref, ref.group in ['', 'gateway.edge'])",
        "BackendRefs only support Core and gateway.edge group.",
    )
}

/// Kinds of services that the proxy asks about requests.
pub(crate) fn kinds_of_services() -> Rule {
    rule(
        "!has(self.backendRefs) || self.backendRefs.all(ref, ref.kind in ['Service', 'ServiceImport', 'Backend'])",
        "BackendRefs only supports Service, ServiceImport, and Backend kind.",
    )
}

pub(crate) fn groups_of_services() -> Rule {
    rule(
        "!has(self.backendRefs) || self.backendRefs.all(ref, ref.group in ['', 'multicluster.x-k8s.io', \
         'gateway.edge'])",
        "BackendRefs only supports Core, multicluster.x-k8s.io, and gateway.edge groups.",
    )
}

pub(crate) fn no_timeout_of_retries() -> Rule {
    rule(
        "!has(self.backendSettings) || !has(self.backendSettings.retry) || !has(self.backendSettings.retry.perRetry) \
         || !has(self.backendSettings.retry.perRetry.timeout)",
        "Retry timeout is not supported.",
    )
}

pub(crate) fn no_statuses_of_retries() -> Rule {
    rule(
        "!has(self.backendSettings) || !has(self.backendSettings.retry) || !has(self.backendSettings.retry.retryOn) \
         || !has(self.backendSettings.retry.retryOn.httpStatusCodes)",
        "HTTPStatusCodes is not supported.",
    )
}

/// A stream in both directions can't be passed on once it has begun.
pub(crate) fn duplex_fails_closed() -> Rule {
    let request = body_is("request", "== 'FullDuplexStreamed'");
    let response = body_is("response", "== 'FullDuplexStreamed'");
    rule(
        &format!("!has(self.failOpen) || !self.failOpen || !({request} || {response})"),
        "If FullDuplexStreamed body processing mode is used, FailOpen must be false.",
    )
}

/// A service whose answers are ignored must not be waited for.
pub(crate) fn shadows_stream() -> Rule {
    let request = body_is("request", "!= 'Streamed'");
    let response = body_is("response", "!= 'Streamed'");
    rule(
        &format!("!has(self.shadowMode) || !self.shadowMode || !({request} || {response})"),
        "If shadowMode is enabled, body processing mode must be Streamed or unset.",
    )
}

fn body_is(direction: &str, condition: &str) -> String {
    format!(
        "(has(self.processingMode) && has(self.processingMode.{direction}) && \
         has(self.processingMode.{direction}.body) && self.processingMode.{direction}.body {condition})"
    )
}

fn list(kinds: &[&str]) -> String {
    format!("['{}']", kinds.join("', '"))
}
