//! Free ports, so that tests run beside each other and beside whatever else uses the machine.

use anyhow::Result;
use std::net::{Ipv4Addr, TcpListener};

/// Some ports that were free a moment ago, all different.
///
/// Whoever gets one binds it later, so another process may be faster; ports come from the kernel's ephemeral range,
/// which it hands out in turn, which makes that unlikely.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        // Held until all are chosen, so that none comes twice.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_differ() {
        assert_eq!(free::<50>().unwrap().into_iter().collect::<BTreeSet<_>>().len(), 50);
    }
}
