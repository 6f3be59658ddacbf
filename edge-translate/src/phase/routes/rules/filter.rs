//! Filters of a rule: header edits, redirect, rewrite, mirrors, cross-origin rules, and those that stand in objects of
//! their own.

use super::{Compilation, Copies, Effect, RuleParts, Use, admissible, backend, cors, extension};
use crate::{
    api::{
        CorsFilter, HeaderModifier, HttpHeader, HttpPathMatch, HttpRouteRule, LocalObjectRef, PathMatchType,
        PathModifier, PathModifierType, RequestMirror, RequestRedirect, RouteFilter, RouteFilterType, UrlRewrite,
        text::Hostname,
    },
    name::RouteKind,
    phase::header::{self, Flaw},
    status::ended,
};
use edge_ir::{
    Cors, CustomObjects, DirectResponse, ForwardedHost, Fraction, HeaderEdits, HostRewrite, PathRewrite, Redirect,
    RedirectPort, Seldom, ValueMatch,
};
use std::{net::IpAddr, sync::Arc};

/// What the filters of a rule add up to.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) request_headers: HeaderEdits,
    pub(super) response_headers: HeaderEdits,
    pub(super) redirect: Option<Redirect>,
    pub(super) rewrite: Option<Rewrite>,
    pub(super) mirrors: Vec<Copies>,
    pub(super) cors: Option<Arc<Cors>>,
    /// An answer of the proxy's own, and headers of it.
    pub(super) answer: Option<(DirectResponse, HeaderEdits)>,
    /// Puts a credential into requests.
    pub(super) credential: Option<edge_ir::RouteFilter>,
    /// Tells what resolves hosts of a rewrite.
    pub(super) resolved: Option<edge_ir::RouteFilter>,
    /// Conditions on cookies of which one list must hold, unless one of them can't be told.
    pub(super) cookies: Option<Result<Vec<Seldom<ValueMatch>>, Unknown>>,
    /// What extension services are shown.
    pub(super) custom: CustomObjects,
    /// A urlRewrite of the route itself exists.
    has_url_rewrite: bool,
    /// A mirror exists, resolved or not.
    has_mirror: bool,
}

/// What can't be told.
pub(super) struct Unknown;

/// A rewrite of host and path.
#[derive(Default, Clone, PartialEq)]
pub(in crate::phase::routes) struct Rewrite {
    /// Of the host.
    pub(in crate::phase::routes) host: Option<HostRewrite>,
    /// Of the path.
    pub(in crate::phase::routes) path: Option<PathRewrite>,
    /// Whether the backend learns of the host that was rewritten.
    pub(in crate::phase::routes) forwarded_host: ForwardedHost,
}

impl Rewrite {
    /// Whether it rewrites anything.
    pub(super) fn is_any(&self) -> bool {
        self.host.is_some() || self.path.is_some()
    }

    /// This, and that of the rule where this says nothing.
    pub(in crate::phase::routes) fn over(self, rule: Self) -> Self {
        Self {
            host: self.host.or(rule.host),
            path: self.path.or(rule.path),
            forwarded_host: match self.forwarded_host {
                ForwardedHost::Told => rule.forwarded_host,
                ForwardedHost::Untold => ForwardedHost::Untold,
            },
        }
    }
}

/// Compiles the filters of a rule.
pub(super) fn compile(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>) -> Filters {
    let mut filters = Filters::default();
    for filter in rule.filters {
        one(c, filter, rule.prefix, &mut filters);
    }
    let pairs = [
        (
            filters.has_mirror && filters.redirect.is_some(),
            "RequestMirror",
            "RequestRedirect",
        ),
        (
            filters.has_mirror && filters.answer.is_some(),
            "RequestMirror",
            "DirectResponse",
        ),
        (
            filters.redirect.is_some() && filters.answer.is_some(),
            "RequestRedirect",
            "DirectResponse",
        ),
        (
            filters.has_url_rewrite && filters.redirect.is_some(),
            "URLRewrite",
            "RequestRedirect",
        ),
    ];
    for (_, one, other) in pairs.iter().filter(|(both, ..)| *both) {
        let message = format!("{one} filter cannot be used when the rule also configures a {other} filter.");
        c.fail("IncompatibleFilters", message);
    }
    filters
}

