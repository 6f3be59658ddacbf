//! What services make of requests and responses, in every way in which they can be shown to them: messages are changed,
//! replaced and answered, and services that are late, break off or talk nonsense fail closed, or open where that is
//! wanted.

use super::processor::Wisher;
use crate::{
    policies::{Answer, GrpcPeer, HttpPeer, Received},
    resources::{backend, route},
};
use anyhow::{Result, ensure};
use e2e::{
    http::{self, Response},
    stack::{DataPlane, Stack},
};
use std::{
    io::{BufReader, Write as _},
    sync::{Arc, atomic::Ordering},
};

/// The host of the route whose messages are processed.
const HOST: &str = "processed.example.com";
/// More than a proxy keeps of a message.
const LONG: usize = 100_000;

/// The quickstart with a processor, a backend that says what it got, and a route to it.
struct Processed {
    stack: Stack,
    wisher: Arc<Wisher>,
    _processor: GrpcPeer,
    _app: HttpPeer,
}

impl Processed {
    fn start(plane: &DataPlane) -> Result<Self> {
        let stack = Stack::start(plane)?;
        let wisher = Arc::<Wisher>::default();
        let (processor, app) = (Wisher::start(&wisher)?, HttpPeer::start(app)?);
        let head = format!("  hostnames: [{HOST}]\n");
        let route = route("HTTPRoute", "app", "{ name: quickstart }", &head, "app");
        let (app_is, processor_is) = (backend("app", app.port), backend("processor", processor.port));
        stack.put("app.yaml", &format!("{app_is}{processor_is}{route}"))?;
        Ok(Self {
            stack,
            wisher,
            _processor: processor,
            _app: app,
        })
    }

    /// Shows messages so, and waits until a request shows that it is so: its wish, status and a part of the answer.
    fn shows(&self, fields: &str, (wish, body, status, part): (&str, &str, u16, &str)) -> Result<()> {
        let policy = format!(
            "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgeExtensionPolicy\n\
             metadata: {{ name: processed, namespace: default }}\nspec:\n  \
             targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: app }}]\n  extProc:\n  \
             - backendRefs: [{{ group: gateway.edge, kind: Backend, name: processor }}]\n{fields}"
        );
        self.stack.put("policy.yaml", &policy)?;
        self.stack.look_until(fields, || {
            let answer = self.post(wish, body)?;
            let is_so = answer.status == status && described(&answer).contains(part);
            ensure!(is_so, "the last answer was {}", described(&answer));
            Ok(Some(()))
        })
    }

