//! What translation wants to know of the world outside the resources, and what it is told.
//!
//! A unit that needs such knowledge asks a [`Question`]; a translation says which questions came up and which are no
//! longer asked, and whoever runs it answers with a [`Fact`], when and if it can. Nothing waits: until then what depends
//! on the answer is judged without it. So the clock, documents from elsewhere and the like are data like all else, and a
//! run can be repeated.

use crate::api::Timestamp;

/// Something that translation wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// When this time has come. Those that have passed stay on the list, in case the clock is set back.
    Time(Timestamp),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is this time. Worth telling at the beginning, and when a time that was asked for has come: what was asked for
    /// between the last time told and this one is looked at again, and nothing else.
    Time(Timestamp),
}

/// What translation wants to be told, as the difference to the translation before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Questions that came up, sorted.
    pub added: Vec<Question>,
    /// Questions that nobody asks any more, sorted.
    pub removed: Vec<Question>,
}
