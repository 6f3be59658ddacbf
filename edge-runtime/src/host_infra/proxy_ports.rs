//! Where a proxy's process listens, as the kernel says: also of one that can't be asked itself.

use crate::machine_ports;
use std::collections::BTreeSet;
use tokio::task::spawn_blocking;

/// A process that listens for clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    /// Its id, while it runs.
    pub(super) process: Option<u32>,
    /// Ports that it has for itself.
    pub(super) own: [u16; 2],
}

impl Listener {
    /// All ports on which it listens. Takes a thread's time.
    fn ports(self) -> BTreeSet<u16> {
        self.process.map(machine_ports::listening).unwrap_or_default()
    }

    /// Those of them that are for clients.
    fn client_ports(self) -> BTreeSet<u16> {
        let mut ports = self.ports();
        ports.retain(|port| !self.own.contains(port));
        ports
    }
}

/// Whether a process takes no connections of clients.
pub(super) async fn is_closed(listener: Listener) -> bool {
    let look = move || listener.client_ports().is_empty();
    spawn_blocking(look).await.unwrap_or_default()
}

/// Whether a process listens wherever another does.
pub(super) async fn takes_over(new: Listener, before: Listener) -> bool {
    let look = move || before.client_ports().is_subset(&new.ports());
    spawn_blocking(look).await.unwrap_or_default()
}