    /// Posts a text with a wish for the processor.
    fn post(&self, wish: &str, body: &str) -> Result<Response> {
        let mut stream = http::connect(self.stack.gateway())?;
        let length = body.len();
        let head = format!(
            "POST /path?query HTTP/1.1\r\nhost: {HOST}\r\nx-wish: {wish}\r\nx-gone: here\r\nx-many: one\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        // Who refuses a request may not read it.
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        http::read_response(&mut BufReader::new(stream))
    }

    /// What comes of a wish: status, and all that is told.
    fn gives(&self, wish: &str, body: &str, (status, parts): (u16, &[&str])) -> Result<()> {
        let answer = self.post(wish, body)?;
        let told = described(&answer);
        let is_so = answer.status == status && parts.iter().all(|part| told.contains(part));
        ensure!(
            is_so,
            "{wish}: wanted {status} with {parts:?}, got {told}\n{}",
            self.stack.logs()
        );
        Ok(())
    }
}

/// Says what it got.
fn app(received: &Received) -> Answer {
    let header = |name: &str| {
        let all = received.headers.iter().filter(|(n, _)| n == name);
        all.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("+")
    };
    let [set, gone, many, seen] = ["x-set", "x-gone", "x-many", "x-seen"].map(header);
    let line = received.line.trim_end();
    let body = String::from_utf8_lossy(&received.body);
    let text = format!("<{line}> set<{set}> gone<{gone}> many<{many}> seen<{seen}> body<{body}>");
    (200, Vec::new(), text)
}

/// An answer as one text.
fn described(answer: &Response) -> String {
    let told = answer.header("x-told").unwrap_or("nothing");
    let body = String::from_utf8_lossy(&answer.body);
    let end = body.len().min(900);
    format!("{} told<{told}> {}", answer.status, body.get(..end).unwrap_or_default())
}

pub(crate) fn services_process_heads(plane: &DataPlane) -> Result<()> {
    let www = Processed::start(plane)?;
    let both = "    messageTimeout: 1s\n    processingMode:\n      allowModeOverride: true\n      \
                request: { attributes: [request.path, request.url_path, request.query, request.host, request.scheme, \
                request.method, request.referer, request.useragent, request.protocol, source.address, \
                destination.address, connection.requested_server_name, connection.mtls, xds.route_name] }\n      \
                response: { attributes: [response.code, request.path] }\n";
    www.shows(both, ("nothing", "", 200, "told<response head 200>"))?;
    let seen = "seen<request head POST /path?query";
    www.gives(
        "nothing",
        "abc",
        (
            200,
            &["<POST /path?query HTTP/1.1>", seen, "gone<here> many<one>", "body<abc>"],
        ),
    )?;
    // Its own names, and those that routes go by, aren't the service's to change.
    let changed = ["<POST /other HTTP/1.1>", "set<a> gone<> many<one+two>", "body<abc>"];
    www.gives("change", "abc", (201, &changed))?;
    let attributes = [
        "connection.mtls=false,connection.requested_server_name=,destination.address=127.0.0.1:",
        ",request.host=processed.example.com,request.method=POST,request.path=/path?query,request.protocol=HTTP/1.1,\
         request.query=query,request.scheme=http,request.url_path=/path,source.address=127.0.0.1:",
        ",xds.route_name=httproute/default/app/rule/0/match/0/processed_example_com> body",
    ];
    www.gives("nothing", "", (200, &attributes))?;
    www.gives(
        "attributes",
        "",
        (200, &["told<request.path=/path?query,response.code=200>"]),
    )?;
    www.gives("answer", "abc", (403, &["told<no>", "go away"]))?;
    www.gives("answer-response", "abc", (418, &["told<no>", "go away"]))?;
    www.gives("replace", "abc", (200, &["body<instead>"]))?;
    www.gives("replace-response", "abc", (200, &["told<replaced> instead"]))?;
    www.gives("show-response", "abc", (200, &["BODY<ABC>"]))?;
    www.gives("invalid", "", (500, &[]))?;
    www.gives("late", "", (504, &[]))?;
    www.gives("late-response", "", (504, &[]))?;
    www.gives("odd", "", (500, &[]))?;
    www.gives("break", "", (500, &[]))?;
    www.gives("break-response", "", (500, &[]))?;
    www.gives("close", "abc", (200, &["told<nothing>", "body<abc>"]))?;

    let open = format!("{both}    failOpen: true\n");
    www.shows(&open, ("break", "abc", 200, "body<abc>"))?;
    for wish in ["late", "late-response", "odd", "break-response"] {
        www.gives(wish, "abc", (200, &["body<abc>"]))?;
    }
    www.gives("invalid", "", (500, &[]))?;
    www.gives("answer", "abc", (403, &["told<no>", "go away"]))?;
    let status = format!("{both}    statusOnError: 503\n");
    www.shows(&status, ("break", "", 503, ""))?;
    www.gives("odd", "", (503, &[]))?;
    www.gives("invalid", "", (503, &[]))?;
    www.gives("late", "", (504, &[]))
}

pub(crate) fn services_process_content(plane: &DataPlane) -> Result<()> {
    let www = Processed::start(plane)?;
    let long = "x".repeat(LONG);
    let mode = |mode: &str| {
        format!(
            "    messageTimeout: 1s\n    processingMode: {{ request: {{ body: {mode} }}, response: {{ body: {mode} }} }}\n"
        )
    };
    www.shows(&mode("Buffered"), ("upper", "abc", 200, "BODY<ABC>"))?;
    www.gives("nothing", "abc", (200, &["body<abc>"]))?;
    www.gives("answer-body", "abc", (403, &["told<no>", "go away"]))?;
    www.gives("mismatch", "abc", (500, &[]))?;
    www.gives("nothing", &long, (413, &[]))?;
    www.gives("late-body", "abc", (504, &[]))?;

    www.shows(&mode("BufferedPartial"), ("upper", &long, 200, "BODY<XXX"))?;
    ensure!(
        www.post("nothing", &long)?.body.len() > LONG,
        "a part of the content is lost"
    );
    www.gives("answer-body", "abc", (403, &["told<no>", "go away"]))?;

    www.shows(&mode("Streamed"), ("upper", &long, 200, "BODY<XXX"))?;
    let answer = www.post("upper", &long)?;
    let xs = answer.body.iter().filter(|byte| **byte == b'X').count();
    ensure!(xs >= LONG, "{xs} of {LONG} bytes");
    www.gives("upper", "abc", (200, &["BODY<ABC>"]))?;
    www.gives("nothing", "", (200, &["body<>"]))?;
    www.gives("answer-body", "abc", (403, &["told<no>", "go away"]))?;
    www.gives("late-body", "abc", (504, &[]))
}

pub(crate) fn services_send_content_of_their_own(plane: &DataPlane) -> Result<()> {
    let www = Processed::start(plane)?;
    let flows = "    processingMode:\n      request: { body: FullDuplexStreamed }\n      \
                 response: { body: FullDuplexStreamed }\n";
    www.shows(flows, ("flow", "abc", 200, "BODY<ABC!>"))?;
    www.gives("flow", "", (200, &["BODY<>"]))?;
    let long = "x".repeat(LONG);
    let answer = www.post("flow", &long)?;
    let xs = answer.body.iter().filter(|byte| **byte == b'X').count();
    ensure!(
        answer.status == 200 && xs >= LONG,
        "{xs} of {LONG} bytes: {}",
        answer.status
    );
    www.gives("answer-body", "abc", (403, &["told<no>", "go away"]))?;
    www.gives("break", "abc", (500, &[]))
}

pub(crate) fn services_watch_and_change_nothing(plane: &DataPlane) -> Result<()> {
    let www = Processed::start(plane)?;
    let watched =
        "    shadowMode: true\n    processingMode: { request: { body: Streamed }, response: { body: Streamed } }\n";
    www.shows(watched, ("change", "abc", 200, "body<abc>"))?;
    let before = www.wisher.heard.load(Ordering::Relaxed);
    www.gives(
        "change",
        "abc",
        (
            200,
            &["<POST /path?query HTTP/1.1>", "set<> gone<here>", "told<nothing>"],
        ),
    )?;
    // Both heads and both contents.
    www.stack.look_until("what was shown", || {
        let heard = www.wisher.heard.load(Ordering::Relaxed) - before;
        ensure!(heard >= 4, "{heard} messages");
        Ok(Some(()))
    })
}
