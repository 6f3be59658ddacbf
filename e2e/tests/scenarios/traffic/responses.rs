//! What changes responses, holds them up, or has the proxy answer in place of a backend that fails too often.

use crate::{resources, statuses::wait_until_said};
use anyhow::{Result, ensure};
use e2e::{
    http::{Request, Response},
    stack::{DataPlane, Stack},
};
use std::{
    io::Read,
    time::{Duration, Instant},
};

/// The host of the quickstart's route.
const HOST: &str = "www.example.com";

/// The quickstart, with a policy over its route whose spec has these lines.
fn start(plane: &DataPlane, fields: &str) -> Result<Stack> {
    let stack = Stack::start(plane)?;
    shape(&stack, fields)?;
    Ok(stack)
}

fn shape(stack: &Stack, fields: &str) -> Result<()> {
    let target = "{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: www }";
    stack.put("policy.yaml", &resources::traffic_policy("traffic", target, fields))
}

/// Shows that the route is closed while the policy says what can't be honoured, and open without it.
fn fails_closed(stack: &Stack, fields: &str, why: &str) -> Result<()> {
    shape(stack, fields)?;
    wait(stack, "/", &[], |answer| answer.status == 500)?;
    wait_until_said(stack, ["BackendTrafficPolicy", "traffic", "Accepted", "False"], why)?;
    stack.remove("policy.yaml")?;
    wait(stack, "/", &[], |answer| answer.status == 200).map(drop)
}

fn send(stack: &Stack, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
    let request = Request {
        headers,
        ..Request::get(HOST, path)
    };
    stack.send(&request)
}

/// Waits until a request is answered as it should be.
fn wait(
    stack: &Stack,
    path: &str,
    headers: &[(&str, &str)],
    is_wanted: impl Fn(&Response) -> bool,
) -> Result<Response> {
    let request = Request {
        headers,
        ..Request::get(HOST, path)
    };
    stack.ask_until(&format!("the answer to {path} with {headers:?}"), &request, is_wanted)
}

fn decoded(answer: &Response) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let body = answer.body.as_slice();
    match answer.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut text)?,
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut text)?,
        Some("zstd") => ruzstd::decoding::StreamingDecoder::new(body)?.read_to_end(&mut text)?,
        _ => return Ok(answer.body.clone()),
    };
    Ok(text)
}

pub(crate) fn responses_are_compressed_as_clients_like(plane: &DataPlane) -> Result<()> {
    let stack = start(
        plane,
        "  compressor: [{ type: Brotli }, { type: Gzip, minContentLength: 100 }, { type: Zstd }]\n",
    )?;
    let encoding = |answer: &Response| answer.header("content-encoding").map(str::to_owned);
    wait(&stack, "/", &[("accept-encoding", "br")], |answer| {
        encoding(answer).as_deref() == Some("br")
    })?;
    for (accepted, wanted) in [
        ("gzip", Some("gzip")),
        ("zstd", Some("zstd")),
        ("gzip, zstd, br", Some("br")),
        ("zstd, gzip;q=0.9", Some("zstd")),
        ("br;q=0.1, gzip;q=0.2", Some("gzip")),
        ("br;q=0, *", Some("gzip")),
        ("identity, br;q=0.5", None),
        ("deflate", None),
        ("br;q=0, gzip;q=0, zstd;q=0", None),
    ] {
        let answer = send(&stack, "/", &[("accept-encoding", accepted)])?;
        assert_eq!(encoding(&answer).as_deref(), wanted, "{accepted}: {answer:?}");
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"), "{accepted}: {answer:?}");
        assert_eq!(
            answer.header("content-length").is_some(),
            wanted.is_none(),
            "{answer:?}"
        );
        let seen: serde_json::Value = serde_json::from_slice(&decoded(&answer)?)?;
        assert_eq!(seen["path"], "/", "{accepted}");
        assert_eq!(seen["headers"]["Accept-Encoding"][0], accepted);
    }
    let answer = send(&stack, "/", &[])?;
    assert_eq!(
        (encoding(&answer), answer.header("vary")),
        (None, Some("Accept-Encoding"))
    );

    stack.remove("policy.yaml")?;
    let answer = wait(&stack, "/", &[("accept-encoding", "br")], |answer| {
        answer.header("vary").is_none()
    })?;
    assert_eq!(encoding(&answer), None);
    fails_closed(&stack, "  compressor: [{ type: Rar }]\n", "Compression")
}

