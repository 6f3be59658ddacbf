//! Listeners between two states of a fleet.
//!
//! A proxy ignores what a route says of a filter that its chain doesn't have. Listeners are sent before route tables,
//! so a chain that lost a filter at once would serve the tables of before unguarded until the new ones arrive: a policy
//! that is replaced, or one that can't do its work any more and closes its routes, would open them for a moment. The
//! way leads over a listener that has the filters of both states; what its tables don't need any more goes once the new
//! ones are acknowledged.

use super::kind::KindState;
use crate::{
    lower::bridged,
    snapshot::{Diff, Entry, Section},
};
use std::{collections::BTreeMap, sync::Arc};

/// The listeners of a connection that are between two states, by name.
#[derive(Debug, Default)]
pub(super) struct Bridges {
    sent: BTreeMap<Arc<str>, Arc<Entry>>,
}

impl Bridges {
    /// Sends, for each listener that loses something which the tables of before may need, one that has both.
    pub(super) fn build(&mut self, listeners: &mut KindState, before: &Section, diff: &Diff, after: &Section) {
        for name in &diff.removed {
            self.sent.remove(name);
        }
        for entry in &diff.changed {
            let held = self.sent.get(&entry.name).or_else(|| before.get(&entry.name));
            match held.and_then(|held| bridged(held, entry)) {
                Some(both) if listeners.wants(&entry.name) => {
                    let both = Arc::new(both);
                    listeners.send_instead(&both);
                    self.sent.insert(Arc::clone(&entry.name), both);
                }
                _ => {
                    if self.sent.remove(&entry.name).is_some() {
                        listeners.end_trial(&entry.name, after);
                    }
                }
            }
        }
    }

    /// Nothing needs them any more: the listeners of the fleet are sent.
    pub(super) fn end(&mut self, listeners: &mut KindState, section: &Section) {
        for (name, _) in std::mem::take(&mut self.sent) {
            listeners.end_trial(&name, section);
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}
