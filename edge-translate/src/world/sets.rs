//! Sets of backends, named for what is in them.

use super::World;
use crate::name::{BackendKind, BackendPort, BackendSet, Id, Interner, SetMember, Target};
use edge_ir::PortProtocol;
use sha2::{Digest, Sha256};
use std::{fmt::Write, sync::Arc};

impl World {
    /// The set of some backends. The same backends with the same shares are the same set, whoever asks for it.
    pub(crate) fn backend_set(&self, members: Vec<SetMember>) -> BackendPort {
        let mut members: Vec<_> = members
            .into_iter()
            .map(|member| (self.endpoint_set_name(member.port), member))
            .collect();
        members.sort_by(|(name, a), (other, b)| (name, a.priority, a.weight).cmp(&(other, b.priority, b.weight)));
        let mut text = String::new();
        for (name, member) in &members {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{name} {} {}", member.weight, member.priority);
        }
        let name = self.sym(&format!("{:.16x}", Sha256::digest(text)));
        let members = members.into_iter().map(|(_, member)| member).collect();
        self.sets.get_or_make(name, || Arc::new(BackendSet { members }));
        BackendPort {
            target: Target {
                kind: BackendKind::Set,
                id: Id {
                    namespace: Interner::EMPTY,
                    name,
                },
            },
            port: 0,
            transport: PortProtocol::Tcp,
        }
    }

    /// What is in a set; none for what is no set.
    pub(crate) fn set_behind(&self, port: BackendPort) -> Option<Arc<BackendSet>> {
        match port.target.kind {
            BackendKind::Set => self.sets.get(&port.target.id.name),
            BackendKind::Service | BackendKind::ServiceImport | BackendKind::Backend | BackendKind::Custom => None,
        }
    }
}
