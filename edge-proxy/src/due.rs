//! Branches of a `select!` for a time that may not be set: it never comes then, and the other branches decide.

use tokio::time::Instant;

/// Resolves at a time.
pub(crate) async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
