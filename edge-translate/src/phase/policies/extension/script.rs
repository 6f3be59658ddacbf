//! Lua scripts, judged without running them.
//!
//! Where scripts are checked strictly, what a sandbox would find out is told from the text: a script must define a
//! function that the proxy calls, call only methods that the proxy's handles have, and reach neither files nor
//! environment nor code from elsewhere beyond what the EdgeProxy allows. To be sure of that, a script may not hand the
//! libraries for these on to anybody either.

use super::{Allowed, EntryPosition, Read};
use crate::{
    api::{edge_proxy::LuaValidation, extension::Lua, security::TextSource},
    engine::reader::Reader,
    lua::{self, Script},
    phase::policies::traffic::Problems,
    settings::Feature,
};
use edge_ir::{FilterId, FilterInstance, FilterKind, FilterSettings, LuaScript};
use serde_json::Value;
use std::sync::Arc;

const AREA: &str = "Lua";

/// Functions that a proxy calls.
const HANDLERS: [&str; 2] = ["envoy_on_request", "envoy_on_response"];

/// Methods of what a proxy hands to them.
const METHODS: [&str; 26] = [
    "base64Escape",
    "body",
    "bodyChunks",
    "clearRouteCache",
    "connection",
    "connectionStreamInfo",
    "filterContext",
    "headers",
    "httpCall",
    "importPublicKey",
    "logCritical",
    "logDebug",
    "logErr",
    "logInfo",
    "logTrace",
    "logWarn",
    "metadata",
    "respond",
    "route",
    "setUpstreamOverrideHost",
    "streamInfo",
    "timestamp",
    "timestampString",
    "trailers",
    "verifySignature",
    "virtualHost",
];

/// Names through which a script leaves itself.
const WAYS_OUT: [&str; 15] = [
    "_G",
    "debug",
    "dofile",
    "ffi",
    "getfenv",
    "io",
    "jit",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "os",
    "package",
    "require",
    "setfenv",
];

/// Functions of these that only tell the time.
const HARMLESS: [&str; 4] = ["os.clock", "os.date", "os.difftime", "os.time"];

/// What was found out about a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Checked {
    /// The entry, in the words of messages.
    name: String,
    /// The script.
    text: Arc<lua::Text>,
    /// The function that messages about all of it name.
    handler: Option<&'static str>,
}

pub(super) fn read(reader: &Reader<'_>, place: EntryPosition<'_>, entry: &Value) -> Result<Read, Arc<str>> {
    let spec: Lua = place.parse(entry)?;
    place.checked(|problems| {
        let context = spec.filter_context.as_ref();
        if context.is_some_and(|context| !context.is_object()) {
            problems.add(AREA, "filterContext must be an object");
        }
        let text = reader.script(&code(reader, &spec, problems)?);
        let code = Arc::clone(&text.code);
        let checked = Checked {
            name: format!("{}/lua/{}", place.owner, place.index),
            handler: HANDLERS.into_iter().find(|name| code.contains(name)),
            text,
        };
        let script = LuaScript {
            code,
            context: context.map(|context| context.to_string().into()),
        };
        Some(Read::Script {
            instance: FilterInstance {
                id: FilterId {
                    kind: FilterKind::Lua,
                    owner: place.owner(),
                },
                settings: FilterSettings::Script(Arc::new(script)),
            },
            checked: Arc::new(checked),
        })
    })
}

fn code(reader: &Reader<'_>, spec: &Lua, problems: &mut Problems) -> Option<Arc<str>> {
    let reference = match (&spec.r#type, &spec.inline, &spec.value_ref) {
        (TextSource::Inline, Some(code), None) => return Some((&**code).into()),
        (TextSource::ValueRef, None, Some(reference)) => reference,
        _ => {
            problems.add(AREA, "Exactly one of inline or valueRef must be set with correct type");
            return None;
        }
    };
    if &*reference.kind != "ConfigMap" || !matches!(&*reference.group, "" | "v1") {
        problems.add(
            AREA,
            "Only a reference to an object of kind ConfigMap belonging to default v1 API group is supported",
        );
        return None;
    }
    let (namespace, name) = (&reference.home, &reference.name);
    let Some(map) = reader.config_map(reader.id(namespace, name)) else {
        problems.add(
            AREA,
            format_args!("can't find the referenced configmap {name} in namespace {namespace}"),
        );
        return None;
    };
    let first = || map.data.iter().min_by_key(|(key, _)| *key).map(|(_, text)| text);
    let Some(code) = map.data.get("lua").or_else(first) else {
        problems.add(
            AREA,
            format_args!("can't find the key lua in the referenced configmap {name}"),
        );
        return None;
    };
    Some(code.into())
}

