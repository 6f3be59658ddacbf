//! What is wrong with a listener, and the conditions that say so.

use crate::{api::Kind, status::Condition};
use std::borrow::Cow;

/// One thing that is wrong with a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    /// The condition it belongs to.
    pub(crate) condition: Condition,
    /// What it costs.
    effect: Effect,
}

/// What a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The listener doesn't serve.
    Stops,
    /// It serves with what is left.
    Leaves,
    /// Nothing.
    Warns,
}

impl Finding {
    fn stops(condition: Condition) -> Self {
        let effect = Effect::Stops;
        Self { condition, effect }
    }

    /// Makes `Programmed` false.
    pub(crate) fn programmed(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::stops(Condition::no("Programmed", reason, message))
    }

    /// Makes `Accepted` false.
    pub(crate) fn accepted(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::stops(Condition::no("Accepted", reason, message))
    }

    /// Makes `ResolvedRefs` false.
    pub(crate) fn resolved_refs(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::stops(Condition::no("ResolvedRefs", reason, message))
    }

    /// Makes `Conflicted` true.
    pub(crate) fn conflicted(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::stops(Condition::yes("Conflicted", reason, message))
    }

    /// Warns without stopping anything.
    pub(crate) fn warning(condition: Condition) -> Self {
        let effect = Effect::Warns;
        Self { condition, effect }
    }

    /// The same of a part of what the listener refers to, where the rest can be used.
    pub(crate) fn that_leaves_it_serving(self) -> Self {
        let effect = Effect::Leaves;
        Self { effect, ..self }
    }

    fn is_warning(&self) -> bool {
        self.effect == Effect::Warns
    }
}

/// Whether findings leave the listener on the data plane.
pub(super) fn is_serving(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.effect != Effect::Stops)
}

/// Condition that warns of names that several listeners share.
pub(crate) const OVERLAP: &str = "OverlappingTLSConfig";

/// Condition that warns of certificates that clients won't take yet, or no longer.
pub(crate) const OUT_OF_DATE: &str = "CertificateOutOfDate";

/// Text of conditions that only point at others.
const SEE_OTHERS: &str = "Listener is invalid, see other Conditions for details.";

/// Makes conditions out of findings, adding what those imply.
pub(super) fn complete(findings: Vec<Finding>, holder: Kind) -> Vec<Condition> {
    let is_added = holder == Kind::ListenerSet;
    let programmed = || {
        Condition::yes(
            "Programmed",
            "Programmed",
            "Sending translated listener configuration to the data plane",
        )
    };
    let accepted = || Condition::yes("Accepted", "Accepted", "Listener has been successfully translated");
    let resolved = || Condition::yes("ResolvedRefs", "ResolvedRefs", "Listener references have been resolved");
    let not_programmed = || {
        let reason = if is_added { "ListenersNotValid" } else { "Invalid" };
        Condition::no("Programmed", reason, SEE_OTHERS)
    };
    let (warnings, found): (Vec<_>, Vec<_>) = findings.into_iter().partition(Finding::is_warning);
    let leaves_it_serving = is_serving(&found);
    let mut conditions = join(found);
    let only_reason = match conditions.as_slice() {
        [one] if one.kind == "ResolvedRefs" => Some(&*one.reason),
        _ => None,
    };
    match only_reason {
        None if conditions.is_empty() => {
            conditions = vec![programmed(), accepted(), resolved()];
            if is_added {
                conditions.push(Condition::no("Conflicted", "NoConflicts", "No conflicts detected"));
            }
        }
        Some(_) if leaves_it_serving => conditions.splice(0..0, [programmed(), accepted()]).for_each(drop),
        // What is referred to without leave isn't accepted.
        Some("InvalidCertificateRef") => {
            conditions.splice(0..0, [not_programmed(), accepted()]).for_each(drop);
        }
        _ => {
            let has = |kind: &str, list: &[Condition]| list.iter().any(|c| c.kind == kind);
            if !has("Programmed", &conditions) {
                conditions.insert(0, not_programmed());
            }
            if !has("ResolvedRefs", &conditions) {
                conditions.push(resolved());
            }
        }
    }
    conditions.extend(warnings.into_iter().map(|f| f.condition));
    conditions
}

/// One condition a type: messages of the same type are joined.
fn join(findings: Vec<Finding>) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = Vec::new();
    for Finding { condition, .. } in findings {
        match conditions.iter_mut().find(|c| c.kind == condition.kind) {
            Some(first) => first.message = format!("{} {}", first.message, condition.message).into(),
            None => conditions.push(condition),
        }
    }
    conditions
}
