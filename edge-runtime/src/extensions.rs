//! Calls to extension services: what the world asks is asked, so many at a time, and what comes of it is told.
//!
//! The world decides what is asked and what is served meanwhile (`edge_xds::hooks`); it never waits. A question that
//! was answered well is over. One that a service fails over is asked again after growing pauses, and at once when the
//! service, having been out of reach, answers again.

use crate::{
    backoff::Backoff,
    due,
    metrics::Metrics,
    state::{Extensions, Input, ServiceTerms},
    task::Stop,
};
use edge_xds::hooks::{Cause, Outcome, PendingQuestion, QuestionKey};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

mod messages;
mod service;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

use service::Services;

/// How many are asked at a time.
const AT_ONCE: usize = 32;
/// Answers that are told together at most.
const TOGETHER: usize = 1024;
/// Pauses after failures.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// A question that stands.
struct Call {
    asked: PendingQuestion,
    /// When it is to be asked; none while it is, and when it is over.
    due: Option<Instant>,
    pauses: Backoff,
    /// What was told last.
    told: Option<Outcome>,
}

/// All questions that stand.
#[derive(Default)]
struct Table(BTreeMap<QuestionKey, Call>);

impl Table {
    /// Takes down what is asked now.
    fn follow(&mut self, asked: &BTreeMap<QuestionKey, PendingQuestion>, now: Instant) {
        self.0
            .retain(|key, call| asked.get(key).is_some_and(|asked| asked.number == call.asked.number));
        for (key, asked) in asked {
            self.0.entry(*key).or_insert_with(|| Call {
                asked: asked.clone(),
                due: Some(now),
                pauses: PAUSES,
                told: None,
            });
        }
    }

    /// What is to be asked now, so many at most; it counts as being asked.
    fn take_due(&mut self, now: Instant, room: usize) -> Vec<(QuestionKey, PendingQuestion)> {
        let due = self.0.iter_mut();
        let due = due.filter(|(_, call)| call.due.is_some_and(|due| due <= now));
        let due = due.take(room).map(|(key, call)| {
            call.due = None;
            (*key, call.asked.clone())
        });
        due.collect()
    }

    /// When there is something to ask next.
    fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|call| call.due).min()
    }

    /// Takes what came of a question; gives it where it is news.
    fn take(&mut self, (key, number): (QuestionKey, u64), outcome: Outcome, now: Instant) -> Option<Outcome> {
        let call = self.0.get_mut(&key).filter(|call| call.asked.number == number)?;
        call.due = outcome.problem.as_ref().map(|_| now + call.pauses.pause());
        if call.told.as_ref() == Some(&outcome) {
            return None;
        }
        call.told = Some(outcome.clone());
        Some(outcome)
    }

    /// A service answers: whatever couldn't be asked is asked now.
    fn hurry(&mut self, now: Instant) {
        for call in self.0.values_mut().filter(|call| call.due.is_some()) {
            let problem = call.told.as_ref().and_then(|told| told.problem.as_ref());
            if problem.is_some_and(|problem| problem.cause == Cause::Unreachable) {
                call.due = Some(now);
                call.pauses.reset();
            }
        }
    }
}

/// Each problem once, with how many resources have it.
fn log(news: &[(QuestionKey, u64, Outcome)]) {
    let mut problems: BTreeMap<&str, usize> = BTreeMap::new();
    for problem in news.iter().filter_map(|(_, _, outcome)| outcome.problem.as_ref()) {
        *problems.entry(&problem.text).or_default() += 1;
    }
    for (text, resources) in problems {
        tracing::warn!(resources, "{text}; it is asked again");
    }
}

/// A question under way: which one, and what comes of it.
type Asking = BoxFuture<'static, ((QuestionKey, u64), Outcome)>;

/// Asks what the world asks until asked to stop.
pub async fn run(
    mut asked: watch::Receiver<Extensions>,
    world: mpsc::Sender<Input>,
    metrics: Arc<Metrics>,
    mut stop: Stop,
) {
    let (mut terms, mut services): (Arc<[ServiceTerms]>, _) = (Arc::default(), Arc::new(Services::new(&[])));
    let mut table = Table::default();
    let mut calls: FuturesUnordered<Asking> = FuturesUnordered::new();
    let mut was_out_of_reach = false;
    loop {
        let wanted = asked.borrow_and_update().clone();
        if wanted.services != terms {
            services = Arc::new(Services::new(&wanted.services));
            terms = Arc::clone(&wanted.services);
            table.hurry(Instant::now());
        }
        table.follow(&wanted.questions, Instant::now());
        for (key, asked) in table.take_due(Instant::now(), AT_ONCE.saturating_sub(calls.len())) {
            let (services, metrics) = (Arc::clone(&services), Arc::clone(&metrics));
            let call = async move { ((key, asked.number), services.ask(&asked.question, &metrics).await) };
            calls.push(call.boxed());
        }
        // What is due waits for room, which comes with the next answer.
        let next = table.next().filter(|_| calls.len() < AT_ONCE);
        let first = tokio::select! {
            () = stop.requested() => return,
            changed = asked.changed() => match changed {
                Ok(()) => continue,
                // The world is gone.
                Err(_) => return,
            },
            () = due::at(next) => continue,
            Some(answer) = calls.next() => answer,
        };
        // What has come meanwhile is one change to the world.
        let mut answers = vec![first];
        while answers.len() < TOGETHER
            && let Some(Some(answer)) = calls.next().now_or_never()
        {
            answers.push(answer);
        }
        let now = Instant::now();
        let is_out_of_reach = |outcome: &Outcome| {
            let problem = outcome.problem.as_ref();
            problem.is_some_and(|problem| problem.cause == Cause::Unreachable)
        };
        let is_any = answers.iter().any(|(_, outcome)| is_out_of_reach(outcome));
        if was_out_of_reach && !is_any {
            table.hurry(now);
        }
        was_out_of_reach = is_any;
        let news = answers.into_iter().filter_map(|(which, outcome)| {
            let outcome = table.take(which, outcome, now)?;
            Some((which.0, which.1, outcome))
        });
        let news: Vec<_> = news.collect();
        if news.is_empty() {
            continue;
        }
        log(&news);
        tokio::select! {
            () = stop.requested() => return,
            sent = world.send(Input::Answers(news)) => if sent.is_err() {
                return;
            },
        }
    }
}
