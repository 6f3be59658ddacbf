//! The end of the process: what begins it, and what it waits for.
//!
//! SIGTERM and SIGINT begin a graceful end: no new connections, open ones finish within the drain time; a second
//! signal ends at once. The admin interface orders the same, or parts of it. SIGUSR1 has log files opened again, as
//! whoever moves them away wants it. SIGHUP is ignored, as files
//! are looked at every second without it.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admin::Order;
use crate::control::Control;
use crate::due;
use crate::shared::Drain;
use crate::stats::{Merge, Value};

/// How often the end looks whether every connection is gone.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// What the process ends by.
struct Ending<'a> {
    control: &'a Rc<Control>,
    orders: &'a mut mpsc::Receiver<Order>,
    terminate: Signal,
    interrupt: Signal,
    drain_time: Duration,
    /// Since when no connections are accepted any more.
    stopped: Option<Instant>,
}

/// Serves until a signal or an order ends it, then waits for connections to finish.
pub(super) async fn wait_for_the_end(control: &Rc<Control>, orders: &mut mpsc::Receiver<Order>) -> anyhow::Result<()> {
    let mut ending = Ending {
        drain_time: control.shared.flags.drain_time(),
        control,
        orders,
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        stopped: None,
    };
    if ending.serve().await?.is_continue() {
        ending.finish().await;
    }
    Ok(())
}

impl Ending<'_> {
    /// Follows signals and orders until the process is to end: at once, or when what is open has finished.
    async fn serve(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut logs_moved = signal(SignalKind::user_defined1())?;
        let mut discouraged_until = None;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Ok(ControlFlow::Continue(())),
                _ = self.interrupt.recv() => return Ok(ControlFlow::Continue(())),
                _ = logs_moved.recv() => self.control.shared.logs.reopen(),
                _ = hang_up.recv() => tracing::debug!("SIGHUP is ignored"),
                () = due::at(discouraged_until) => {
                    discouraged_until = None;
                    self.stop_accepting();
                }
                order = self.orders.recv() => match order {
                    Some(Order::StopAccepting) => {
                        self.stop_accepting();
                    }
                    Some(Order::DiscourageThenStop) => {
                        self.control.drain(Drain::Discouraging);
                        discouraged_until = Some(Instant::now() + self.drain_time);
                    }
                    Some(Order::Quit) | None => return Ok(ControlFlow::Break(())),
                },
            }
        }
    }

    /// Lets what is open finish, within the drain time. Whoever was told to stop before has had a part of it, or all.
    async fn finish(&mut self) {
        tracing::info!(drain_time = ?self.drain_time, "draining");
        let stopped = self.stop_accepting();
        let deadline = tokio::time::sleep_until(stopped + self.drain_time);
        tokio::pin!(deadline);
        let mut check = tokio::time::interval(DRAIN_CHECK);
        loop {
            tokio::select! {
                () = &mut deadline => {
                    tracing::warn!(connections = open_connections(self.control), "drain time is over");
                    return;
                }
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                Some(Order::Quit) = self.orders.recv() => return,
                _ = check.tick() => if open_connections(self.control) == 0 {
                    return;
                },
            }
        }
    }

    /// Accepts nothing any more. Gives since when.
    fn stop_accepting(&mut self) -> Instant {
        self.control.drain(Drain::Draining);
        self.control.stop_accepting();
        *self.stopped.get_or_insert_with(Instant::now)
    }
}

/// Client connections over all listeners and workers.
fn open_connections(control: &Control) -> i64 {
    let snapshot = control.shared.snapshot.borrow().clone();
    let mut open = 0;
    for listener in snapshot.listeners.values() {
        listener.stats.merge(&mut |name, value| {
            if let ("downstream_cx_active", Value::Gauge(count)) = (name, value) {
                open += count;
            }
        });
    }
    open
}
