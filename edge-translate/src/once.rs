//! One translation of one input, for whoever has all of it at once: a check of files, a page in a browser, a test.
//!
//! [`translate`] takes texts, [`Once`] says more about how. Who is told of changes as they happen keeps a
//! [`Translator`](crate::Translator), which gives the same.

use crate::{
    api::{ObjectKey, Timestamp},
    change::Change,
    engine::Translator,
    fact::{Answers, Fact},
    load::{self, Limits, LoadFinding, Loaded, LoadedObject, Severity, Source},
    settings::Settings,
    status::{Problem, Status, StatusBody},
    translation::Translation,
};
use edge_ir::{Executor, Fleet, FleetKey, PatchFailure};
use std::{collections::BTreeMap, sync::Arc};

/// Translates texts, in the order of their names, as a controller with these settings would. Certificates are not
/// judged by the time: for that see [`Once::at`].
pub fn translate(texts: &[Source<'_>], settings: &Settings) -> Outcome {
    let once = Once::new(settings.clone());
    let loaded = once.load(texts);
    once.run(loaded)
}

/// How to translate.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Once {
    /// The controller's settings.
    pub settings: Settings,
    /// How texts are read.
    pub limits: Limits,
    /// The time by which certificates are judged; without it, they aren't.
    pub now: Option<Timestamp>,
    /// What stands at URLs and in images that policies make a controller fetch; of others their policies wait.
    pub answers: Answers,
    /// Who runs what can be split; without one, all of it runs where it is called.
    pub executor: Option<Arc<dyn Executor>>,
}

/// What lowering a fleet came to: the patches that could not be applied, in their order.
pub type Failures = Arc<Vec<PatchFailure>>;

/// Everything that became of an input.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The objects read, in the order of the input.
    pub objects: Vec<LoadedObject>,
    /// What is wrong or odd in the text, and objects that lead to nothing of ours.
    pub findings: Vec<LoadFinding>,
    /// Fleets, infrastructure, and the status of every object.
    pub translation: Translation,
}

impl Once {
    /// With these settings, the usual limits, and no time.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Judges certificates by this time.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self }
    }

    /// Lets this executor run what can be split.
    #[must_use]
    pub fn run_by(self, executor: Arc<dyn Executor>) -> Self {
        Self {
            executor: Some(executor),
            ..self
        }
    }

    /// Reads texts in the order of their names, which decides who wins where an object stands in two of them.
    pub fn load(&self, texts: &[Source<'_>]) -> Loaded {
        let mut texts: Vec<&Source<'_>> = texts.iter().collect();
        texts.sort_by_key(|source| source.name);
        let limits = Limits {
            custom: self.settings.custom_kinds(),
            ..self.limits.clone()
        };
        load::merge_files(texts.into_iter().map(|source| load::load(source, &limits)))
    }

    /// Translates what was loaded. What EdgePatchPolicies come to is not known: see [`Once::run_lowered`].
    pub fn run(&self, loaded: Loaded) -> Outcome {
        self.run_lowered(loaded, |_, _| None)
    }

    /// Translates what was loaded, and hands each fleet to `lower`, which tells which of its patches failed; none if
    /// the fleet has none, or nobody tried. Statuses say so then.
    pub fn run_lowered(
        &self,
        loaded: Loaded,
        mut lower: impl FnMut(&FleetKey, &Arc<Fleet>) -> Option<Failures>,
    ) -> Outcome {
        let mut translator = Translator::new(self.settings.clone());
        if let Some(executor) = &self.executor {
            translator = translator.run_by(Arc::clone(executor));
        }
        for loaded in &loaded.objects {
            translator.apply(Change::Put(loaded.object.clone()));
        }
        if let Some(now) = self.now {
            translator.apply(Change::Fact(Fact::Time(now)));
        }
        let mut translation = translator.translate_with(&self.answers);
        for (key, fleet) in &translation.fleets {
            let failures = lower(key, fleet);
            translator.apply(Change::Fact(Fact::Patched(key.clone(), failures)));
        }
        // What patches came to is said of their policies, and of nothing else.
        let after = translator.translate().statuses;
        let is_later = |key: &ObjectKey| after.binary_search_by(|(later, _)| later.cmp(key)).is_ok();
        translation.statuses.retain(|(key, _)| !is_later(key));
        translation.statuses.extend(after);
        translation.statuses.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut findings = loaded.findings;
        findings.extend(unattached(&loaded.objects, &translation));
        Outcome {
            objects: loaded.objects,
            findings,
            translation,
        }
    }
}