impl Checked {
    /// Whether a fleet takes the script.
    pub(super) fn judge(&self, reader: &Reader<'_>, allowed: &Allowed) -> Result<(), Arc<str>> {
        if reader.settings().lua_api == Feature::Disabled {
            return Err("Lua: Skipping Lua EdgeExtensionPolicy as feature is disabled in the Gateway.".into());
        }
        let fault = match (&allowed.lua.validation_type, &self.text.script) {
            (LuaValidation::Disabled, _) => None,
            (_, Err(why)) => Some(self.with_handler(self.handler, why)),
            // No proxy takes it, whoever else would.
            (_, Ok(Script { end: Some(why), .. })) => Some(self.with_handler(self.handler, why)),
            (LuaValidation::InsecureSyntax, Ok(script)) => defines_nothing(script),
            // A word that nobody knows means the strictest.
            (LuaValidation::Strict | LuaValidation::Other(_), Ok(script)) => {
                defines_nothing(script).or_else(|| self.strict(script, allowed))
            }
        };
        match fault {
            None => Ok(()),
            Some(fault) => {
                let name = &self.name;
                Err(format!("Lua: validation failed for lua body in policy with name {name}: {fault}.").into())
            }
        }
    }

    fn with_handler(&self, handler: Option<&str>, why: &str) -> String {
        match handler {
            Some(handler) => format!("failed to validate with {handler}: {why}"),
            None => why.to_owned(),
        }
    }

    fn strict(&self, script: &Script, allowed: &Allowed) -> Option<String> {
        let handlers = script.functions.iter().filter(|f| HANDLERS.contains(&&*f.name));
        let unknown = handlers.into_iter().find_map(|function| {
            let method = function.methods.iter().find(|name| !METHODS.contains(&name.as_str()))?;
            let why = format!("attempt to call a non-function object: there is no method {method}");
            Some(self.with_handler(Some(&function.name), &why))
        });
        unknown.or_else(|| {
            let way = way_out(script, allowed)?;
            Some(self.with_handler(self.handler, &way))
        })
    }
}

fn defines_nothing(script: &Script) -> Option<String> {
    let mut names = script.functions.iter().map(|function| &*function.name);
    let [request, response] = HANDLERS;
    (!names.any(|name| HANDLERS.contains(&name)))
        .then(|| format!("expected one of {request}() or {response}() to be defined"))
}

/// How a script leaves itself in a way that isn't allowed.
fn way_out(script: &Script, allowed: &Allowed) -> Option<String> {
    let strict = allowed.lua.strict_validation.clone().unwrap_or_default();
    let leaves = |path: &str| WAYS_OUT.contains(&path.split('.').next().unwrap_or_default());
    let may_open = |path: &str| {
        let is_below = |root: &str| {
            let rest = path.strip_prefix(root.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !path.split('/').any(|part| part == "..") && strict.allowed_paths.iter().any(|root| is_below(root))
    };
    let is_allowed = |(path, text): &(String, Option<String>)| match (path.as_str(), text.as_deref()) {
        (path, _) if HARMLESS.contains(&path) => true,
        ("io.open" | "io.lines", Some(file)) => may_open(file),
        ("os.getenv", Some(name)) => strict.allowed_env_vars.iter().any(|known| **known == *name),
        _ => false,
    };
    let calls = script.calls.iter().filter(|(path, _)| leaves(path));
    if let Some((path, text)) = calls.into_iter().find(|call| !is_allowed(call)) {
        let text = text.as_deref().map(|text| format!("{text:?}")).unwrap_or_default();
        return Some(format!("{path}({text}) is not allowed"));
    }
    let used = script.uses.iter().find(|path| leaves(path))?;
    Some(format!("{used} can't be used but by a call"))
}
