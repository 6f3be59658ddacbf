//! Ports for what every proxy of this machine needs for itself.
//!
//! A port is found by asking the system for a free one and letting go of it again. Somebody else may take it in
//! between; the proxy then fails to start and the next attempt takes another.

use edge_ir::{Fleet, FleetKey, FleetSettings, ReadyListener};
use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
};

/// A port of the loopback interface that nobody listens on.
pub(super) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Gives each fleet's readiness listener a port of its own: the translation names the same one for all of them, which
/// is right for pods and a clash on one machine.
#[derive(Debug, Default)]
pub struct ReadyPorts {
    fleets: BTreeMap<FleetKey, Adapted>,
}

#[derive(Debug)]
struct Adapted {
    from: Arc<FleetSettings>,
    to: Arc<FleetSettings>,
}

impl ReadyPorts {
    /// The fleet with its readiness listener on a port that stays its own. What else it has is shared with the input.
    pub fn adapt(&mut self, fleet: &Arc<Fleet>) -> Arc<Fleet> {
        let Some(listener) = &fleet.settings.ready else {
            return Arc::clone(fleet);
        };
        let known = self.fleets.get(&fleet.key);
        let settings = match known {
            Some(known) if Arc::ptr_eq(&known.from, &fleet.settings) => Arc::clone(&known.to),
            known => {
                let port = known.and_then(|k| k.to.ready.as_ref()).map(|ready| ready.port);
                let port = port.or_else(|| free().ok()).unwrap_or(listener.port);
                let ready = ReadyListener {
                    address: Ipv4Addr::LOCALHOST.to_string().into(),
                    port,
                };
                let to = Arc::new(FleetSettings {
                    ready: Some(ready),
                    ..FleetSettings::clone(&fleet.settings)
                });
                self.fleets.insert(
                    fleet.key.clone(),
                    Adapted {
                        from: Arc::clone(&fleet.settings),
                        to: Arc::clone(&to),
                    },
                );
                to
            }
        };
        Arc::new(Fleet {
            settings,
            ..Fleet::clone(fleet)
        })
    }

    /// Forgets fleets that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&FleetKey) -> bool) {
        self.fleets.retain(|key, _| is_there(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::{AccessLog, IpFamily};

    fn fleet(key: &str) -> Arc<Fleet> {
        let ready = Some(ReadyListener {
            address: "0.0.0.0".into(),
            port: 19003,
        });
        let settings = FleetSettings {
            ready,
            ..FleetSettings::default()
        };
        Arc::new(Fleet {
            key: key.into(),
            settings: Arc::new(settings),
            listeners: Arc::default(),
            route_tables: Arc::default(),
            clusters: Arc::default(),
            endpoints: Arc::default(),
            secrets: Arc::default(),
        })
    }

    fn port(fleet: &Fleet) -> u16 {
        fleet.settings.ready.as_ref().unwrap().port
    }

    #[test]
    fn each_fleet_keeps_a_port_of_its_own() {
        let mut ports = ReadyPorts::default();
        let (a, b) = (fleet("a"), fleet("b"));
        let first = ports.adapt(&a);
        assert_ne!(port(&first), port(&ports.adapt(&b)));
        assert!(
            Arc::ptr_eq(&first.settings, &ports.adapt(&a).settings),
            "an unchanged part keeps its allocation"
        );
        let mut changed = Fleet::clone(&a);
        let settings = FleetSettings {
            access_log: AccessLog::Disabled,
            ip_family: IpFamily::default(),
            ..FleetSettings::clone(&a.settings)
        };
        changed.settings = Arc::new(settings);
        let changed = ports.adapt(&Arc::new(changed));
        assert_eq!(port(&changed), port(&first), "other settings change, the port stays");
        assert_eq!(changed.settings.access_log, AccessLog::Disabled);
    }
}
