//! Who may send a request (Envoy's `rbac`).

use http::StatusCode;

use crate::config::access::{AccessRules, Facts};
use crate::http::Arrived;
use crate::http::attributes::Attributes;
use crate::http::filters::Flow;

/// Lets a request through that the rules allow.
pub(super) fn request(rules: &AccessRules, arrived: &Arrived<'_>) -> Flow {
    let (connection, head) = (&arrived.exchange.connection, &arrived.head);
    let client = head.client;
    let attributes = Attributes::of(arrived);
    let (is_let, policy) = connection.with_facts(|facts| {
        rules.judge(&Facts {
            client: client.unwrap_or(facts.client),
            request: Some((head.view(), &arrived.metadata)),
            attributes: Some(&attributes),
            ..facts
        })
    });
    if is_let {
        return Flow::Continue;
    }
    let answer = Flow::refuse(arrived, StatusCode::FORBIDDEN, "RBAC: access denied", "");
    arrived
        .exchange
        .note(|record| record.details = rules.why_denied(policy).into());
    answer
}
