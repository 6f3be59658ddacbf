//! Time on one worker: coarse deadlines in a timer wheel.
//!
//! Every stream and connection owns one [`Timer`] with a slot per kind of deadline; the earliest counts. Setting
//! or clearing a deadline writes a cell. The wheel has ticks of 10 ms and is lazy: a timer sits in it once, at a tick
//! not after its deadline and at most a second ahead, and is put back when that tick finds the deadline later or moved.
//! Without that bound a short deadline set after a long one would leave a place behind until the long one passes, and
//! with it the memory of every request of those minutes. Timers are recycled, so a request
//! with a deadline costs a few nanoseconds instead of an allocation and a place in the runtime's own timer.
//! Why coarse: the deadlines of proxied traffic are far above 10 ms; a deadline is never met early.
//! Deliberately absent: locks and `Send`. A worker has one clock and never shares it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

const TICK: Duration = Duration::from_millis(10);
const TICKS_PER_SECOND: u64 = 100;
const SLOTS: usize = 512;
/// How far ahead a timer is put into the wheel.
const HORIZON: u64 = TICKS_PER_SECOND;

/// What a deadline is about. A timer holds at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    /// The route's timeout: request sent to response complete.
    Route,
    /// One attempt: connected and request sent to response begun.
    PerTry,
    /// Nothing moved.
    Idle,
    /// Longest life.
    Lifetime,
    /// Receiving the request (or its head).
    Request,
    /// Taking leave of a client.
    Drain,
}

const KINDS: [Kind; 6] = [
    Kind::Route,
    Kind::PerTry,
    Kind::Idle,
    Kind::Lifetime,
    Kind::Request,
    Kind::Drain,
];

/// The deadlines of one thing. Tick 0 stands for "none".
#[derive(Debug, Default)]
struct Entry {
    deadlines: [Cell<u64>; KINDS.len()],
    earliest: Cell<u64>,
    /// The tick under which the wheel holds this entry, 0 when it does not.
    queued: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug)]
struct Wheel {
    slots: Vec<Vec<(u64, Rc<Entry>)>>,
    /// The last tick that was processed.
    done: u64,
    len: usize,
}