impl Filters {
    /// Adds a rewrite of one part to one of the other; two of the same part fail the rule.
    pub(super) fn add_rewrite(&mut self, c: &mut Compilation<'_, '_>, more: Rewrite) {
        let all = self.rewrite.get_or_insert_default();
        if (all.host.is_some() && more.host.is_some()) || (all.path.is_some() && more.path.is_some()) {
            twice(c, "urlRewrite");
        }
        all.host = all.host.take().or(more.host);
        all.path = all.path.take().or(more.path);
        if more.forwarded_host == ForwardedHost::Untold {
            all.forwarded_host = ForwardedHost::Untold;
        }
    }
}

/// A filter that may stand once in a rule.
pub(super) fn once<T>(c: &mut Compilation<'_, '_>, before: &Option<T>, what: &str) {
    if before.is_some() {
        twice(c, what);
    }
}

fn twice(c: &mut Compilation<'_, '_>, what: &str) {
    let message = format!("Cannot configure multiple {what} filters for a single HTTPRouteRule.");
    c.fail("UnsupportedValue", message);
}

/// Filters that only HTTPRoute has.
fn is_http_only(kind: &RouteFilterType) -> bool {
    use RouteFilterType as F;
    matches!(kind, F::RequestRedirect | F::UrlRewrite | F::Cors | F::ExternalAuth)
}