pub(crate) fn responses_are_replaced(plane: &DataPlane) -> Result<()> {
    let stack = start(
        plane,
        "  responseOverride:\n  \
         - match: { statusCodes: [{ value: 404 }, { type: Range, range: { start: 500, end: 502 } }] }\n    \
           source: Backend\n    \
           response: { contentType: text/html, statusCode: 410, body: { inline: '<p>100%% %REQ(x-id)%</p>' } }\n  \
         - match: { statusCodes: [{ value: 403 }] }\n    \
           redirect: { scheme: http, hostname: www.example.com, statusCode: 302, \
                       path: { type: ReplaceFullPath, replaceFullPath: /login } }\n  \
         - match: { statusCodes: [{ value: 429 }] }\n    \
           source: Local\n    \
           response: { body: { inline: busy } }\n  \
         rateLimit:\n    type: Local\n    local: { rules: [\
           { clientSelectors: [{ headers: [{ name: x-slow, value: 'yes' }] }], limit: { requests: 1, unit: Hour } }] }\n",
    )?;
    let answer = wait(&stack, "/status/404", &[("x-id", "seven")], |answer| {
        answer.status == 410
    })?;
    assert_eq!(String::from_utf8_lossy(&answer.body), "<p>100% seven</p>");
    assert_eq!(answer.header("content-type"), Some("text/html"), "{answer:?}");
    let answer = send(&stack, "/status/501", &[])?;
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (410, &b"<p>100% -</p>"[..]),
        "{answer:?}"
    );
    // What isn't named stays, and so does what the backend says with the code of one that is the proxy's.
    for status in [200, 400, 429, 503] {
        let answer = send(&stack, &format!("/status/{status}"), &[])?;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.json()?["path"], format!("/status/{status}"));
    }
    let slow = [("x-slow", "yes")];
    wait(&stack, "/", &slow, |answer| answer.status == 429)?;
    let answer = send(&stack, "/", &slow)?;
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (429, &b"busy"[..]),
        "{answer:?}"
    );
    // Of a forbidden page the client gets another one, with the code that was asked for.
    let answer = send(&stack, "/status/403?a=b", &[("x-id", "eight")])?;
    assert_eq!(answer.status, 302, "{answer:?}");
    let seen = answer.json()?;
    assert_eq!((&seen["path"], &seen["method"]), (&"/login?a=b".into(), &"GET".into()));
    assert_eq!(seen["headers"]["X-Id"][0], "eight");

    stack.remove("policy.yaml")?;
    wait(&stack, "/status/404", &[], |answer| answer.status == 404)?;
    let never = "  responseOverride: [{ match: { statusCodes: [{ value: 99 }] }, response: { statusCode: 410 } }]\n";
    fails_closed(&stack, never, "ResponseOverride")
}

pub(crate) fn responses_pass_at_a_rate(plane: &DataPlane) -> Result<()> {
    let stack = start(
        plane,
        "  bandwidthLimit: { response: { limit: { value: 1Ki, unit: Second } } }\n",
    )?;
    // The echo tells of it all.
    let long = "x".repeat(2048);
    let lasts = |is_wanted: fn(Duration) -> bool| {
        stack.look_until("a response in its time", || {
            let begun = Instant::now();
            let answer = send(&stack, "/", &[("x-long", &long)])?;
            ensure!(answer.status == 200, "{answer:?}");
            assert_eq!(answer.json()?["headers"]["X-Long"][0], long.as_str());
            let time = begun.elapsed();
            ensure!(is_wanted(time), "it took {time:?}");
            Ok(Some(()))
        })
    };
    // More than two seconds' worth, less what the bucket has at the beginning and what other tries have left.
    const HELD_UP: Duration = Duration::from_secs(1);
    lasts(|time| time > HELD_UP)?;
    stack.remove("policy.yaml")?;
    lasts(|time| time < HELD_UP)?;
    let little = "  bandwidthLimit: { response: { limit: { value: 59Ki, unit: Minute } } }\n";
    fails_closed(&stack, little, "BandwidthLimit")
}

pub(crate) fn requests_are_refused_while_too_few_succeed(plane: &DataPlane) -> Result<()> {
    let stack = start(
        plane,
        "  admissionControl: { samplingWindow: 60s, minSuccessRate: 50, maxRejectionPercent: 80 }\n",
    )?;
    // All went well so far.
    for _ in 0..20 {
        assert_eq!(send(&stack, "/", &[])?.status, 200);
    }
    // Who is refused is a matter of chance, and more are the fewer succeed.
    stack.look_until("most requests to be refused", || {
        let mut refused = 0;
        for _ in 0..20 {
            refused += usize::from(send(&stack, "/status/500", &[])?.status == 503);
        }
        ensure!(refused >= 10, "{refused} of 20 were refused");
        Ok(Some(()))
    })?;
    let answer = wait(&stack, "/", &[], |answer| answer.status == 503)?;
    assert!(answer.body.is_empty(), "{answer:?}");
    // Some are always let through.
    wait(&stack, "/", &[], |answer| answer.status == 200)?;

    stack.remove("policy.yaml")?;
    stack.look_until("a time without refusals", || {
        for _ in 0..20 {
            ensure!(send(&stack, "/", &[])?.status == 200, "one was refused");
        }
        Ok(Some(()))
    })?;
    fails_closed(
        &stack,
        "  admissionControl: { minSuccessRate: 0 }\n",
        "AdmissionControl",
    )
}
