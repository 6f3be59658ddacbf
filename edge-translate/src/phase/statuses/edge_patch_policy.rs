//! EdgePatchPolicy, under the Gateway or class whose proxies it patches.

use super::ancestor;
use crate::{
    api::{EdgePatchPolicy, EdgePatchType, Kind, ParentReference},
    engine::reader::Reader,
    name::{FleetId, Id, Interner, Sym},
    phase::gateways::{
        class::Class,
        gateway::{Gateway, Merge},
    },
    settings::Feature,
    status::{Condition, ParentStatus, Status},
};
use edge_ir::{Origin, PatchFailure, PatchProblem};
use std::sync::Arc;

/// The group of what may be patched.
const GROUP: &str = "gateway.networking.k8s.io";

/// The status of a policy; none inside while its target isn't ours, or isn't there.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let policy = reader.edge_patch_policy(id)?;
    let generation = policy.metadata.generation;
    Some(match judged(reader, id, policy) {
        Verdict::Said(parent, conditions) => {
            let entry = ParentStatus { parent, conditions };
            Some(ancestor::told(reader, generation, [entry]))
        }
        Verdict::Elsewhere => None,
        Verdict::Nothing(reason) => ancestor::for_nobody(generation, vec![format!("spec.targetRef: {reason}")]),
    })
}

/// What is to be said of a policy.
enum Verdict {
    /// This, under what it hangs under.
    Said(Arc<ParentReference>, Vec<Condition>),
    /// Nothing: what it names is another controller's.
    Elsewhere,
    /// It is for nothing, for this reason.
    Nothing(String),
}

/// What a policy hangs under, and what is said of it there.
fn judged(reader: &Reader<'_>, id: Id, policy: &EdgePatchPolicy) -> Verdict {
    let target = &policy.spec.target_ref;
    let gateway = Id {
        namespace: id.namespace,
        name: reader.sym(&target.name),
    };
    let is_standard = target.group == GROUP;
    if is_standard && target.kind == "GatewayClass" {
        return of_class(reader, id, policy, gateway.name);
    }
    let member = match reader.gateway(gateway).map(|gateway| &**gateway) {
        Some(Gateway::Member(member)) => member,
        Some(Gateway::Foreign) => return Verdict::Elsewhere,
        None => {
            let (namespace, name) = (&policy.metadata.namespace, &target.name);
            return Verdict::Nothing(format!("there is no Gateway {namespace}/{name}"));
        }
    };
    if member.merge == Merge::Class {
        // The fleet is the class's, and so are its patches.
        let reference = ancestor::whole(reader, Kind::GatewayClass, class_id(gateway.name));
        return Verdict::Said(reference, vec![not_accepted(wrong_kind(policy, "GatewayClass"))]);
    }
    let conditions = match is_standard && target.kind == "Gateway" {
        true => in_force(reader, id, policy, member.fleet),
        false => vec![not_accepted(wrong_kind(policy, "Gateway"))],
    };
    Verdict::Said(ancestor::whole(reader, Kind::Gateway, gateway), conditions)
}

/// The same for a policy that names a class. Of one whose Gateways don't share a fleet no status says anything.
fn of_class(reader: &Reader<'_>, id: Id, policy: &EdgePatchPolicy, class: Sym) -> Verdict {
    let name = &policy.spec.target_ref.name;
    let merge = match reader.class(class).map(|class| &**class) {
        Some(Class::Foreign) => return Verdict::Elsewhere,
        Some(ours) => Merge::of(ours.proxy(), reader.settings().placement),
        None => {
            let message = format!(
                "TargetRef.Group:{GROUP} TargetRef.Kind:GatewayClass TargetRef.Namespace:{} TargetRef.Name:{name} \
                 not found or not accepted (MergeGateways=true).",
                policy.metadata.namespace
            );
            let reference = ancestor::whole(reader, Kind::GatewayClass, class_id(class));
            return Verdict::Said(reference, vec![not_accepted(message)]);
        }
    };
    match merge {
        Merge::Class => Verdict::Said(
            ancestor::whole(reader, Kind::GatewayClass, class_id(class)),
            in_force(reader, id, policy, FleetId(class)),
        ),
        Merge::Own => Verdict::Nothing(format!(
            "the Gateways of GatewayClass {name} don't share a fleet (mergeGateways): name a Gateway"
        )),
    }
}

fn class_id(name: Sym) -> Id {
    Id {
        namespace: Interner::EMPTY,
        name,
    }
}

fn wrong_kind(policy: &EdgePatchPolicy, supported: &str) -> String {
    let target = &policy.spec.target_ref;
    format!(
        "TargetRef.Group:{} TargetRef.Kind:{}, only TargetRef.Group:{GROUP} and TargetRef.Kind:{supported} is supported.",
        target.group, target.kind
    )
}

fn not_accepted(message: String) -> Condition {
    Condition::no("Accepted", "Invalid", message)
}

/// What is said of a policy whose target is right.
fn in_force(reader: &Reader<'_>, id: Id, policy: &EdgePatchPolicy, fleet: FleetId) -> Vec<Condition> {
    if reader.settings().patch_api == Feature::Disabled {
        let message = "EdgePatchPolicy is disabled in the EdgeGateway configuration";
        return vec![Condition::no("Accepted", "Disabled", message)];
    }
    if let EdgePatchType::Other(kind) = &policy.spec.r#type {
        return vec![not_accepted(format!("unsupported patch type {kind}"))];
    }
    let accepted = Condition::yes("Accepted", "Accepted", "Policy has been accepted.");
    if policy.spec.json_patches.is_empty() {
        return vec![accepted, programmed(&[])];
    }
    let (namespace, name) = (reader.text(id.namespace), reader.text(id.name));
    let is_own = |origin: &Origin| origin.namespace == namespace && origin.name == name;
    let Some(failures) = reader.patch_failures(fleet) else {
        // Nobody applied the patches yet.
        return vec![accepted];
    };
    let own: Vec<&PatchFailure> = failures.iter().filter(|failure| is_own(&failure.origin)).collect();
    vec![accepted, programmed(&own)]
}

fn programmed(failures: &[&PatchFailure]) -> Condition {
    let missing = |failure: &&PatchFailure| match &failure.problem {
        PatchProblem::NotFound(resource) => Some(resource.clone()),
        PatchProblem::Invalid(_) => None,
    };
    let invalid = |failure: &&PatchFailure| match &failure.problem {
        PatchProblem::Invalid(message) => Some(format!("spec.jsonPatches[{}]: {message}", failure.index)),
        PatchProblem::NotFound(_) => None,
    };
    let missing: Vec<String> = failures.iter().filter_map(missing).collect();
    let mut problems: Vec<String> = failures.iter().filter_map(invalid).collect();
    let not_found = (!missing.is_empty()).then(|| format!("Unable to find xds resources: {}", missing.join(", ")));
    match (problems.is_empty(), not_found) {
        (true, None) => Condition::yes("Programmed", "Programmed", "Patches have been successfully applied."),
        (true, Some(not_found)) => Condition::no("Programmed", "ResourceNotFound", not_found),
        (false, not_found) => {
            problems.extend(not_found);
            Condition::no("Programmed", "Invalid", problems.join("\n"))
        }
    }
}
