//! Requests that are waited for no longer than so. One that an API server takes and never answers, because it hangs or
//! something between us dies without a word, would hold its place among those that are made at a time for ever.

use futures_util::{FutureExt as _, future::BoxFuture};
use std::{
    task::{Context, Poll},
    time::Duration,
};
use thiserror::Error;
use tokio::time;
use tower::{BoxError, Service};

/// A service whose answers begin within a time, or are given up.
pub(super) struct Bounded<S> {
    inner: S,
    limit: Duration,
}

/// No answer has begun in time.
#[derive(Debug, Error)]
#[error("no answer within {} s", .0.as_secs())]
struct Unanswered(Duration);

impl<S> Bounded<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<S, R> Service<R> for Bounded<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (answer, limit) = (self.inner.call(request), self.limit);
        let bounded = async move {
            let answer = time::timeout(limit, answer).await;
            answer.map_err(|_| Unanswered(limit))?.map_err(Into::into)
        };
        bounded.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fault::describe;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use std::{convert::Infallible, future};

    #[tokio::test]
    async fn a_request_that_is_never_answered_is_given_up_and_others_are_not() {
        let service = |(): ()| future::pending::<Result<(), Infallible>>();
        let mut hung = Bounded::new(tower::service_fn(service), Duration::from_millis(10));
        let given_up = hung.call(()).await.unwrap_err();
        assert_eq!(given_up.to_string(), "no answer within 0 s");
        let service = |(): ()| future::ready(Ok::<_, Infallible>("answer"));
        let mut well = Bounded::new(tower::service_fn(service), Duration::from_secs(60));
        assert_eq!(well.call(()).await.unwrap(), "answer");
    }

    #[tokio::test]
    async fn what_is_given_up_is_told_in_words() {
        let service = |_: Request<Body>| future::pending::<Result<Response<Body>, Infallible>>();
        let hung = Bounded::new(tower::service_fn(service), Duration::from_millis(10));
        let asked = Client::new(hung, "default").apiserver_version().await;
        let told = describe(&asked.unwrap_err());
        assert!(told.contains("no answer within 0 s"), "{told}");
    }
}
