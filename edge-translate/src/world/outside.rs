//! What we were told of the world outside the resources.

use super::World;
use crate::{
    api::Timestamp,
    fact::{Fetched, FoundModule, MachinePort, WantedModule},
    name::{FleetId, ModuleId, Sym},
};
use edge_ir::PatchFailure;
use std::sync::Arc;

impl World {
    /// The time that we were told last.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// Takes the time; says what it was.
    pub(crate) fn set_now(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.now.replace(now)
    }

    /// Who else holds a port of the machine, as we were told.
    pub(crate) fn port_holder(&self, port: MachinePort) -> Option<&Arc<str>> {
        self.port_holders.get(&port)
    }

    /// Takes who holds a port; says whether that is news.
    pub(crate) fn set_port_holder(&mut self, port: MachinePort, holder: Option<Arc<str>>) -> bool {
        let before = match &holder {
            Some(holder) => self.port_holders.insert(port, Arc::clone(holder)),
            None => self.port_holders.remove(&port),
        };
        before != holder
    }

    /// What came of fetching a document; none while we weren't told.
    pub(crate) fn document(&self, url: Sym) -> Option<&Fetched> {
        self.documents.get(&url)
    }

    /// Takes what came of fetching a document; says whether that is news.
    pub(crate) fn set_document(&mut self, url: Sym, fetched: Option<Fetched>) -> bool {
        let before = match &fetched {
            Some(fetched) => self.documents.insert(url, fetched.clone()),
            None => self.documents.remove(&url),
        };
        before != fetched
    }

    /// The number of a Wasm module.
    pub(crate) fn module_id(&self, wanted: &Arc<WantedModule>) -> ModuleId {
        self.decisions.module_id(wanted)
    }

    /// The Wasm module behind a number.
    pub(crate) fn wanted_module(&self, id: ModuleId) -> Arc<WantedModule> {
        self.decisions.wanted_module(id)
    }

    /// What came of fetching a Wasm module; none while we weren't told.
    pub(crate) fn module(&self, id: ModuleId) -> Option<&FoundModule> {
        self.modules.get(&id)
    }

    /// Takes what came of fetching a Wasm module; says whether that is news.
    pub(crate) fn set_module(&mut self, id: ModuleId, found: Option<FoundModule>) -> bool {
        let before = match &found {
            Some(found) => self.modules.insert(id, found.clone()),
            None => self.modules.remove(&id),
        };
        before != found
    }

    /// Patches of a fleet that could not be applied; none while nobody tried.
    pub(crate) fn patch_failures(&self, fleet: FleetId) -> Option<&Arc<Vec<PatchFailure>>> {
        self.patch_failures.get(&fleet)
    }

    /// Takes which patches could not be applied, or that there is nothing to apply; says whether that is news.
    pub(crate) fn set_patch_failures(&mut self, fleet: FleetId, failures: Option<Arc<Vec<PatchFailure>>>) -> bool {
        let before = match &failures {
            Some(failures) => self.patch_failures.insert(fleet, Arc::clone(failures)),
            None => self.patch_failures.remove(&fleet),
        };
        before != failures
    }
}
