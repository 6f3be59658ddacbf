//! What is judged offline is judged as the API server of the lab does it: the same objects are taken and refused, in
//! the same words.
//!
//! The objects are those that Gateway API's own tests try (`data/README.md`), and all of Gateway API and of our kinds
//! in our golden cases.

use crate::install::defined;
use anyhow::{Context, Result, ensure};
use e2e::{golden, lab::Lab};
use edge_admission::{Catalogue, Channel, Refusal};
use serde_json::{Value, json};

/// A judgement of theirs and of ours that differ.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
struct Difference {
    from: String,
    object: Value,
    theirs: Option<String>,
    ours: Vec<String>,
}

/// How the API server and we judge an object: a difference, or nothing.
fn compare(lab: &Lab, from: &str, mut object: Value, namespace: &str) -> Result<Option<Difference>> {
    object["metadata"]["namespace"] = json!(namespace);
    // Whoever looks after objects writes it.
    object.as_object_mut().map(|fields| fields.remove("status"));
    let Some(verdict) = Catalogue::of(Channel::Standard).judge(&object) else {
        return Ok(None);
    };
    let ours: Vec<_> = verdict.refusals.iter().map(ToString::to_string).collect();
    if !object["metadata"]["name"].is_string() {
        ensure!(!ours.is_empty(), "{from}: no name, and not refused: {object}");
        return Ok(None);
    }
    let theirs = lab.refusal(&object).with_context(|| format!("{from}: {object}"))?;
    let is_same = match &theirs {
        None => ours.is_empty(),
        // One that isn't in their words may be one of several.
        Some(message) => !ours.is_empty() && verdict.refusals.iter().all(|refusal| says(message, refusal)),
    };
    Ok((!is_same).then(|| Difference {
        from: from.to_owned(),
        object,
        theirs,
        ours,
    }))
}

/// Whether a message of the API server holds a refusal of ours.
fn says(message: &str, refusal: &Refusal) -> bool {
    if refusal.is_of_name() {
        return message.contains(&format!("unknown field \"{}\"", refusal.path));
    }
    // An object with unknown fields is not looked at any further there.
    if message.contains("strict decoding error") {
        return true;
    }
    match refusal.what.split_once("evaluating rule: ") {
        // Both tell the rule that couldn't be evaluated; the API server also what it lacked.
        Some((_, rule)) => message.contains(&format!("evaluating rule: {rule}")),
        // Of a choice among schemas the place is in the sentence alone.
        None if refusal.what.contains(" must validate ") => message.contains(&refusal.what),
        None => message.contains(&refusal.to_string()),
    }
}

#[test]
fn objects_of_the_official_tests_are_judged_alike() -> Result<()> {
    let lab = defined()?;
    let namespace = "admission-official";
    let _namespace = lab.namespace(namespace)?;
    let recorded = include_str!("data/official.jsonl");
    let (mut judged, mut differences) = (0, Vec::new());
    for (number, line) in recorded.lines().enumerate() {
        let object: Value = serde_json::from_str(line)?;
        judged += 1;
        differences.extend(compare(lab, &format!("line {}", number + 1), object, namespace)?);
    }
    ensure!(judged > 300, "only {judged} objects");
    ensure!(
        differences.is_empty(),
        "{} of {judged} are judged differently: {differences:#?}",
        differences.len()
    );
    Ok(())
}

#[test]
fn objects_of_golden_cases_are_judged_alike() -> Result<()> {
    let lab = defined()?;
    let namespace = "admission-golden";
    let _namespace = lab.namespace(namespace)?;
    let (mut judged, mut differences) = (0, Vec::new());
    for golden::Given { case, object } in golden::objects(&["input"])? {
        judged += 1;
        differences.extend(compare(lab, &case, object, namespace)?);
    }
    ensure!(judged > 1000, "only {judged} objects");
    ensure!(
        differences.is_empty(),
        "{} of {judged} are judged differently: {differences:#?}",
        differences.len()
    );
    Ok(())
}
