//! What translation wants to know of the world outside the resources, and what it is told.
//!
//! A unit that needs such knowledge asks a [`Question`]; a translation says which questions came up and which are no
//! longer asked, and whoever runs it answers with a [`Fact`], when and if it can. Nothing waits: until then what
//! depends on the answer is judged without it. So the clock, documents from elsewhere and the like are data like all
//! else, and a run can be repeated.

use crate::api::Timestamp;
use edge_ir::{FleetKey, IpFamily, PatchFailure, PortProtocol};
pub use module::{FoundModule, ImageReference, ImageVersion, Module, ModuleLook, ModuleSource, WantedModule};
use std::sync::Arc;

mod answers;
mod module;

pub use answers::Answers;
pub(crate) use module::sha256;

/// Something that translation wants to be told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// When this time has come. Those that have passed stay on the list, in case the clock is set back.
    Time(Timestamp),
    /// Whether somebody else holds a port that a listener asks for.
    Port(MachinePort),
    /// What text stands at a URL.
    Document(Arc<str>),
    /// What Wasm module is to be had.
    Module(Arc<WantedModule>),
}

impl Question {
    /// Whether a server elsewhere is asked, so that the answer takes its time and may never come.
    pub const fn is_fetched(&self) -> bool {
        match self {
            Self::Document(_) | Self::Module(_) => true,
            Self::Time(_) | Self::Port(_) => false,
        }
    }
}

/// What came of fetching a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// Its text.
    Text(Arc<str>),
    /// Nothing, for this reason: part of a sentence that begins with what was fetched.
    Failed(Arc<str>),
}

/// A port of the machine that proxies share with whatever else runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachinePort {
    /// Transport protocol.
    pub protocol: PortProtocol,
    /// Its number.
    pub number: u16,
    /// On which addresses it is to be bound: always on all of a family.
    pub family: IpFamily,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is this time. Worth telling at the beginning, and when a time that was asked for has come: what was asked for
    /// between the last time told and this one is looked at again, and nothing else.
    Time(Timestamp),
    /// Who holds a port, in words for people, or that nobody does who keeps us from it. A port of which nobody told
    /// since the question came up is taken for free.
    Port(MachinePort, Option<Arc<str>>),
    /// What stands at a URL. What was told stays until something else is told, or nobody asks any more.
    Document(Arc<str>, Fetched),
    /// What came of fetching a Wasm module, in the same way.
    Module(Arc<WantedModule>, FoundModule),
    /// Which patches of a fleet could not be applied to what it was lowered to, or that it has no patches (any more).
    /// Nobody asks: who lowers a fleet with patches tells, after each time, and translates again for the statuses.
    /// Until then no EdgePatchPolicy of it says `Programmed`.
    Patched(FleetKey, Option<Arc<Vec<PatchFailure>>>),
}

impl Fact {
    /// What it answers; none of what is told without being asked, and of the time, which answers whatever has passed.
    pub fn question(&self) -> Option<Question> {
        match self {
            Self::Port(port, _) => Some(Question::Port(*port)),
            Self::Document(url, _) => Some(Question::Document(Arc::clone(url))),
            Self::Module(wanted, _) => Some(Question::Module(Arc::clone(wanted))),
            Self::Time(_) | Self::Patched(..) => None,
        }
    }
}

/// What translation wants to be told, as the difference to the translation before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionChanges {
    /// Questions that came up, sorted.
    pub added: Vec<Question>,
    /// Questions that nobody asks any more, sorted.
    pub removed: Vec<Question>,
}
