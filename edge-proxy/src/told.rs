//! Troubles that come again and again stand in the log once a minute.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// So long a line isn't repeated.
const PAUSE: Duration = Duration::from_secs(60);

/// Different lines within that time. Clients may cause them.
const MOST: usize = 64;

/// The lines that were told of late.
#[derive(Debug, Default)]
pub(crate) struct Told(RefCell<Vec<(String, Instant)>>);

impl Told {
    /// Whether this is to be told now; it counts as told then.
    pub(crate) fn is_news(&self, line: String, now: Instant) -> bool {
        let mut lines = self.0.borrow_mut();
        lines.retain(|(_, told)| now.saturating_duration_since(*told) < PAUSE);
        let is_news = lines.len() < MOST && lines.iter().all(|(known, _)| *known != line);
        if is_news {
            lines.push((line, now));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_told_once_a_minute_and_not_too_many() {
        let (told, now) = (Told::default(), Instant::now());
        assert!(told.is_news("a".into(), now));
        assert!(told.is_news("b".into(), now));
        assert!(!told.is_news("a".into(), now + PAUSE / 2));
        assert!(told.is_news("a".into(), now + PAUSE));
        let many = (0..2 * MOST).filter(|line| told.is_news(line.to_string(), now + PAUSE));
        assert_eq!(many.count(), MOST - 1, "beside the one that was told then");
    }
}
