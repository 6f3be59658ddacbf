//! ServiceAccounts that EdgeProxies name: several fleets may run with one. It is of the fleet that made it, goes over
//! to another one that runs with it when that one doesn't any more, and is deleted with the last. With which one a
//! fleet runs, of which nobody knows how it is to be made, its workload says.

use super::Fleets;
use crate::{
    cluster::objects::WORKLOADS,
    cluster_infra::seen::{ObjectId, ObservedObject, View},
    state::FleetState,
};
use edge_infra::{ObjectKind, object_name};
use edge_ir::{FleetKey, Infra};
use std::sync::Arc;

impl Fleets {
    /// Takes out of what there is of a fleet the accounts that others go on running with when it doesn't, and puts in
    /// the one that comes to it in this way.
    pub(super) fn share_accounts(&self, key: &FleetKey, infra: Option<&Infra>, view: &mut View) {
        let own = infra.map(account_of);
        view.retain(|id, _| own.as_ref() == Some(id) || (self.heir(id).is_none() && !self.is_lent(key, id)));
        if let Some(id) = own
            && let Some(owner) = self.owners.get(&id)
            && owner != key
            && !self.wants(owner, &id)
            && self.heir(&id).as_ref() == Some(key)
            && let Some(seen) = self.views.get(owner).and_then(|view| view.get(&id))
        {
            view.insert(id, Arc::clone(seen));
        }
    }

    /// Follows all that run with an account that is gone.
    pub(super) fn restore_account(&mut self, id: &ObjectId) {
        let naming: Vec<FleetKey> = self.naming(id).cloned().collect();
        for key in naming {
            self.count_loss(Some(&key));
            self.follow_each([Some(key)]);
        }
    }

    /// The fleet that has made the account with which a workload runs.
    pub(super) fn lender(&self, workload: &ObjectId) -> Option<FleetKey> {
        let seen = self.views.get(self.owners.get(workload)?)?.get(workload)?;
        let account = ObjectId {
            kind: ObjectKind::ServiceAccount,
            namespace: Arc::clone(&workload.namespace),
            name: seen.account()?.into(),
        };
        self.owners.get(&account).cloned()
    }

    /// Whether a workload of another fleet runs with an account of this one.
    fn is_lent(&self, key: &FleetKey, id: &ObjectId) -> bool {
        let others = self.views.iter().filter(|(other, _)| *other != key);
        let runs_with = |(of, seen): (&ObjectId, &Arc<ObservedObject>)| {
            WORKLOADS.contains(&of.kind) && of.namespace == id.namespace && seen.account() == Some(&id.name)
        };
        id.kind == ObjectKind::ServiceAccount && others.flat_map(|(_, view)| view).any(runs_with)
    }

    /// The first of those that run with an account.
    fn heir(&self, id: &ObjectId) -> Option<FleetKey> {
        self.naming(id).next().cloned()
    }

    fn naming<'a>(&'a self, id: &'a ObjectId) -> impl Iterator<Item = &'a FleetKey> {
        let is_account = id.kind == ObjectKind::ServiceAccount;
        let fleets = self
            .state
            .iter()
            .filter(move |_| is_account)
            .flat_map(|state| &state.fleets);
        let naming = fleets
            .filter(|(_, fleet)| infra_of(fleet).is_some_and(|infra| names_account(infra) && account_of(infra) == *id));
        naming.map(|(key, _)| key)
    }

    fn wants(&self, key: &FleetKey, id: &ObjectId) -> bool {
        let fleet = self.state.as_ref().and_then(|state| state.fleets.get(key));
        fleet.and_then(infra_of).is_some_and(|infra| account_of(infra) == *id)
    }
}

/// Whether what becomes of this fleet may matter to others.
pub(super) fn may_share(fleet: Option<&FleetState>) -> bool {
    fleet.and_then(infra_of).is_some_and(|infra| names_account(infra))
}

/// What is wanted of a fleet, or was last.
pub(super) fn infra_of(fleet: &FleetState) -> Option<&Arc<Infra>> {
    fleet.infra.as_ref().or(fleet.last_infra.as_ref())
}

fn names_account(infra: &Infra) -> bool {
    infra.proxy.cluster.account_name.is_some()
}

fn account_of(infra: &Infra) -> ObjectId {
    ObjectId {
        kind: ObjectKind::ServiceAccount,
        namespace: Arc::clone(&infra.namespace),
        name: object_name(infra, ObjectKind::ServiceAccount),
    }
}
