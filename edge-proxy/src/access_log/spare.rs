//! Records that no exchange has at the moment.
//!
//! Why: with many requests at once records are allocated one after the other and freed so, which is the slow way of an
//! allocator; and the lists of a record are as long as those of the one before.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::access_log::Record;
use crate::config::access_log::AccessLogs;

/// More are freed.
const MOST: usize = 128;

/// Those of a worker, empty ones.
#[derive(Debug, Default)]
pub(crate) struct SpareRecords(RefCell<Vec<Box<RefCell<Record>>>>);

impl SpareRecords {
    /// The record of an exchange that begins.
    pub(crate) fn take(&self, logs: Arc<AccessLogs>, now: Instant, random: u64) -> Box<RefCell<Record>> {
        let Some(mut spare) = self.0.borrow_mut().pop() else {
            return Box::new(RefCell::new(Record::new(Some(logs), now, random)));
        };
        let record = spare.get_mut();
        record.logs = Some(logs);
        record.random = random;
        record.times.begun = now;
        record.times.over = now;
        record.times.calendar = SystemTime::now();
        spare
    }

    /// Takes back one that has told everything.
    pub(crate) fn put(&self, mut record: Box<RefCell<Record>>) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < MOST {
            record.get_mut().clear();
            spare.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;
    use crate::config::access_log::Wanted;

    #[test]
    fn nothing_of_an_exchange_is_left_for_the_next() {
        let spare = SpareRecords::default();
        let logs = Arc::new(AccessLogs {
            logs: Box::default(),
            wanted: Wanted::default(),
        });
        let mut first = spare.take(Arc::clone(&logs), Instant::now(), 1);
        let record = first.get_mut();
        record.status = StatusCode::IM_A_TEAPOT.as_u16();
        record.response.push(Some(HeaderValue::from_static("a")));
        record.route = Some("r".into());
        record.received = 7;
        record.flag("UT");
        let memory = record.response.as_ptr();
        spare.put(first);
        assert_eq!(Arc::strong_count(&logs), 1, "the configuration isn't held");

        let now = Instant::now();
        let mut second = spare.take(Arc::clone(&logs), now, 2);
        let record = second.get_mut();
        assert_eq!(record.response.as_ptr(), memory, "its memory is kept");
        let mut fresh = Record::new(Some(logs), now, 2);
        fresh.times.calendar = record.times.calendar;
        assert_eq!(format!("{record:?}"), format!("{fresh:?}"));
    }
}
