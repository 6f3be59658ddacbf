//! What goes wrong with the API server, in words that say what to do.

use kube::{Error, core::Status};
use std::{error::Error as StdError, io};

/// One sentence about a request that failed.
pub fn describe(error: &Error) -> String {
    match error {
        Error::Api(status) => describe_status(status),
        Error::Auth(error) => format!("no credentials for the API server: {error}; check the kubeconfig"),
        Error::SerdeError(error) => format!("the API server's answer can't be read: {error}"),
        other => match root(other) {
            Some(system) => format!("the API server can't be reached: {}", crate::error::describe(system)),
            None => format!("the API server can't be reached: {}", innermost(other)),
        },
    }
}

/// One sentence about what an API server says of a request that it doesn't grant.
pub fn describe_status(status: &Status) -> String {
    let said = match status.message.as_str() {
        "" => status.reason.as_str(),
        said => said,
    };
    if let Some(fault) = unreadable(status) {
        return format!("the API server doesn't take it: {fault}");
    }
    if is_too_large(status) {
        return format!("the object is too large for the API server: {said}");
    }
    match status.code {
        401 => format!("the API server doesn't take our credentials ({said}); check the ServiceAccount's token"),
        403 if lacks_a_right(status) => {
            format!("the API server forbids it: {said}; add that to the role of the ServiceAccount")
        }
        403 => format!("the API server forbids it: {said}"),
        422 | 400 => format!("the API server doesn't take it: {said}"),
        429 => format!("the API server is overloaded and asks for patience: {said}"),
        code if code >= 500 => format!("the API server fails ({code}): {said}"),
        code => format!("the API server says {code}: {said}"),
    }
}

/// Whether the same request would be refused again, for what it asks: trying again helps once somebody has changed
/// that.
pub fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Api(status) => {
            [400, 403, 404, 422].contains(&status.code) || is_too_large(status) || unreadable(status).is_some()
        }
        _ => false,
    }
}

/// Whether admission denies a request, in the words of webhooks and of policies (k8s.io/apiserver, `ToStatusErr`,
/// `ValidatingAdmissionPolicy`). They have codes of their own choice, those of objects that are wrong among them; what
/// they say is about this time and this place, and may be otherwise without anything else having changed.
pub fn is_by_admission(status: &Status) -> bool {
    let said = &status.message;
    (said.contains("admission webhook \"") && said.contains("denied the request"))
        || (said.contains("ValidatingAdmissionPolicy '") && said.contains("denied request"))
}

/// Whether an object has more bytes than are stored of one. The API server says so of requests beyond its own limit; of
/// those beyond etcd's it says that it has failed itself, in etcd's words or in gRPC's.
pub fn is_too_large(status: &Status) -> bool {
    let is_etcds = [
        "etcdserver: request is too large",
        "trying to send message larger than max",
    ];
    status.code == 413 || (status.code == 500 && is_etcds.iter().any(|words| status.message.contains(words)))
}

/// Whether no role grants a request, in the words of every authorizer's refusal (k8s.io/apiserver, `forbiddenMessage`).
/// Admission forbids others for what they ask: webhooks, quotas, namespaces that are going.
fn lacks_a_right(status: &Status) -> bool {
    status.message.contains("User \"") && status.message.contains("\" cannot ")
}

/// What is wrong with an applied object that can't be read as one of its kind: fields that there aren't, and values
/// that are none, such as quantities. To such an object an API server answers with 500, as if it had failed itself.
fn unreadable(status: &Status) -> Option<&str> {
    let unknown = status
        .message
        .split_once("failed to create typed patch object (")
        .and_then(|(_, fields)| fields.split_once("): "));
    let without_meaning = status
        .message
        .split_once("failed to convert new object (")
        .and_then(|(_, fault)| fault.split_once("unable to convert unstructured object to "))
        .and_then(|(_, fault)| fault.split_once(": "));
    unknown.or(without_meaning).map(|(_, fault)| fault)
}

/// The system's reason, where that is at the bottom.
fn root(error: &Error) -> Option<&io::Error> {
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref::<io::Error>()).last()
}

fn innermost(error: &Error) -> String {
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    chain.last().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> Error {
        let mut status = Status::failure(message, "");
        status.code = code;
        Error::Api(status.boxed())
    }

    #[test]
    fn an_object_that_etcd_does_not_take_is_refused_for_its_size() {
        for (code, message) in [
            (413, "Request entity too large: limit is 3145728"),
            (500, "etcdserver: request is too large"),
            (
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)",
            ),
        ] {
            let error = answer(code, message);
            assert!(is_refusal(&error), "{message}");
            let told = format!("the object is too large for the API server: {message}");
            assert_eq!(describe(&error), told);
        }
    }

    #[test]
    fn what_admission_denies_is_told_from_what_is_wrong() {
        let is_denied = |message: &str| is_by_admission(&Status::failure(message, ""));
        assert!(is_denied(
            "admission webhook \"w.example.com\" denied the request: not now"
        ));
        assert!(is_denied(
            "admission webhook \"w.example.com\" denied the request without explanation"
        ));
        assert!(is_denied(
            "httproutes.gateway.networking.k8s.io \"r\" is forbidden: ValidatingAdmissionPolicy 'freeze' with binding 'b' \
             denied request: change freeze"
        ));
        assert!(!is_denied(
            "HTTPRoute.gateway.networking.k8s.io \"r\" is invalid: status.parents: Too many: 33: must have at most 32 items"
        ));
    }

    #[test]
    fn a_role_is_named_where_one_is_missing() {
        for (message, has_advice) in [
            (
                "services \"n\" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: services=1",
                false,
            ),
            ("admission webhook \"w\" denied the request: not here", false),
            (
                "services \"n\" is forbidden: User \"us\" cannot patch resource \"services\"",
                true,
            ),
        ] {
            let told = describe(&answer(403, message));
            assert_eq!(told.contains("add that to the role"), has_advice, "{told}");
        }
    }

    #[test]
    fn what_is_no_object_of_its_kind_is_refused_although_the_server_says_that_it_failed() {
        let unknown = answer(
            500,
            "failed to create typed patch object (ns/n; apps/v1, Kind=Deployment): .spec.colour: field not declared in schema",
        );
        assert!(is_refusal(&unknown));
        assert_eq!(
            describe(&unknown),
            "the API server doesn't take it: .spec.colour: field not declared in schema"
        );
        let senseless = answer(
            500,
            "failed to convert new object (ns/n; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured \
             object to apps/v1, Kind=Deployment: quantities must match the regular expression '^([+-]?[0-9.]+)$'",
        );
        assert!(is_refusal(&senseless));
        assert_eq!(
            describe(&senseless),
            "the API server doesn't take it: quantities must match the regular expression '^([+-]?[0-9.]+)$'"
        );
        let failing = answer(500, "etcdserver: request timed out");
        assert!(!is_refusal(&failing));
        assert_eq!(
            describe(&failing),
            "the API server fails (500): etcdserver: request timed out"
        );
        assert!(is_refusal(&answer(422, "no")) && is_refusal(&answer(403, "no")));
        assert!(!is_refusal(&answer(429, "later")) && !is_refusal(&answer(409, "again")));
    }
}
