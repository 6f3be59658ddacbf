//! What browsers ask and say.

use super::{Guarded, get};
use anyhow::Result;
use e2e::{http::Request, stack::DataPlane};

pub(crate) fn scripts_of_other_origins_are_told_what_they_may_do(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let preflight = |origin: &'static str| -> Vec<(&'static str, &'static str)> {
        vec![("origin", origin), ("access-control-request-method", "PUT")]
    };
    let asks = |headers| Request {
        method: "OPTIONS",
        ..get(headers)
    };
    let allow = |origins: &str, methods: &str| {
        www.guard(&format!(
            "  cors: {{ allowOrigins: ['{origins}'], allowMethods: [{methods}], allowHeaders: [x-one], \
             exposeHeaders: [x-two], maxAge: 10m, allowCredentials: true }}\n"
        ))
    };
    let (friend, stranger) = (
        preflight("https://app.friend.example"),
        preflight("https://stranger.example"),
    );
    allow("https://*.friend.example", "GET, PUT")?;
    // Without the header a browser lets no script read anything, whatever else the answer says.
    let told = |headers, wanted: Option<&str>| {
        www.stack.ask_until("what scripts may do", &asks(headers), |answer| {
            answer.header("access-control-allow-origin") == wanted
        })
    };
    let answer = told(&friend, Some("https://app.friend.example"))?;
    for (header, value) in [
        ("access-control-allow-methods", "GET, PUT"),
        ("access-control-allow-headers", "x-one"),
        ("access-control-max-age", "600"),
        ("access-control-allow-credentials", "true"),
    ] {
        assert_eq!(answer.header(header), Some(value), "{answer:?}");
    }
    told(&stranger, None)?;
    let answer = www.answers(&get(&[("origin", "https://app.friend.example")]), 200)?;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.friend.example")
    );
    assert_eq!(answer.header("access-control-expose-headers"), Some("x-two"));

    allow("https://stranger.example", "GET")?;
    told(&stranger, Some("https://stranger.example"))?;
    told(&friend, None)?;
    allow("friend.example/path", "GET")?;
    www.answers(&asks(&stranger), 500)?;
    www.is_refused_for("CORS")?;
    www.open()?;
    told(&stranger, None).map(drop)
}

pub(crate) fn sites_that_forge_requests_are_refused(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let post = |headers| Request {
        method: "POST",
        ..get(headers)
    };
    let own = [("origin", "http://www.example.com"), ("content-length", "0")];
    let friend = [("origin", "https://friend.example"), ("content-length", "0")];
    let stranger = [("origin", "https://stranger.example"), ("content-length", "0")];
    www.answers(&post(&stranger), 200)?;
    www.guard("  csrf: {}\n")?;
    www.answers(&post(&stranger), 403)?;
    www.answers(&post(&friend), 403)?;
    www.answers(&post(&[("content-length", "0")]), 403)?;
    www.answers(&post(&own), 200)?;
    // What changes nothing may come from everywhere.
    www.answers(&get(&stranger), 200)?;
    www.guard("  csrf: { additionalOrigins: ['https://friend.example'] }\n")?;
    www.answers(&post(&friend), 200)?;
    www.answers(&post(&stranger), 403)?;
    www.guard("  csrf: { shadowFraction: { numerator: 3, denominator: 2 } }\n")?;
    www.closes(&post(&stranger), 500)?;
    www.is_refused_for("CSRF")?;
    www.stack.remove("policy.yaml")?;
    www.answers(&post(&stranger), 200).map(drop)
}
