//! docs/edge-proxy.md tells of every field of Envoy's messages what edge-proxy does with it. It is made from the
//! patterns by which the compiler takes messages apart, so that it can't say anything else than the program does;
//! `EDGE_UPDATE=1` writes it anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use edge_proxy::logging::COMPONENTS;

/// One pattern.
#[derive(Default)]
struct Message {
    read: Vec<String>,
    refused: Vec<String>,
    ignored: Vec<String>,
    /// Why fields are of no effect.
    why: String,
}

/// What stands at the top of the document.
const INTRODUCTION: &str = "\
# What edge-proxy takes

Made from the program by `EDGE_UPDATE=1 cargo test -p edge-proxy --test fields`.

edge-proxy takes Envoy's v3 messages apart by patterns that name every field. A field is read; or a value in it makes the
proxy refuse the whole resource, by the path of the field; or it is of no effect, because what it says changes neither who
is served what nor how safely. Of fields that are read, some values may be refused in the same way. Messages that
are not listed (types of filters, of balancing) are refused by their name; an access log, a tracer or a tag of spans of a
kind that isn't known is left out, and the proxy's log says so.

Where a field leaves a form to the proxy, it is Envoy's, but for one: tokens in the cookies of logins (`OAuth2Config`) are
sealed with AES-256-GCM, under a key made of the HMAC secret, where Envoy has AES-256-CBC. So neither proxy opens the tokens
of the other, and its users log in once more; with `disable_token_encryption` either knows the sessions of both. A login
must end at the kind of proxy at which it began.

Regular expressions are about characters in UTF-8, and `\\w`, `\\d`, `\\s` about those of all languages; Envoy's are about
bytes, and these classes about ASCII. What stands in paths and queries is escaped, so only values of headers tell the two apart.

Tokens (JWT) that are signed by ES512, or by an RSA key below 2048 bits, are refused with 401, where Envoy verifies them.

Of certificates that are verified, these are refused where Envoy takes them: of version 1, unless one of `trusted_ca` itself has
signed them; those that say of themselves that they are an authority, unless they are in `trusted_ca`; both, and whatever is in
`trusted_ca` itself without an authority above, where lists of what was revoked (`crl`) are kept; those below an authority that
constrains names of URIs or mail addresses, if they have such names; and with `allow_expired_certificate` those below another
one that is out of date. A list of version 1 (without extensions) is refused with its resource.

Of bodies that processors are sent (`ProcessingMode`), `GRPC` is refused: the API of Envoy 1.40 has it as not implemented. Of how
a login proves which client it is (`auth_type`), `PRIVATE_KEY_JWT` is refused.

A name of a DNS cluster that can't be resolved keeps its last addresses, also one that its server says doesn't exist: to
the proxy that is a failure like others. With Envoy such a name has no addresses any more. Who takes a backend away for good takes
its name out of the configuration.

Failures of a host after a connection stood (resets, time limits, what is no HTTP) count as its own with
`split_external_local_origin_errors`, as Envoy's documents have it; Envoy forgets them with each connection that stands. A
`grpc-status` counts as the code that stands for it, whatever the request was; Envoy looks at that of gRPC requests alone.

In content that is made of a format (`body_format`), operators say what is known when it is written, as in Envoy: what takes the
place of a response (`custom_response`) may tell of flags, details, durations and the backend; of the end nothing is known.

Of the components that `--component-log-level` (`logging.level` of an EdgeProxy) names, these have lines here: COMPONENTS.
Levels of others are of no effect.

";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compile")
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// The names that a file gives to imported types, to their own names.
fn aliases(text: &str) -> BTreeMap<&str, &str> {
    let words = text.split([',', '{', '}', ';']);
    let renamed = words.filter_map(|word| word.split_once(" as "));
    renamed
        .map(|(path, alias)| (alias.trim(), path.rsplit("::").next().unwrap_or(path).trim()))
        .collect()
}

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| name.trim_start_matches("r#").to_owned()).collect();
    names.sort();
    names
}

/// Takes a pattern apart: what is used; what is ignored; what is refused.
fn message(pattern: &str) -> Message {
    let mut why = Vec::new();
    let mut code = String::new();
    for line in pattern.lines() {
        match line.trim().strip_prefix("//") {
            // Comments behind the list of ignored fields are about what is refused.
            Some(comment) if code.matches(';').count() < 2 => why.push(comment.trim()),
            Some(_) => {}
            None => {
                code.push_str(line);
                code.push(' ');
            }
        }
    }
    let mut parts = code.split(';').map(str::trim);
    let (used, ignored, refused) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    Message {
        read: names(used),
        ignored: names(ignored.strip_prefix("ignore").unwrap()),
        refused: names(refused.strip_prefix("refuse").unwrap()),
        why: why.join(" "),
    }
}

fn document() -> String {
    let mut files = Vec::new();
    sources(&folder(), &mut files);
    files.sort();
    let mut messages = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let aliases = aliases(&text);
        // The macro's own definition isn't a use of it.
        for after in text.split("fields!(").skip(1) {
            let (head, rest) = after.split_once('{').unwrap();
            let Some((_, name)) = head.split_once("=>") else {
                continue;
            };
            let name = name.trim();
            let name = aliases.get(name).copied().unwrap_or(name);
            let pattern = &rest[..rest.find('}').unwrap()];
            let stem = file.strip_prefix(folder()).unwrap().with_extension("");
            let place = (name.to_owned(), stem.display().to_string());
            messages.insert(place, message(pattern));
        }
    }
    let components: Vec<String> = COMPONENTS.iter().map(|(name, _)| format!("`{name}`")).collect();
    let mut text = INTRODUCTION.replace("COMPONENTS", &components.join(", "));
    for ((name, place), message) in messages {
        text.push_str(&format!("## {name}\n\nRead in `compile/{place}.rs`.\n\n"));
        for (what, fields) in [
            ("read", &message.read),
            ("refused", &message.refused),
            ("of no effect", &message.ignored),
        ] {
            if !fields.is_empty() {
                text.push_str(&format!("* {what}: `{}`\n", fields.join("`, `")));
            }
        }
        if !message.ignored.is_empty() && !message.why.is_empty() {
            text.push_str(&format!("\n{}\n", message.why));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_document_says_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/edge-proxy.md");
    let document = document();
    for name in [
        "## HttpConnectionManager\n",
        "## Cluster\n",
        "## RouteAction\n",
        "## AccessLog\n",
    ] {
        assert!(document.contains(name), "{name}");
    }
    if std::env::var_os("EDGE_UPDATE").is_some() {
        fs::write(&path, &document).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document,
        "docs/edge-proxy.md is out of date: run it with EDGE_UPDATE=1"
    );
}
