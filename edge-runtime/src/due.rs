//! Branches of a `select!` for what there may not be: a time that nobody set, work that isn't under way. Without it
//! they never resolve, and the other branches decide.

use futures_util::future::BoxFuture;
use std::future;
use tokio::time::{self, Instant};

/// Resolves at a time.
pub(crate) async fn at(due: Option<Instant>) {
    match due {
        Some(due) => time::sleep_until(due).await,
        None => future::pending().await,
    }
}

/// Resolves with what comes of work. It stays where it is: who takes its result takes it away.
pub(crate) async fn done<T>(work: &mut Option<BoxFuture<'_, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => future::pending().await,
    }
}
