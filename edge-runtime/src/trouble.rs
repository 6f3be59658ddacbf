//! What fails again and again is told when it begins, when it has another reason, and when it is over.

/// Something that fails again and again, for one reason or another: a reason is news once.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Option<String>);

impl Trouble {
    /// It fails, for this reason. Says whether that is news.
    pub(crate) fn begins(&mut self, reason: &str) -> bool {
        let is_news = self.0.as_deref() != Some(reason);
        if is_news {
            self.0 = Some(reason.to_owned());
        }
        is_news
    }

    /// It works. Says whether that is news.
    pub(crate) fn ends(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Why it fails, if it does.
    #[cfg(test)]
    pub(crate) fn reason(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble;

    #[test]
    fn a_reason_is_told_once_until_it_is_another_or_over() {
        let mut trouble = Trouble::default();
        assert!(!trouble.ends(), "it never failed");
        assert!(trouble.begins("a") && !trouble.begins("a") && trouble.begins("b"));
        assert_eq!(trouble.reason(), Some("b"));
        assert!(trouble.ends() && !trouble.ends() && trouble.begins("b"));
    }
}
