//! What extension services make of fleets, as far as they have answered; without such services, the fleets as they are.
//!
//! What changed waits a moment for its answers, so that an edit is served at once and as a whole. When a service takes
//! longer than that the rest goes on, and what it hasn't answered for is as it was.

use super::Outputs;
use crate::{
    extensions::terms::hooks_of_all,
    metrics::Gauge,
    state::{Extensions, KeptFrom, Refuser, Rejection, RejectionKey, Rejections, ServiceTerms, ServiceTls},
};
use edge_ir::{Fleet, FleetKey};
use edge_translate::{
    Settings, Translator,
    api::{Kind, Object, ObjectKey, SecretData, SecretRef},
    config::extension::{ExtensionManager, ExtensionTls},
};
use edge_xds::{
    hooks::{Answers, Applied, Cause, HeldResource, Hooked, Hooks, Outcome, QuestionKey, Shown},
    snapshot::Snapshot,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a change waits for answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// The services, and what is known of their answers.
pub(super) struct Hooking {
    managers: Arc<[ExtensionManager]>,
    /// Namespace of Secrets that are named without one.
    home: Arc<str>,
    hooks: Hooks,
    answers: Answers,
    services: Arc<[ServiceTerms]>,
    fleets: BTreeMap<FleetKey, (Hooked, ShownWith)>,
    held: Rejections,
    wait: Wait,
}

/// Whether what changed waits for answers.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// All is answered.
    None,
    Until(Instant),
    /// It has waited long enough.
    Over,
}

/// A fleet, what it was lowered to, and what of that is served so far.
type BuiltAndServed<'a> = (&'a Arc<Fleet>, &'a Arc<Snapshot>, &'a Arc<Snapshot>);

/// What services are shown beside the resources of a fleet, while it is the same.
struct ShownWith {
    fleet: Arc<Fleet>,
    shown: Arc<Shown>,
}

/// What is to be served.
pub(super) struct Served {
    pub(super) snapshots: Vec<(FleetKey, Arc<Snapshot>)>,
    /// Some service hasn't said anything yet.
    pub(super) must_wait: bool,
}

impl ShownWith {
    fn new(fleet: &Arc<Fleet>) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            shown: Arc::new(Shown::of(fleet)),
        }
    }

    fn renewed(self, fleet: &Arc<Fleet>) -> Self {
        match Arc::ptr_eq(&self.fleet, fleet) {
            true => self,
            false => Self::new(fleet),
        }
    }
}

impl Hooking {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            managers: Arc::clone(&settings.extensions),
            home: Arc::clone(&settings.controller_namespace),
            hooks: hooks_of_all(&*settings.extensions),
            answers: Answers::default(),
            services: Arc::default(),
            fleets: BTreeMap::new(),
            held: Rejections::new(),
            wait: Wait::None,
        }
    }

    /// Takes what the configuration says now. What other services said doesn't count any more; what was good stays.
    pub(super) fn follow(&mut self, settings: &Settings) {
        if self.managers == settings.extensions {
            return;
        }
        let fleets = std::mem::take(&mut self.fleets);
        let mut answers = std::mem::take(&mut self.answers);
        answers.forget();
        *self = Self {
            fleets,
            answers,
            ..Self::new(settings)
        };
        self.fleets.values_mut().for_each(|(hooked, _)| hooked.renew());
    }

    /// Takes what came of questions.
    pub(super) fn take(&mut self, answers: Vec<(QuestionKey, u64, Outcome)>) {
        for (key, number, outcome) in answers {
            self.answers.take(key, number, outcome);
        }
    }

    /// How long until what hasn't been answered isn't waited for any more.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self.wait {
            Wait::Until(end) => Some(end.saturating_duration_since(Instant::now())),
            Wait::None | Wait::Over => None,
        }
    }

    /// Whether what hasn't been answered isn't waited for any more.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.wait, Wait::Until(end) if end <= Instant::now())
    }

    /// What is served of what fleets were lowered to, given what is served of them now.
    pub(super) fn apply<'a>(
        &mut self,
        fleets: impl Iterator<Item = (&'a FleetKey, BuiltAndServed<'a>)>,
        translator: &Translator,
    ) -> Served {
        if self.hooks.hooks.is_empty() {
            self.fleets.clear();
            self.held.clear();
            self.services = Arc::default();
            return Served {
                snapshots: fleets
                    .map(|(key, (_, built, _))| (key.clone(), Arc::clone(built)))
                    .collect(),
                must_wait: false,
            };
        }
        self.services = self
            .managers
            .iter()
            .map(|manager| terms(manager, &self.home, translator))
            .collect();
        self.answers.begin();
        self.held.clear();
        let mut before = std::mem::take(&mut self.fleets);
        let (mut looks, mut is_pending, mut must_wait) = (Vec::new(), false, false);
        for (key, (fleet, built, served)) in fleets {
            let (mut hooked, shown) = match before.remove(key) {
                Some((hooked, shown)) => (hooked, shown.renewed(fleet)),
                None => (Hooked::over(served), ShownWith::new(fleet)),
            };
            let Applied {
                snapshot,
                held,
                is_pending: is_unanswered,
            } = hooked.apply(built, &shown.shown, &self.hooks, &mut self.answers);
            is_pending |= is_unanswered;
            let is_out_of_reach = |held: &HeldResource| held.problem.cause == Cause::Unreachable;
            must_wait |= is_unanswered || held.iter().any(is_out_of_reach);
            self.held.extend(rejections(key, held));
            looks.push((key.clone(), Arc::clone(served), snapshot, is_unanswered));
            self.fleets.insert(key.clone(), (hooked, shown));
        }
        self.answers.end();
        self.wait = self.next_wait(is_pending);
        let is_waiting = matches!(self.wait, Wait::Until(_));
        let snapshots = looks.into_iter().map(|(key, served, snapshot, is_unanswered)| {
            let served = match is_unanswered && is_waiting {
                true => served,
                false => Arc::new(snapshot),
            };
            (key, served)
        });
        Served {
            snapshots: snapshots.collect(),
            must_wait,
        }
    }

    fn next_wait(&self, is_pending: bool) -> Wait {
        let now = Instant::now();
        match (is_pending, self.wait) {
            (false, _) => Wait::None,
            (true, Wait::None) => Wait::Until(now + PATIENCE),
            (true, Wait::Until(end)) if end > now => Wait::Until(end),
            (true, Wait::Until(_) | Wait::Over) => Wait::Over,
        }
    }

    /// Says what is asked, and what isn't served as it should be.
    pub(super) fn tell(&self, outputs: &Outputs) {
        outputs.extensions.send_if_modified(|told| {
            let asked = self.answers.questions();
            let is_same = told.services == self.services
                && told.questions.len() == asked.len()
                && told
                    .questions
                    .iter()
                    .zip(asked)
                    .all(|(a, b)| (a.0, a.1.number) == (b.0, b.1.number));
            if !is_same {
                *told = Extensions {
                    services: Arc::clone(&self.services),
                    questions: asked.clone(),
                };
            }
            !is_same
        });
        outputs.metrics.set(Gauge::ExtensionHeld, self.held.len());
        outputs.rejections.send_if_modified(|all| {
            let is_ours = |key: &RejectionKey| matches!(key.from, KeptFrom::Extension(..));
            if all.iter().filter(|(key, _)| is_ours(key)).eq(&self.held) {
                return false;
            }
            all.retain(|key, _| !is_ours(key));
            all.extend(self.held.iter().map(|(key, held)| (key.clone(), held.clone())));
            true
        });
    }
}

