//! What many objects have alike stands once in memory: the namespace and the parentRefs of routes, and their statuses.

use crate::{
    api::{Object, ParentReference},
    status::Status,
};
use std::sync::Arc;

/// How many are remembered. Objects come by namespace and are much alike, so that a few will do, and looking through
/// them costs less than a table would.
const COUNT: usize = 8;

/// The last few of what came, each once.
#[derive(Debug)]
pub(super) struct Recent<T: ?Sized> {
    known: Vec<Arc<T>>,
    /// Which of them goes next.
    oldest: usize,
}

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            oldest: 0,
        }
    }
}

impl<T: PartialEq + ?Sized> Recent<T> {
    /// Puts what came a short while ago in the place of its equal; says whether it did.
    pub(super) fn share(&mut self, one: &mut Arc<T>) -> bool {
        if let Some(known) = self.known.iter().find(|known| **known == *one) {
            *one = Arc::clone(known);
            return true;
        }
        if self.known.len() < COUNT {
            self.known.push(Arc::clone(one));
        } else {
            self.known[self.oldest] = Arc::clone(one);
            self.oldest = (self.oldest + 1) % COUNT;
        }
        false
    }
}

/// What is shared.
#[derive(Debug, Default)]
pub(super) struct InCommon {
    namespaces: Recent<str>,
    parents: Recent<ParentReference>,
    /// What is said of objects.
    pub(super) statuses: Recent<Status>,
}

impl InCommon {
    /// Lets an object share what it has in common with others, if nobody else has it yet.
    pub(super) fn share(&mut self, object: &mut Object) {
        if let Some(metadata) = object.metadata_mut() {
            self.namespaces.share(&mut metadata.namespace);
        }
        for parent in parents(object).unwrap_or_default() {
            self.parents.share(parent);
        }
    }
}

/// What a route attaches to; none while somebody else has the object.
fn parents(object: &mut Object) -> Option<&mut [Arc<ParentReference>]> {
    Some(match object {
        Object::HttpRoute(route) => &mut Arc::get_mut(route)?.spec.parent_refs,
        Object::GrpcRoute(route) => &mut Arc::get_mut(route)?.spec.parent_refs,
        Object::TlsRoute(route) => &mut Arc::get_mut(route)?.spec.parent_refs,
        Object::TcpRoute(route) => &mut Arc::get_mut(route)?.spec.parent_refs,
        Object::UdpRoute(route) => &mut Arc::get_mut(route)?.spec.parent_refs,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_one_while_they_come_close_together() {
        let mut recent = Recent::<str>::default();
        let first: Arc<str> = "a".into();
        assert!(!recent.share(&mut Arc::clone(&first)));
        let mut second: Arc<str> = "a".into();
        assert!(recent.share(&mut second));
        assert!(Arc::ptr_eq(&first, &second));
        for n in 0..COUNT {
            assert!(!recent.share(&mut n.to_string().into()));
        }
        assert_eq!(recent.known.len(), COUNT);
        let mut third: Arc<str> = "a".into();
        assert!(!recent.share(&mut third), "what came long ago is forgotten");
        assert!(!Arc::ptr_eq(&first, &third));
    }
}
