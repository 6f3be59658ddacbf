//! How much of a translation is the same allocation as before: the measure of "touches only what it must".

use edge_ir::{Fleet, FleetKey};
use std::{collections::BTreeMap, sync::Arc};

type Fleets = BTreeMap<FleetKey, Arc<Fleet>>;

/// Names of pieces that are new, gone, or another allocation, by kind of piece.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) fleets: Vec<String>,
    pub(crate) settings: Vec<String>,
    pub(crate) listeners: Vec<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) clusters: Vec<String>,
    pub(crate) endpoints: Vec<String>,
}

/// Compares two states of all fleets by pointer.
pub(crate) fn touched(before: &Fleets, after: &Fleets) -> Touched {
    let mut touched = Touched::default();
    let keys = before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)));
    for key in keys {
        let (Some(old), Some(new)) = (before.get(key), after.get(key)) else {
            touched.fleets.push(key.to_string());
            continue;
        };
        if Arc::ptr_eq(old, new) {
            continue;
        }
        touched.fleets.push(key.to_string());
        if !Arc::ptr_eq(&old.settings, &new.settings) {
            touched.settings.push(key.to_string());
        }
        list(key, &old.listeners, &new.listeners, |l| &l.name, &mut touched.listeners);
        list(key, &old.secrets, &new.secrets, |s| &s.name, &mut touched.secrets);
        list(key, &old.clusters, &new.clusters, |c| &c.name, &mut touched.clusters);
        list(key, &old.endpoints, &new.endpoints, |e| &e.name, &mut touched.endpoints);
        for table in old.route_tables.iter() {
            let name = &table.name;
            match new.route_tables.iter().find(|t| t.name == *name) {
                Some(now) if table.hosts.is_same(&now.hosts) => {}
                Some(now) => {
                    let [old, new] = [table, now].map(|table| Arc::new(table.hosts.iter().cloned().collect()));
                    list(key, &old, &new, |h| &h.name, &mut touched.hosts);
                }
                None => touched.hosts.push(format!("{key} table {name}")),
            }
        }
        let is_new = |name: &&edge_ir::RouteTableName| old.route_tables.iter().all(|t| t.name != **name);
        let tables = new.route_tables.iter().map(|t| &t.name).filter(is_new);
        touched.hosts.extend(tables.map(|name| format!("{key} table {name}")));
    }
    touched
}

fn list<T>(
    fleet: &FleetKey,
    old: &Arc<Vec<Arc<T>>>,
    new: &Arc<Vec<Arc<T>>>,
    name: fn(&T) -> &str,
    into: &mut Vec<String>,
) {
    if Arc::ptr_eq(old, new) {
        return;
    }
    let count = into.len();
    let index = |list: &Arc<Vec<Arc<T>>>| -> BTreeMap<String, Arc<T>> {
        list.iter()
            .map(|item| (name(item).to_owned(), Arc::clone(item)))
            .collect()
    };
    let (old, new) = (index(old), index(new));
    for (name, item) in &old {
        if !new.get(name).is_some_and(|now| Arc::ptr_eq(item, now)) {
            into.push(format!("{fleet} {name}"));
        }
    }
    into.extend(
        new.keys()
            .filter(|name| !old.contains_key(*name))
            .map(|name| format!("{fleet} {name}")),
    );
    if into.len() == count {
        into.push(format!("{fleet} (a new list of the same pieces)"));
    }
}
