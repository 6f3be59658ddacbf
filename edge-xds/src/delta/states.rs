//! What one connection has of each kind.

use super::kind::KindState;
use crate::snapshot::ResourceType;
use std::ops::{Index, IndexMut};

/// The state of each kind, in the order of [`ResourceType::ALL`].
#[derive(Debug)]
pub(super) struct KindStates([KindState; 5]);

impl KindStates {
    /// Nothing is asked for yet.
    pub(super) fn new() -> Self {
        Self(ResourceType::ALL.map(KindState::new))
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KindState> {
        self.0.iter()
    }

    /// All of them, each with its kind.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ResourceType, &mut KindState)> {
        ResourceType::ALL.into_iter().zip(&mut self.0)
    }
}

impl Index<ResourceType> for KindStates {
    type Output = KindState;

    fn index(&self, kind: ResourceType) -> &KindState {
        &self.0[kind as usize]
    }
}

impl IndexMut<ResourceType> for KindStates {
    fn index_mut(&mut self, kind: ResourceType) -> &mut KindState {
        &mut self.0[kind as usize]
    }
}
