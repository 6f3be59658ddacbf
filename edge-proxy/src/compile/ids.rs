//! Names to small stable numbers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Gives every name a number and keeps it until [`Ids::retain`] frees it.
#[derive(Debug, Default)]
pub struct Ids {
    by_name: FxHashMap<Arc<str>, u32>,
    names: Vec<Option<Arc<str>>>,
    free: Vec<u32>,
}

impl Ids {
    /// The number of a name, a new one if it has none.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let name: Arc<str> = name.into();
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.names.push(None);
                u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.names[id as usize] = Some(name.clone());
        self.by_name.insert(name, id);
        id
    }

    /// The name of a number.
    pub fn name(&self, id: u32) -> Option<&Arc<str>> {
        self.names.get(id as usize)?.as_ref()
    }

    /// One more than the largest number given out.
    pub fn span(&self) -> usize {
        self.names.len()
    }

    /// How many names have a number.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True when no name has a number.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Frees the numbers that are not in use. A snapshot that still holds an old meaning of a number also holds the
    /// clusters that belong to it, so giving the number to another name later can't mix them up.
    pub fn retain(&mut self, in_use: impl Fn(u32) -> bool) {
        for (id, slot) in (0_u32..).zip(self.names.iter_mut()) {
            if !in_use(id)
                && let Some(name) = slot.take()
            {
                self.by_name.remove(&name);
                self.free.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_until_nobody_uses_it() {
        let mut ids = Ids::default();
        let (a, b) = (ids.intern("a"), ids.intern("b"));
        assert_eq!((ids.intern("a"), ids.name(b).map(|name| &**name)), (a, Some("b")));
        ids.retain(|id| id == b);
        assert_eq!((ids.name(a), ids.len()), (None, 1));
        assert_eq!((ids.intern("c"), ids.intern("b"), ids.span()), (a, b, 2));
    }
}
