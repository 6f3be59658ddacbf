//! Short lists of places in the table.

use super::NodeId;
use std::ops::Deref;

/// Places in the table: nearly always a few, which stand in the list itself. A node has two such lists: three places
/// take the room of a slice, and five that of a vector.
#[derive(Clone, Debug)]
pub(super) enum NodeIds<const FEW: usize> {
    /// So many of these.
    Few(u8, [NodeId; FEW]),
    /// All of them.
    #[allow(
        clippy::box_collection,
        reason = "a list of many may grow, and takes a pointer's room here"
    )]
    Many(Box<Vec<NodeId>>),
}

impl<const FEW: usize> NodeIds<FEW> {
    /// None.
    pub(super) const fn new() -> Self {
        Self::Few(0, [0; FEW])
    }

    /// Adds one behind the others.
    pub(super) fn push(&mut self, id: NodeId) {
        match self {
            Self::Few(len, ids) if usize::from(*len) < FEW => {
                ids[usize::from(*len)] = id;
                *len += 1;
            }
            Self::Few(_, ids) => {
                let mut all = Vec::with_capacity(2 * FEW);
                all.extend_from_slice(ids);
                all.push(id);
                *self = Self::Many(Box::new(all));
            }
            Self::Many(all) => all.push(id),
        }
    }
}

impl<const FEW: usize> Default for NodeIds<FEW> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const FEW: usize> Deref for NodeIds<FEW> {
    type Target = [NodeId];
    fn deref(&self) -> &[NodeId] {
        match self {
            Self::Few(len, ids) => &ids[..usize::from(*len)],
            Self::Many(all) => all,
        }
    }
}

impl<const FEW: usize> From<&[NodeId]> for NodeIds<FEW> {
    fn from(ids: &[NodeId]) -> Self {
        if ids.len() > FEW {
            return Self::Many(Box::new(ids.to_vec()));
        }
        let mut few = [0; FEW];
        few[..ids.len()].copy_from_slice(ids);
        Self::Few(ids.len() as u8, few)
    }
}

impl<const FEW: usize> PartialEq for NodeIds<FEW> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_was_put_in_however_it_came() {
        assert_eq!((size_of::<NodeIds<3>>(), size_of::<NodeIds<5>>()), (16, 24));
        let mut pushed = NodeIds::<3>::new();
        for n in 0..10 {
            let all: Vec<NodeId> = (0..n).collect();
            assert_eq!(*pushed, *all);
            assert_eq!(pushed, NodeIds::from(&*all));
            pushed.push(n);
        }
    }
}