impl Outcome {
    /// What is said about each object, sorted by object. [`status::merge`](crate::status::merge) makes YAML of it.
    pub fn statuses(&self) -> impl Iterator<Item = (&ObjectKey, &Status)> {
        let all = self.translation.statuses.iter();
        all.filter_map(|(key, status)| Some((key, &**status.as_ref()?)))
    }

    /// What statuses say isn't in force as it was meant, sorted by object.
    pub fn problems(&self) -> impl Iterator<Item = (&ObjectKey, Problem<'_>)> {
        // What leads to nothing of ours is among the findings.
        let ours = self
            .statuses()
            .filter(|(_, status)| !matches!(status.body, StatusBody::Unattached(_)));
        ours.flat_map(|(key, status)| status.problems().into_iter().map(move |problem| (key, problem)))
    }

    /// Whether every text could be read, and everything in it is in force as it was meant.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.translation.faults.is_empty() && self.problems().next().is_none()
    }
}

/// A warning for each object that leads to nothing of ours: no status has room for it.
fn unattached(objects: &[LoadedObject], translation: &Translation) -> Vec<LoadFinding> {
    let told = translation
        .statuses
        .iter()
        .filter_map(|(key, status)| match &status.as_ref()?.body {
            StatusBody::Unattached(reasons) => Some((key, reasons)),
            _ => None,
        });
    let told: BTreeMap<&ObjectKey, &Vec<String>> = told.collect();
    if told.is_empty() {
        return Vec::new();
    }
    let findings = objects.iter().flat_map(|loaded| {
        let key = loaded.object.key();
        let reasons = told.get(&key).copied().into_iter().flatten();
        reasons.map(move |reason| LoadFinding {
            severity: Severity::Warning,
            file: loaded.file.clone(),
            line: loaded.line,
            column: 1,
            object: Some(key.clone()),
            message: reason.clone(),
        })
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: default }
spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
";
    const ROUTE: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: www, namespace: default }
spec: { parentRefs: [{ name: gw }], rules: [{ backendRefs: [{ name: absent, port: 80 }] }] }
";

    fn texts<'a>(texts: &[(&'a str, &'a str)]) -> Vec<Source<'a>> {
        texts.iter().map(|(name, text)| Source { name, text }).collect()
    }

    #[test]
    fn what_is_not_in_force_is_told() {
        let outcome = translate(&texts(&[("a", GATEWAY), ("b", ROUTE)]), &Settings::default());
        assert!(outcome.findings.is_empty() && !outcome.is_clean());
        let said: Vec<String> = outcome
            .problems()
            .map(|(key, problem)| format!("{key}: {}", problem.message))
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("HTTPRoute/default/www: ") && said[0].contains("absent"));
        assert_eq!(outcome.statuses().count(), 3);
        assert!(translate(&texts(&[("a", GATEWAY)]), &Settings::default()).is_clean());
    }

    #[test]
    fn of_an_object_in_two_texts_the_first_by_name_is_in_force() {
        let other = GATEWAY.replace("port: 80", "port: 81");
        let outcome = translate(&texts(&[("b", &other), ("a", GATEWAY)]), &Settings::default());
        assert_eq!(outcome.findings.len(), 2);
        let listeners = &outcome.translation.fleets["default/gw"].listeners;
        assert_eq!(listeners.iter().map(|l| &*l.name).collect::<Vec<_>>(), ["tcp-80"]);
    }
}
