//! Retries and time limits.

use super::{Routed, backend, get};
use crate::policies::HttpPeer;
use anyhow::Result;
use e2e::stack::DataPlane;
use std::{sync::atomic::Ordering, thread, time::Duration};

pub(crate) fn requests_are_tried_again(plane: &DataPlane) -> Result<()> {
    let (peer, asked) = backend("one")?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    // How often the backend is asked for one request.
    let tries = || -> Result<usize> {
        let before = asked.load(Ordering::Relaxed);
        let answer = www.ask(&get("/fail"))?;
        assert_eq!(answer.status, 503);
        Ok(asked.load(Ordering::Relaxed) - before)
    };
    assert_eq!(tries()?, 1);

    let retry = |times: usize| {
        www.shape(&format!(
            "  retry: {{ numRetries: {times}, retryOn: {{ httpStatusCodes: [503] }}, \
             perRetry: {{ backOff: {{ baseInterval: 1ms, maxInterval: 2ms }} }} }}\n"
        ))
    };
    retry(2)?;
    www.holds("three tries", || Ok(tries()? == 3))?;
    retry(4)?;
    www.holds("five tries", || Ok(tries()? == 5))?;
    // Nothing of what is asked here calls for another try.
    www.shape("  retry: { numRetries: 4, retryOn: { httpStatusCodes: [502] } }\n")?;
    www.holds("one try for other statuses", || Ok(tries()? == 1))?;
    retry(2)?;
    www.holds("three tries again", || Ok(tries()? == 3))?;
    www.unshape()?;
    www.holds("one try without a policy", || Ok(tries()? == 1))?;
    let never = "  retry: { numRetries: 2, perRetry: { backOff: { baseInterval: 0s } } }\n";
    www.fails_closed(never, "Retry")
}

/// How long the backend takes for an answer, and a limit far below.
const SLOW: Duration = Duration::from_millis(400);

pub(crate) fn requests_end_in_time(plane: &DataPlane) -> Result<()> {
    let peer = HttpPeer::start(|_| {
        thread::sleep(SLOW);
        (200, Vec::new(), "at last")
    })?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    www.shape("  timeout: { http: { requestTimeout: 20ms } }\n")?;
    www.answers(&get("/"), 504)?;
    www.shape("  timeout: { http: { requestTimeout: 20s } }\n")?;
    www.answers(&get("/"), 200)?;
    // The limit of a try counts without one for the whole, and each try has it anew.
    www.shape("  retry: { numRetries: 1, retryOn: { triggers: [reset] }, perRetry: { timeout: 20ms } }\n")?;
    www.answers(&get("/"), 504)?;
    www.unshape()?;
    www.answers(&get("/"), 200)?;
    www.fails_closed("  timeout: { http: { requestTimeout: 3 parsecs } }\n", "Timeout")
}
