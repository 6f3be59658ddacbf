//! Which metrics there are, and whom they are pushed to.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::config::collector::Collector;
use crate::config::header::StringCondition;

/// Which metrics there are, by their whole names. All of them are counted, which costs less than to ask.
#[derive(Debug, Default)]
pub enum Kept {
    /// All.
    #[default]
    All,
    /// None.
    Nothing,
    /// Those that meet one of these conditions.
    Only(Box<[StringCondition]>),
    /// Those that meet none of these conditions.
    Without(Box<[StringCondition]>),
}

impl Kept {
    /// Whether there is a metric of this name.
    pub fn has(&self, name: &str) -> bool {
        let meets = |conditions: &[StringCondition]| conditions.iter().any(|condition| condition.matches(name));
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Only(conditions) => meets(conditions),
            Self::Without(conditions) => !meets(conditions),
        }
    }
}

/// Whom metrics are pushed to, in OpenTelemetry's protocol.
#[derive(Debug)]
pub struct Sink {
    /// Where it is.
    pub collector: Collector,
    /// How often it is told.
    pub interval: Duration,
    /// What counters are told as.
    pub counters: Temporality,
    /// What histograms are told as.
    pub histograms: Temporality,
    /// What metrics are called.
    pub naming: Naming,
    /// Whether what varies in names is told as attributes.
    pub has_attributes: bool,
    /// What stands before each name, its dot included.
    pub prefix: Box<str>,
    /// So many values go in a call, at most.
    pub most: Option<NonZeroUsize>,
}

/// What numbers that grow are told as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// What came since they were told last.
    Delta,
    /// All since the proxy began.
    Cumulative,
}

/// What metrics are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Without what varies, such as the name of a cluster.
    Tagged,
    /// By their whole names.
    Whole,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_kept_or_what_is_left_out() {
        let list = || -> Box<[StringCondition]> { [StringCondition::Prefix("cluster.".into())].into() };
        for (kept, expected) in [
            (Kept::All, [true, true]),
            (Kept::Nothing, [false, false]),
            (Kept::Only(list()), [true, false]),
            (Kept::Without(list()), [false, true]),
        ] {
            let has = ["cluster.a.upstream_rq_total", "server.live"].map(|name| kept.has(name));
            assert_eq!(has, expected, "{kept:?}");
        }
    }
}
