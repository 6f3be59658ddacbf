//! What a history ends in, and how two engines are compared.

use super::history::{Edit, Engine, World};
use edge_translate::Translation;

impl World {
    /// What a history ends in.
    pub(crate) fn after(edits: &[Edit]) -> Self {
        let mut world = Self::empty();
        for edit in edits {
            world.apply(edit);
        }
        world
    }

    /// What lies outside the objects, as edits.
    pub(crate) fn outside(&self) -> impl Iterator<Item = Edit> {
        let held = self.held.iter().map(|port| Edit::Hold(*port, true));
        [Edit::Tell(self.now)].into_iter().chain(held)
    }

    /// Translates it from scratch.
    pub(crate) fn translate(&self) -> Engine {
        let mut engine = Engine::new(self.configuration);
        self.outside().for_each(|edit| engine.take(&edit));
        for object in self.objects.values() {
            engine.take(&Edit::Put(object.clone()));
        }
        engine.translate();
        engine
    }

    /// An engine that knew this world before an edit, and what it gave then.
    pub(crate) fn edited(&self, edit: &Edit) -> (Engine, Translation) {
        let mut engine = self.translate();
        let before = engine.translation.clone();
        engine.take(edit);
        engine.translate();
        (engine, before)
    }
}

impl Engine {
    /// The first thing that two engines say differently; none when they say the same.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let (mine, others) = (self.translator.statuses(), other.translator.statuses());
        if self.asked != other.asked {
            return Some(format!("asked {:?} against {:?}", self.asked, other.asked));
        }
        if self.fleets() == other.fleets() && self.infra() == other.infra() && mine == others {
            return None;
        }
        let parts = [
            ("fleets", self.fleet_text(), other.fleet_text()),
            ("infra", pretty(self.infra()), pretty(other.infra())),
            ("statuses", format!("{mine:#?}"), format!("{others:#?}")),
        ];
        let found = parts.iter().find_map(|(part, a, b)| differing_lines(part, a, b));
        Some(found.unwrap_or_else(|| "something that doesn't show in text".to_owned()))
    }

    /// The fleets as they are written.
    pub(crate) fn fleet_text(&self) -> String {
        pretty(self.fleets())
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

/// The first line in which two texts differ, with what is around it.
pub(crate) fn differing_lines(part: &str, a: &str, b: &str) -> Option<String> {
    let line = a.lines().zip(b.lines()).position(|(a, b)| a != b);
    let line = line.or_else(|| (a.len() != b.len()).then(|| a.lines().count().min(b.lines().count())))?;
    let around = |text: &str| {
        let lines: Vec<&str> = text.lines().skip(line.saturating_sub(3)).take(8).collect();
        lines.join("\n")
    };
    Some(format!(
        "{part} differ at line {}:\n{}\n--- against ---\n{}",
        line + 1,
        around(a),
        around(b)
    ))
}
