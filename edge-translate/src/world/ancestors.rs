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
        self.parent_references
            .get_or_make(ancestor, || Arc::new(self.written(ancestor)))
    }

    fn written(&self, ancestor: Ancestor) -> ParentReference {
        let Ancestor {
            kind,
            id,
            section,
            port,
        } = ancestor;
        let namespace = self.text(id.namespace);
        ParentReference {
            group: Symbol::new(kind.group()),
            kind: Symbol::new(kind.as_str()),
            namespace: (!namespace.is_empty()).then(|| (&*namespace).into()),
            name: (&*self.text(id.name)).into(),
            section_name: section.map(|section| (&*self.text(section)).into()),
            port,
        }
    }
}
