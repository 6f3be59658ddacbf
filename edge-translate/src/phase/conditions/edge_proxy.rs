//! EdgeProxy, under each class that it is the parameters of.

use crate::{engine::reader::Reader, name::Id, status::Status};

/// The status of an EdgeProxy.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    reader.edge_proxy(id)?;
    Some(None)
}
