//! What is known of all documents and modules that are asked for, and when each is to be fetched. Pure.

use super::slots::FetchSlots;
use crate::{
    backoff::{Backoff, jittered},
    state::FetchNumbers,
};
use edge_translate::{Fact, Fetched, FoundModule, ModuleLook, ModuleSource, Question, check_oidc_discovery};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// When one that is there is looked at again.
pub(super) const FRESH: Duration = Duration::from_secs(3600);
/// Pauses after failures.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// A document or module that is asked for.
struct Fetch {
    /// Which of the times that it was asked for this is.
    number: u64,
    /// When it is to be fetched; none while it is.
    due: Option<Instant>,
    pauses: Backoff,
    /// What was told last.
    told: Option<Fact>,
    /// Whether that can be used.
    is_good: bool,
}

/// Which fetch of a question: one that came up again is fetched anew.
#[derive(Clone, Debug)]
pub(super) struct FetchId {
    pub(super) question: Question,
    pub(super) number: u64,
}

/// What is known of all that is asked for.
#[derive(Default)]
pub(super) struct Schedule(BTreeMap<Question, Fetch>);

/// What became of what is asked for.
#[derive(Default)]
pub(super) struct Followed {
    /// What is known from before.
    pub(super) facts: Vec<Fact>,
    /// What nobody asks for any more, or anew.
    pub(super) dropped: Vec<Question>,
}

impl Schedule {
    /// Takes down what is asked for now. What was forgotten in between begins anew, and what is known of it `before`
    /// it was fetched is told, and fetched all the same.
    pub(super) fn follow(
        &mut self,
        asked: &FetchNumbers,
        before: impl Fn(&Question) -> Option<Fact>,
        now: Instant,
    ) -> Followed {
        let mut followed = Followed::default();
        self.0.retain(|question, fetch| {
            let stays = asked.get(question) == Some(&fetch.number);
            if !stays {
                followed.dropped.push(question.clone());
            }
            stays
        });
        for (question, number) in asked {
            self.0.entry(question.clone()).or_insert_with(|| {
                let known = before(question).filter(|_| !followed.dropped.contains(question));
                followed.facts.extend(known.clone());
                Fetch {
                    number: *number,
                    due: Some(now),
                    pauses: PAUSES,
                    is_good: known.is_some(),
                    told: known,
                }
            });
        }
        followed
    }

    /// Whether somebody asks.
    pub(super) fn is_asked(&self, question: &Question) -> bool {
        self.0.contains_key(question)
    }

    /// What is to be fetched now, as far as there are slots for it, what has waited longest first; it counts as being
    /// fetched.
    pub(super) fn take_due(&mut self, now: Instant, slots: &mut FetchSlots) -> Vec<FetchId> {
        let mut due: Vec<_> = self
            .0
            .iter_mut()
            .filter(|(_, fetch)| fetch.due.is_some_and(|due| due <= now))
            .collect();
        due.sort_by_key(|(_, fetch)| fetch.due);
        let taken = due.into_iter().filter(|(question, _)| slots.take(question));
        let taken = taken.map(|(question, fetch)| {
            fetch.due = None;
            let (question, number) = (question.clone(), fetch.number);
            FetchId { question, number }
        });
        taken.collect()
    }

    /// When there is something to fetch next, as far as there are slots: they come with the next answer.
    pub(super) fn next(&self, slots: &FetchSlots) -> Option<Instant> {
        let all = self.0.iter().filter(|(question, _)| slots.have_room(question));
        all.filter_map(|(_, fetch)| fetch.due).min()
    }

    /// Takes what came of a fetch; gives what is new about it.
    pub(super) fn take(&mut self, id: &FetchId, result: Result<Fact, String>, now: Instant) -> Option<Fact> {
        let question = &id.question;
        let fetch = self.0.get_mut(question).filter(|fetch| fetch.number == id.number)?;
        let (fact, flaw) = match result {
            Ok(fact) => {
                let flaw = fetch.flaw(&fact);
                (Some(fact), flaw)
            }
            Err(why) => (failed(question, &why), Some(why)),
        };
        match flaw {
            None => {
                fetch.pauses.reset();
                fetch.due = is_followed(question).then(|| now + jittered(FRESH));
                fetch.is_good = true;
            }
            Some(why) => {
                let pause = fetch.pauses.pause();
                fetch.due = Some(now + pause);
                let what = shown(question);
                tracing::warn!("{what} can't be fetched: {why}; it is tried again in {pause:?}");
                if fetch.is_good {
                    return None;
                }
            }
        }
        let fact = fact?;
        if fetch.told.as_ref() == Some(&fact) {
            return None;
        }
        fetch.told = Some(fact.clone());
        Some(fact)
    }

    /// The text that is in force, if it can be used.
    pub(super) fn good_text(&self, question: &Question) -> Option<&Arc<str>> {
        self.0.get(question)?.good_text()
    }
}

impl Fetch {
    fn good_text(&self) -> Option<&Arc<str>> {
        let told = self.told.as_ref().filter(|_| self.is_good)?;
        text_of(told)
    }

    /// Why what was fetched can't take the place of what is there.
    fn flaw(&self, fact: &Fact) -> Option<String> {
        let Fact::Document(url, Fetched::Text(text)) = fact else {
            return None;
        };
        let before = self.good_text().map(|text| &**text);
        check_oidc_discovery(url, text, before).err()
    }
}

fn text_of(fact: &Fact) -> Option<&Arc<str>> {
    match fact {
        Fact::Document(_, Fetched::Text(text)) => Some(text),
        _ => None,
    }
}

/// Whether what is there is looked at again.
fn is_followed(question: &Question) -> bool {
    match question {
        Question::Module(wanted) => wanted.look == ModuleLook::Again,
        Question::Document(_) | Question::Time(_) | Question::Port(_) => true,
    }
}

/// How it is called in logs: what stands behind `?` may be a secret.
fn shown(question: &Question) -> String {
    let plain = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
    match question {
        Question::Document(url) => plain(url),
        Question::Module(wanted) => match &wanted.source {
            ModuleSource::Url(url) => plain(url),
            image @ ModuleSource::Image(_) => image.to_string(),
        },
        Question::Time(_) | Question::Port(_) => "what is asked for".to_owned(),
    }
}

fn failed(question: &Question, why: &str) -> Option<Fact> {
    match question {
        Question::Document(url) => Some(Fact::Document(Arc::clone(url), Fetched::Failed(why.into()))),
        Question::Module(wanted) => Some(Fact::Module(Arc::clone(wanted), FoundModule::Failed(why.into()))),
        Question::Time(_) | Question::Port(_) => None,
    }
}