/// The clock of a worker.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    recent: Cell<Instant>,
    wheel: RefCell<Wheel>,
    /// The tick the driver sleeps until.
    planned: Cell<u64>,
    driver: RefCell<Option<Waker>>,
    free: RefCell<Vec<Rc<Entry>>>,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new() -> Rc<Self> {
        let now = Instant::now();
        Rc::new(Self {
            start: now,
            recent: Cell::new(now),
            wheel: RefCell::new(Wheel {
                slots: (0..SLOTS).map(|_| Vec::new()).collect(),
                done: 0,
                len: 0,
            }),
            planned: Cell::new(u64::MAX),
            driver: RefCell::new(None),
            free: RefCell::new(Vec::new()),
        })
    }

    /// Reads the system's clock.
    pub(crate) fn now(&self) -> Instant {
        let now = Instant::now();
        self.recent.set(now);
        now
    }

    /// The last reading: good enough for idle deadlines, and free.
    pub(crate) fn recent(&self) -> Instant {
        self.recent.get()
    }

    /// A timer without deadlines.
    pub(crate) fn timer(self: &Rc<Self>) -> Timer {
        let entry = self.free.borrow_mut().pop().unwrap_or_default();
        Timer {
            entry,
            clock: Rc::clone(self),
        }
    }

    /// Rounded up, so that no deadline is met early.
    fn tick_at(&self, at: Instant) -> u64 {
        let elapsed = at.saturating_duration_since(self.start);
        let part = u64::from(elapsed.subsec_nanos()).div_ceil(TICK.as_nanos() as u64);
        (elapsed.as_secs().saturating_mul(TICKS_PER_SECOND) + part).max(1)
    }

    /// The furthest place for a timer. The last reading is good enough: too early costs one look more.
    fn horizon(&self) -> u64 {
        self.tick_at(self.recent()).max(self.wheel.borrow().done) + HORIZON
    }

    /// Rounded down.
    fn tick_now(&self) -> u64 {
        let elapsed = self.now().saturating_duration_since(self.start);
        elapsed.as_secs() * TICKS_PER_SECOND + u64::from(elapsed.subsec_nanos()) / TICK.as_nanos() as u64
    }

    fn enqueue(&self, entry: &Rc<Entry>, tick: u64) {
        entry.queued.set(tick);
        let mut wheel = self.wheel.borrow_mut();
        // A tick that was processed already would wait for a whole round.
        let tick_slot = tick.max(wheel.done + 1);
        let slot = (tick_slot % SLOTS as u64) as usize;
        wheel.slots[slot].push((tick, Rc::clone(entry)));
        wheel.len += 1;
        if tick_slot < self.planned.get()
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Fires what is due up to `now`.
    fn advance(&self, now: u64) {
        let (from, to) = {
            let wheel = self.wheel.borrow();
            (wheel.done + 1, now.min(wheel.done + SLOTS as u64))
        };
        for tick in from..=to {
            let slot = (tick % SLOTS as u64) as usize;
            let due = std::mem::take(&mut self.wheel.borrow_mut().slots[slot]);
            self.wheel.borrow_mut().done = tick;
            for (at, entry) in due {
                self.settle(at, entry, now, slot);
            }
        }
        let mut wheel = self.wheel.borrow_mut();
        wheel.done = wheel.done.max(now);
    }

    fn settle(&self, at: u64, entry: Rc<Entry>, now: u64, slot: usize) {
        if at > now {
            // A later round of the wheel.
            self.wheel.borrow_mut().slots[slot].push((at, entry));
            return;
        }
        self.wheel.borrow_mut().len -= 1;
        if entry.queued.get() != at {
            return;
        }
        entry.queued.set(0);
        match entry.earliest.get() {
            0 => {}
            earliest if earliest <= now => {
                if let Some(waker) = entry.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
            later => self.enqueue(&entry, later.min(now + HORIZON)),
        }
    }

    /// The next tick at which anything may be due.
    fn next(&self) -> Option<u64> {
        let wheel = self.wheel.borrow();
        if wheel.len == 0 {
            return None;
        }
        let first = wheel.done + 1;
        (first..first + SLOTS as u64).find(|tick| !wheel.slots[(*tick % SLOTS as u64) as usize].is_empty())
    }

    /// Drives the wheel for ever; a worker runs this once as a task. It sleeps while no timer waits.
    pub(crate) async fn drive(self: Rc<Self>) {
        let mut sleep = std::pin::pin!(tokio::time::sleep(TICK));
        poll_fn(|cx| -> Poll<()> {
            loop {
                self.advance(self.tick_now());
                if !self
                    .driver
                    .borrow()
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(cx.waker()))
                {
                    *self.driver.borrow_mut() = Some(cx.waker().clone());
                }
                let Some(next) = self.next() else {
                    self.planned.set(u64::MAX);
                    return Poll::Pending;
                };
                self.planned.set(next);
                let ticks = u32::try_from(next).unwrap_or(u32::MAX);
                sleep
                    .as_mut()
                    .reset(tokio::time::Instant::from_std(self.start + TICK * ticks));
                if Pin::new(&mut sleep).as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}

/// The deadlines of one stream or connection.
#[derive(Debug)]
pub(crate) struct Timer {
    entry: Rc<Entry>,
    clock: Rc<Clock>,
}

impl Timer {
    /// Sets or, with `None`, clears a deadline counted from `from`.
    pub(crate) fn set(&self, kind: Kind, from: Instant, after: Option<Duration>) {
        let tick = match after {
            Some(after) => from.checked_add(after).map_or(0, |at| self.clock.tick_at(at)),
            None => 0,
        };
        let cell = &self.entry.deadlines[kind as usize];
        if cell.replace(tick) == tick {
            return;
        }
        self.update();
    }

    /// Clears a deadline.
    pub(crate) fn clear(&self, kind: Kind) {
        if self.entry.deadlines[kind as usize].replace(0) != 0 {
            self.update();
        }
    }

    /// True when a deadline of this kind is set.
    pub(crate) fn is_set(&self, kind: Kind) -> bool {
        self.entry.deadlines[kind as usize].get() != 0
    }

    fn update(&self) {
        let earliest = self
            .entry
            .deadlines
            .iter()
            .map(Cell::get)
            .filter(|tick| *tick != 0)
            .min()
            .unwrap_or(0);
        self.entry.earliest.set(earliest);
        if earliest == 0 {
            return;
        }
        let queued = self.entry.queued.get();
        if queued == 0 || queued > earliest {
            self.clock.enqueue(&self.entry, earliest.min(self.clock.horizon()));
        }
    }

    /// Ready with the kind of a deadline that has passed; else the task is woken when one does.
    pub(crate) fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<Kind> {
        let earliest = self.entry.earliest.get();
        if earliest != 0 && earliest <= self.clock.wheel.borrow().done {
            for kind in KINDS {
                if self.entry.deadlines[kind as usize].get() == earliest {
                    return Poll::Ready(kind);
                }
            }
        }
        let mut waker = self.entry.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits for a deadline.
    #[cfg(test)]
    pub(crate) async fn expired(&self) -> Kind {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// The clock it belongs to.
    pub(crate) fn clock(&self) -> &Rc<Clock> {
        &self.clock
    }

    /// Another handle on the same deadlines.
    pub(crate) fn share(&self) -> Self {
        Self {
            entry: Rc::clone(&self.entry),
            clock: Rc::clone(&self.clock),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let in_wheel = usize::from(self.entry.queued.get() != 0);
        if Rc::strong_count(&self.entry) > 1 + in_wheel {
            // Another handle uses it (or a stale place in the wheel still holds it).
            return;
        }
        for cell in &self.entry.deadlines {
            cell.set(0);
        }
        self.entry.earliest.set(0);
        self.entry.waker.borrow_mut().take();
        let mut free = self.clock.free.borrow_mut();
        if free.len() < 1024 {
            free.push(Rc::clone(&self.entry));
        }
    }
}