fn rejections(fleet: &FleetKey, held: Vec<HeldResource>) -> impl Iterator<Item = (RejectionKey, Rejection)> {
    held.into_iter().enumerate().map(move |(n, held)| {
        let key = RejectionKey {
            from: KeptFrom::Extension(fleet.clone(), n),
            kind: held.kind,
            name: held.name,
        };
        let rejection = Rejection {
            fleet: fleet.clone(),
            by: Refuser::Extension,
            reason: held.problem.text,
            origins: held.origins,
        };
        (key, rejection)
    })
}

/// A service with what Secrets say of it.
fn terms(manager: &ExtensionManager, home: &str, translator: &Translator) -> ServiceTerms {
    let tls = manager.service.as_ref().and_then(|service| service.tls.as_ref());
    ServiceTerms {
        manager: manager.clone(),
        tls: tls.map(|tls| tls_of(tls, home, translator)),
    }
}

fn tls_of(tls: &ExtensionTls, home: &str, translator: &Translator) -> Result<ServiceTls, String> {
    let authorities = texts(&tls.certificate_ref, home, translator, |key| match key {
        // As in the Secrets of authorities elsewhere, and in those of kind TLS.
        "ca.crt" => Some(0),
        "tls.crt" => Some(1),
        _ => None,
    })?;
    let identity = tls.client_certificate_ref.as_ref().map(|reference| {
        let of = |wanted: &'static str| texts(reference, home, translator, move |key| (key == wanted).then_some(0));
        Ok::<_, String>((of("tls.crt")?, of("tls.key")?))
    });
    Ok(ServiceTls {
        authorities,
        identity: identity.transpose()?,
    })
}

/// The first text of a Secret in an order of its keys.
fn texts(
    reference: &SecretRef,
    home: &str,
    translator: &Translator,
    rank: impl Fn(&str) -> Option<usize>,
) -> Result<SecretData, String> {
    let key = ObjectKey::new(
        Kind::Secret,
        reference.namespace.as_deref().unwrap_or(home),
        &*reference.name,
    );
    let Some(Object::Secret(secret)) = translator.object(&key) else {
        return Err(format!("can't be spoken with: there is no {key}"));
    };
    let ranked = secret.data.iter().filter_map(|(name, text)| Some((rank(name)?, text)));
    let found = ranked.min_by_key(|(rank, _)| *rank);
    found
        .map(|(_, text)| text.clone())
        .ok_or_else(|| format!("can't be spoken with: {key} has no certificate or key for it"))
}