/// What a filter says.
enum Member<'a> {
    RequestHeaders(&'a HeaderModifier),
    ResponseHeaders(&'a HeaderModifier),
    Redirect(&'a RequestRedirect),
    Rewrite(&'a UrlRewrite),
    Mirror(&'a RequestMirror),
    Cors(&'a CorsFilter),
    Extension(&'a LocalObjectRef),
}

/// What a filter says in the field of its type, or why it can't be used by anybody.
fn member(filter: &RouteFilter) -> Result<Member<'_>, String> {
    use RouteFilterType as F;
    let kind = &filter.r#type;
    let (field, said) = match kind {
        F::RequestHeaderModifier => {
            let said = filter.request_header_modifier.as_deref();
            ("requestHeaderModifier", said.map(Member::RequestHeaders))
        }
        F::ResponseHeaderModifier => {
            let said = filter.response_header_modifier.as_deref();
            ("responseHeaderModifier", said.map(Member::ResponseHeaders))
        }
        F::RequestRedirect => (
            "requestRedirect",
            filter.request_redirect.as_deref().map(Member::Redirect),
        ),
        F::UrlRewrite => ("urlRewrite", filter.url_rewrite.as_deref().map(Member::Rewrite)),
        F::RequestMirror => ("requestMirror", filter.request_mirror.as_deref().map(Member::Mirror)),
        F::Cors => ("cors", filter.cors.as_deref().map(Member::Cors)),
        F::ExtensionRef => ("extensionRef", filter.extension_ref.as_deref().map(Member::Extension)),
        F::ExternalAuth | F::Other(_) => return Err(unsupported(kind)),
    };
    said.ok_or_else(|| format!("A filter of type {kind} needs the field `{field}`."))
}

fn unsupported(kind: &RouteFilterType) -> String {
    format!("Unsupported filter type: {kind}.")
}

fn one(c: &mut Compilation<'_, '_>, filter: &RouteFilter, prefix: Option<&str>, filters: &mut Filters) {
    let member = match c.kind == RouteKind::Grpc && is_http_only(&filter.r#type) {
        true => Err(unsupported(&filter.r#type)),
        false => member(filter),
    };
    match member {
        Err(message) => c.fail("UnsupportedValue", message),
        Ok(Member::RequestHeaders(edits)) => {
            merge(&mut filters.request_headers, header_edits(c, edits, Side::Request));
        }
        Ok(Member::ResponseHeaders(edits)) => {
            merge(&mut filters.response_headers, header_edits(c, edits, Side::Response));
        }
        Ok(Member::Redirect(redirect)) => {
            once(c, &filters.redirect, "requestRedirect");
            filters.redirect = Some(redirect_of(c, redirect, prefix));
        }
        Ok(Member::Rewrite(_)) if std::mem::replace(&mut filters.has_url_rewrite, true) => twice(c, "urlRewrite"),
        Ok(Member::Rewrite(rewrite)) => {
            let rewrite = rewrite_of(c, rewrite, prefix);
            filters.add_rewrite(c, rewrite);
        }
        Ok(Member::Mirror(mirror)) => {
            filters.has_mirror = true;
            filters.mirrors.extend(mirror_of(c, mirror));
        }
        Ok(Member::Cors(rules)) => {
            once(c, &filters.cors, "CORS");
            filters.cors = cors::compile(c, rules).map(Arc::new);
        }
        Ok(Member::Extension(reference)) => extension::apply(c, reference, filters),
    }
}

/// Whose headers are edited.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Request,
    Response,
}

impl Side {
    fn filter(self) -> &'static str {
        match self {
            Self::Request => "RequestHeaderModifier",
            Self::Response => "ResponseHeaderModifier",
        }
    }
}

/// Checks header edits; the good ones stay even where a bad one fails the rule.
pub(super) fn header_edits(c: &mut Compilation<'_, '_>, modifier: &HeaderModifier, side: Side) -> HeaderEdits {
    let filter = side.filter();
    let mut listed = |action, list: &[HttpHeader]| {
        header::edits(list, |header, flaw| {
            c.fail("UnsupportedValue", header_error(header, flaw, action, side));
        })
    };
    let mut edits = HeaderEdits {
        set: listed("set", &modifier.set),
        add: listed("add", &modifier.add),
        remove: Vec::new(),
    };
    for name in &modifier.remove {
        if name.is_empty() {
            c.fail(
                "UnsupportedValue",
                format!("{filter} Filter cannot remove a header with an empty name."),
            );
        } else if header::is_reserved(name) {
            let message = format!(
                "Header: \"{name}\". The {filter} filter cannot remove the Host header or headers with a '/' or ':' character in them."
            );
            c.fail("UnsupportedValue", message);
        } else if header::is_framing(name) {
            c.fail("UnsupportedValue", framing(filter, "remove", name));
        } else if admissible::field_name(name).is_err() {
            c.admit("name of a header to remove", name, admissible::field_name(name));
        } else if !edits.remove.iter().any(|n| n.eq_ignore_ascii_case(name)) {
            edits.remove.push((&**name).into());
        }
    }
    edits
}

/// Says what is wrong with an edit.
pub(super) fn header_error(header: &HttpHeader, flaw: Flaw, action: &str, side: Side) -> String {
    let (filter, name) = (side.filter(), &*header.name);
    match flaw {
        Flaw::Nameless => format!("{filter} Filter cannot {action} a header with an empty name."),
        Flaw::Reserved => {
            let hint = match side {
                Side::Request => " To modify the Host header use the URLRewrite or the HTTPRouteFilter filter.",
                Side::Response => "",
            };
            format!(
                "Header: \"{name}\". The {filter} filter cannot {action} the Host header or headers with a '/' or ':' character in them.{hint}"
            )
        }
        Flaw::Framing => framing(filter, action, name),
        Flaw::Name | Flaw::Value => {
            format!("Header: \"{name}\". {filter} Filter cannot {action} a header with an invalid value.")
        }
    }
}

fn framing(filter: &str, action: &str, name: &str) -> String {
    format!(
        "Header: \"{name}\". The {filter} filter cannot {action} it: {}.",
        header::WHOSE_FRAMING
    )
}

/// Later filters of a kind add to earlier ones; the first `set` of a name wins.
pub(super) fn merge(all: &mut HeaderEdits, more: HeaderEdits) {
    if all.is_empty() {
        *all = more;
        return;
    }
    for edit in more.set {
        if !all.set.iter().any(|e| e.name.eq_ignore_ascii_case(&edit.name)) {
            all.set.push(edit);
        }
    }
    all.add.extend(more.add);
    for name in more.remove {
        if !all.remove.iter().any(|n| n.eq_ignore_ascii_case(&name)) {
            all.remove.push(name);
        }
    }
}

/// The prefix that a ReplacePrefixMatch replaces. The CRD allows it only beside exactly one PathPrefix match.
pub(super) fn matched_prefix(rule: &HttpRouteRule) -> Option<&str> {
    match &*rule.matches {
        [] => Some(""),
        [one] => match &one.path {
            HttpPathMatch {
                r#type: PathMatchType::PathPrefix,
                value,
            } => Some(value.trim_end_matches('/')),
            _ => None,
        },
        _ => None,
    }
}

fn redirect_of(c: &mut Compilation<'_, '_>, redirect: &RequestRedirect, prefix: Option<&str>) -> Redirect {
    if let Some(scheme) = redirect.scheme.as_deref().filter(|s| !matches!(*s, "http" | "https")) {
        c.fail(
            "UnsupportedValue",
            format!("Scheme: {scheme} is unsupported, only 'https' and 'http' are supported."),
        );
    }
    if !matches!(redirect.status_code, 301 | 302 | 303 | 307 | 308) {
        let message = format!(
            "Status code {} is invalid, only 302 and 301 are supported.",
            redirect.status_code
        );
        c.fail("UnsupportedValue", message);
    }
    check_hostname(c, redirect.hostname.as_deref());
    if redirect.port == Some(0) {
        c.admit("port of requestRedirect", "0", Err("it must be from 1 to 65535".into()));
    }
    let path = redirect
        .path
        .as_ref()
        .and_then(|p| path_rewrite(c, p, prefix, "Redirect"));
    let port = match (redirect.port, redirect.scheme.as_deref()) {
        (Some(port), _) => RedirectPort::Number(port),
        (None, Some("http")) => RedirectPort::Number(80),
        (None, Some("https")) => RedirectPort::Number(443),
        (None, _) => RedirectPort::Listener,
    };
    Redirect {
        code: redirect.status_code,
        scheme: redirect.scheme.as_deref().map(Into::into),
        host: redirect.hostname.as_deref().map(Into::into),
        port,
        path,
    }
}

pub(super) fn rewrite_of(c: &mut Compilation<'_, '_>, rewrite: &UrlRewrite, prefix: Option<&str>) -> Rewrite {
    check_hostname(c, rewrite.hostname.as_deref());
    Rewrite {
        host: rewrite.hostname.as_deref().map(|h| HostRewrite::Literal(h.into())),
        path: rewrite
            .path
            .as_ref()
            .and_then(|p| path_rewrite(c, p, prefix, "Rewrite")),
        forwarded_host: ForwardedHost::Told,
    }
}

/// Longest label of a hostname (RFC 1123 §2.1).
const MAX_LABEL: usize = 63;

/// Fails the rule for what is no PreciseHostname (Gateway API v1.7.0), which an address isn't.
fn check_hostname(c: &mut Compilation<'_, '_>, hostname: Option<&str>) {
    let Some(name) = hostname else { return };
    let why = if !matches!(Hostname::parse(name), Ok(Hostname::Exact(_))) {
        "a lowercase RFC 1123 subdomain is a series of labels of lower case letters, digits and '-', joined by '.'"
    } else if name.split('.').any(|label| label.len() > MAX_LABEL) {
        "a label must be no more than 63 characters"
    } else if name.parse::<IpAddr>().is_ok() {
        "it must not be an IP address"
    } else {
        return;
    };
    c.fail("UnsupportedValue", format!("Hostname \"{name}\" is invalid: [{why}]."));
}

/// What becomes of a path, in a redirect or rewrite as `what` says.
fn path_rewrite(
    c: &mut Compilation<'_, '_>,
    path: &PathModifier,
    prefix: Option<&str>,
    what: &str,
) -> Option<PathRewrite> {
    let message = match (&path.r#type, &path.replace_full_path, &path.replace_prefix_match) {
        (PathModifierType::ReplaceFullPath, _, Some(_)) => {
            "ReplacePrefixMatch cannot be set when rewrite path type is \"ReplaceFullPath\"."
        }
        (PathModifierType::ReplaceFullPath, None, _) => {
            "ReplaceFullPath must be set when rewrite path type is \"ReplaceFullPath\"."
        }
        (PathModifierType::ReplaceFullPath, Some(full), _) => {
            c.admit("replaceFullPath", full, admissible::replacement(full))?;
            // There is no path without a slash.
            let full = if full.is_empty() { "/" } else { full };
            return Some(PathRewrite::Full(full.into()));
        }
        (PathModifierType::ReplacePrefixMatch, Some(_), _) => {
            "ReplaceFullPath cannot be set when rewrite path type is \"ReplacePrefixMatch\"."
        }
        (PathModifierType::ReplacePrefixMatch, _, None) => {
            "ReplacePrefixMatch must be set when rewrite path type is \"ReplacePrefixMatch\"."
        }
        (PathModifierType::ReplacePrefixMatch, _, Some(replacement)) => match prefix {
            Some(prefix) => {
                c.admit("replacePrefixMatch", replacement, admissible::replacement(replacement))?;
                return Some(PathRewrite::Prefix {
                    matched: prefix.into(),
                    replacement: replacement.trim_end_matches('/').into(),
                });
            }
            None => "ReplacePrefixMatch needs exactly one match, of type PathPrefix.",
        },
        (PathModifierType::Other(kind), ..) => &format!(
            "{what} path type: {kind} is invalid, only \"ReplaceFullPath\" and \"ReplacePrefixMatch\" are supported."
        ),
    };
    c.fail("UnsupportedValue", message);
    None
}

/// A mirror that can't be resolved is left out: the request itself goes on.
fn mirror_of(c: &mut Compilation<'_, '_>, mirror: &RequestMirror) -> Option<Copies> {
    check_fraction(c, mirror);
    let fraction = fraction(mirror);
    match backend::resolve(c, mirror.backend_ref.target()) {
        Ok(resolved) => {
            c.wanting.push((resolved.backend.port, Use::Mirror));
            if let Some(problem) = &resolved.refused {
                c.note(Effect::BackendRefused, problem.reason, no_mirror(&problem.message));
            }
            if fraction.0 > 0 {
                backend::note_port(c, "filters", mirror.backend_ref.target(), &resolved);
            }
            let backend = resolved.backend;
            Some(Copies { backend, fraction })
        }
        Err(problem) => {
            c.note(Effect::RefUnresolved, problem.reason, no_mirror(&problem.message));
            None
        }
    }
}

fn no_mirror(why: &str) -> String {
    format!("Failed to validate the RequestMirror filter: {}", ended(why))
}

/// A share is from nothing to all, said in one way (CRD: HTTPRequestMirrorFilter).
fn check_fraction(c: &mut Compilation<'_, '_>, mirror: &RequestMirror) {
    if let Some(percent) = mirror.percent.filter(|p| *p > 100) {
        c.admit(
            "percent of requestMirror",
            &percent.to_string(),
            Err("it must be from 0 to 100".into()),
        );
    }
    if let Some(f) = mirror
        .fraction
        .as_ref()
        .filter(|f| f.denominator == 0 || f.numerator > f.denominator)
    {
        let text = format!("{}/{}", f.numerator, f.denominator);
        c.admit("fraction of requestMirror", &text, Err("it must be from 0 to 1".into()));
    }
    if mirror.percent.is_some() && mirror.fraction.is_some() {
        c.fail(
            "UnsupportedValue",
            "Only one of percent and fraction may be set in requestMirror.",
        );
    }
}

fn fraction(mirror: &RequestMirror) -> Fraction {
    const MILLION: u64 = 1_000_000;
    let parts = match (&mirror.fraction, mirror.percent) {
        (Some(f), _) => u64::from(f.numerator) * MILLION / u64::from(f.denominator.max(1)),
        (None, Some(percent)) => u64::from(percent) * MILLION / 100,
        (None, None) => MILLION,
    };
    Fraction(u32::try_from(parts.min(MILLION)).unwrap_or(1_000_000))
}
