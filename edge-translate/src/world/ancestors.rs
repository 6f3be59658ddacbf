//! Ancestors of policies as statuses write them: each is made once, however many policies hang under it.

use super::World;
use crate::{
    api::{ParentReference, text::Symbol},
    name::Ancestor,
};
use std::sync::Arc;

impl World {
    /// An ancestor as it is written down.
    pub(crate) fn parent_reference(&self, ancestor: Ancestor) -> Arc<ParentReference> {
        let mut known = self.parent_references.borrow_mut();
        let made = known.entry(ancestor);
        Arc::clone(made.or_insert_with(|| Arc::new(self.written(ancestor))))
    }

    fn written(&self, ancestor: Ancestor) -> ParentReference {
        let Ancestor {
            kind,
            id,
            section,
            port,
        } = ancestor;
        let names = self.names.borrow();
        let namespace = names.text(id.namespace);
        ParentReference {
            group: Symbol::new(kind.group()),
            kind: Symbol::new(kind.as_str()),
            namespace: (!namespace.is_empty()).then(|| (&**namespace).into()),
            name: (&**names.text(id.name)).into(),
            section_name: section.map(|section| (&**names.text(section)).into()),
            port,
        }
    }
}
