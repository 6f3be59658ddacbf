//! Requests that change something and come from another site (Envoy's `csrf`).

use crate::config::header::StringCondition;
use crate::config::route::Fraction;

/// Where requests may come from.
#[derive(Debug)]
pub struct SiteCheck {
    /// Of so many requests.
    pub enforced: Fraction,
    /// Origins that are let through besides the target's own.
    pub trusted: Box<[StringCondition]>,
}
