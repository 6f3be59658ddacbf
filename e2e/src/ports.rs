//! Ports for tests, so that they run beside each other and beside whatever else uses the machine.
//!
//! A port is given to one test process at a time: a lock on a file of its number is held until that process ends, so
//! that between choosing a port and binding it nobody else who asks here gets it. Ports come from below the range that
//! the kernel gives to outgoing connections, so that no client is given one by chance.

use anyhow::{Result, bail};
use std::{
    env,
    fs::{self, File, TryLockError},
    mem,
    net::{Ipv4Addr, TcpListener, UdpSocket},
    ops::Range,
    path::{Path, PathBuf},
    process,
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// Above what services usually have, below Linux's default `ip_local_port_range`.
const RANGE: Range<u16> = 14_000..32_000;

/// Some ports that nobody uses and that nobody else is given while this process lives, all different.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let folder = folder()?;
    let mut ports = [0; N];
    for port in &mut ports {
        *port = take(&folder)?;
    }
    Ok(ports)
}

fn folder() -> Result<PathBuf> {
    let folder = env::temp_dir().join("edge-test-ports");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Where this process looks next. Processes begin at different places, so that they rarely meet.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new((process::id() % 18_000) as u16));

fn take(folder: &Path) -> Result<u16> {
    let n_ports = RANGE.end - RANGE.start;
    for _ in 0..n_ports {
        let port = RANGE.start + NEXT.fetch_add(1, Ordering::Relaxed) % n_ports;
        if let Some(lock) = lock(&folder.join(port.to_string()))?
            && is_free(port)
        {
            // Held until the process ends, however it ends.
            mem::forget(lock);
            return Ok(port);
        }
    }
    bail!("no port of {RANGE:?} is free: locks are in {}", folder.display())
}

fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() && UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports = free::<50>().unwrap();
        assert_eq!(ports.into_iter().collect::<BTreeSet<_>>().len(), 50);
        let bound = ports.map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        assert_eq!(bound.len(), 50);
    }

    #[test]
    fn a_port_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let port = take(folder.path()).unwrap();
        let _socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
    }

    #[test]
    fn a_port_is_given_to_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("14000");
        let held = lock(&path).unwrap();
        assert!(held.is_some());
        // Locks belong to the open file, so that a second one in this process stands for another process.
        assert!(lock(&path).unwrap().is_none());
        drop(held);
        assert!(lock(&path).unwrap().is_some());
    }
}
