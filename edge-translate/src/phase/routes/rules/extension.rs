//! What rules and backends refer to by filters of type ExtensionRef: HTTPRouteFilters, and objects that extension
//! services know what to do about.

use super::{
    Compilation, Effect, Share, admissible,
    backend::Problem,
    destination::check_once,
    expression,
    filter::{self, Filters, Rewrite, Side, Unknown},
    matches::{one_of, value},
};
use crate::{
    api::{
        CookieMatch, DirectResponseFilter, HostModifier, HostModifierType, HttpRouteFilter, Kind, LocalObjectRef,
        RegexPathModifier, RegexPathModifierType, RegexReplacement, UrlRewriteFilter, route_filter::HttpHeader,
    },
    name::{FilterKey, FilterOwner, Id, RouteKind},
    phase::{body, header, routes::credential},
    status::ended,
};
use edge_ir::{
    DirectResponse, FilterEffect, FilterKind, ForwardedHost, HeaderEdit, HeaderEdits, HostRewrite, PathRewrite,
    RegexRewrite, RouteFilter, Seldom, ValueMatch,
};
use std::sync::Arc;

/// Whether extension services say what the filter does that a reference names.
fn is_of_services(c: &Compilation<'_, '_>, reference: &LocalObjectRef) -> bool {
    // Nearly all such filters are our own, and need no look at the configuration.
    Kind::of(&reference.group, &reference.kind).is_none()
        && c.reader.settings().extensions.iter().any(|manager| {
            let mut kinds = manager.resources.iter();
            kinds.any(|kind| kind.is(&reference.group, &reference.kind))
        })
}

/// Lets extension services be shown the object that a reference names.
fn show(c: &mut Compilation<'_, '_>, reference: &LocalObjectRef, filters: &mut Filters) {
    match c.reader.custom(c.namespace, reference) {
        Some(object) => filters.custom.resources.push(Arc::clone(&object.content)),
        None => {
            let message = format!(
                "Reference {}/{} not found for filter type: ExtensionRef",
                c.namespace, reference.name
            );
            c.note(Effect::FilterUnresolved, "UnsupportedValue", message);
        }
    }
}

/// What an HTTPRouteFilter makes of the rule that refers to it.
pub(super) fn apply(c: &mut Compilation<'_, '_>, reference: &LocalObjectRef, filters: &mut Filters) {
    if is_of_services(c, reference) {
        return show(c, reference, filters);
    }
    let (id, filter) = match resolve(c, reference) {
        Ok(found) => found,
        Err((effect, message)) => return c.note(effect, "UnsupportedValue", message),
    };
    let spec = &filter.spec;
    if let Some(rewrite) = spec.url_rewrite.as_deref() {
        let rewrite = rewrite_of(c, rewrite);
        filters.add_rewrite(c, rewrite);
    }
    if let Some(answer) = spec.direct_response.as_deref() {
        filter::once(c, &filters.answer, "directResponse");
        filters.answer = answer_of(c, answer);
    }
    if spec.credential_injection.is_some() {
        filter::once(c, &filters.credential, "credentialInjection");
        match injected(c, id, filter) {
            Ok(credential) => filters.credential = Some(credential),
            Err(why) => c.fail("UnsupportedValue", invalid(&why)),
        }
    }
    if has_conditions(filter) {
        if filters.cookies.is_some() {
            let message = "Only one HTTPRouteFilter with matches is supported per HTTPRouteRule.";
            c.fail("UnsupportedValue", message);
        }
        filters.cookies = Some(cookies(c, filter));
    }
}

/// What an HTTPRouteFilter makes of the backend that refers to it.
pub(super) fn apply_to_backend(
    c: &mut Compilation<'_, '_>,
    reference: &LocalObjectRef,
    own: &mut Rewrite,
    share: &mut Share,
) -> Result<(), Problem> {
    if is_of_services(c, reference) {
        let message = format!("{} is not supported within BackendRef", reference.kind);
        return Err(Problem::new("UnsupportedRefValue", message));
    }
    let (id, filter) = resolve(c, reference).map_err(|(_, message)| Problem::new("InvalidBackendFilters", message))?;
    let spec = &filter.spec;
    let rewrite = spec.url_rewrite.as_deref();
    let refused = [
        (spec.direct_response.is_some(), "directResponse"),
        (has_conditions(filter), "matches"),
    ];
    if let Some((_, field)) = refused.iter().find(|(is_set, _)| *is_set) {
        let message = format!("HTTPRouteFilter {field} is not supported within BackendRef");
        return Err(Problem::new("UnsupportedRefValue", message));
    }
    if let Some(rewrite) = rewrite {
        let rewrite = rewrite_of(c, rewrite);
        check_once(own, share, &rewrite)?;
        own.host = rewrite.host.or(own.host.take());
        own.path = rewrite.path.or(own.path.take());
        own.forwarded_host = rewrite.forwarded_host;
    }
    if spec.credential_injection.is_some() {
        let credential = injected(c, id, filter).map_err(|why| Problem::new("InvalidBackendFilters", invalid(&why)))?;
        let mut filters: Vec<RouteFilter> = share.filters.iter().cloned().chain([credential]).collect();
        filters.sort_by(|a, b| a.id.cmp(&b.id));
        filters.dedup_by(|a, b| a.id == b.id);
        share.filters = filters.into();
    }
    Ok(())
}

/// The filter that a reference names; else what that costs, and why.
fn resolve<'a>(
    c: &Compilation<'a, '_>,
    reference: &LocalObjectRef,
) -> Result<(Id, &'a HttpRouteFilter), (Effect, String)> {
    if Kind::of(&reference.group, &reference.kind) != Some(Kind::HttpRouteFilter) {
        let message = format!(
            "Invalid filter ExtensionRef: unknown kind {}/{}.",
            reference.group, reference.kind
        );
        return Err((Effect::RuleFails, message));
    }
    let id = c.reader.id(c.namespace, &reference.name);
    match c.reader.http_route_filter(id) {
        Some(filter) => Ok((id, filter)),
        None => {
            let message = format!(
                "Unable to translate HTTPRouteFilter: {}/{}.",
                c.namespace, reference.name
            );
            Err((Effect::FilterUnresolved, message))
        }
    }
}

fn invalid(why: &str) -> String {
    format!("Invalid filter HTTPRouteFilter: {}", ended(why))
}

fn rewrite_of(c: &mut Compilation<'_, '_>, rewrite: &UrlRewriteFilter) -> Rewrite {
    Rewrite {
        host: rewrite.hostname.as_ref().and_then(|host| host_of(c, host)),
        path: rewrite.path.as_ref().and_then(|path| path_of(c, path)),
        forwarded_host: match rewrite.append_x_forwarded_host {
            Some(false) => ForwardedHost::Untold,
            Some(true) | None => ForwardedHost::Told,
        },
    }
}

fn host_of(c: &mut Compilation<'_, '_>, host: &HostModifier) -> Option<HostRewrite> {
    match &host.r#type {
        HostModifierType::Header => {
            let Some(header) = host.header.as_deref().filter(|header| !header.is_empty()) else {
                c.fail(
                    "UnsupportedValue",
                    "Header must be set when rewrite path type is \"Header\".",
                );
                return None;
            };
            c.admit("header of urlRewrite.hostname", header, admissible::field_name(header))?;
            Some(HostRewrite::Header(header.into()))
        }
        HostModifierType::Backend => Some(HostRewrite::Endpoint),
        HostModifierType::PathRegex => {
            let regex = host.path_regex.as_ref();
            let Some(regex) = regex.filter(|r| !r.pattern.is_empty() && !r.substitution.is_empty()) else {
                let message =
                    "PathRegex Pattern and Substitution must be set when rewrite hostname type is \"PathRegex\".";
                c.fail("UnsupportedValue", message);
                return None;
            };
            let regex = regex_of(c, regex, "PathRegex must be a valid RE2 regular expression.")?;
            Some(HostRewrite::Path(Arc::new(regex)))
        }
        HostModifierType::Other(kind) => {
            c.admit(
                "type of urlRewrite.hostname",
                kind,
                Err(one_of(HostModifierType::KNOWN)),
            )?;
            None
        }
    }
}

fn path_of(c: &mut Compilation<'_, '_>, path: &RegexPathModifier) -> Option<PathRewrite> {
    match (&path.r#type, &path.replace_regex_match) {
        (RegexPathModifierType::ReplaceRegexMatch, Some(regex)) if !regex.pattern.is_empty() => {
            let regex = regex_of(c, regex, "ReplaceRegexMatch must be a valid RE2 regular expression.")?;
            Some(PathRewrite::Regex(regex))
        }
        (RegexPathModifierType::ReplaceRegexMatch, _) => {
            let message = "ReplaceRegexMatch Pattern must be set when rewrite path type is \"ReplaceRegexMatch\".";
            c.fail("UnsupportedValue", message);
            None
        }
        (RegexPathModifierType::Other(kind), _) => {
            c.admit(
                "type of urlRewrite.path",
                kind,
                Err(one_of(RegexPathModifierType::KNOWN)),
            )?;
            None
        }
    }
}

fn regex_of(c: &mut Compilation<'_, '_>, regex: &RegexReplacement, refusal: &str) -> Option<RegexRewrite> {
    if expression::check(&regex.pattern).is_err() {
        c.fail("UnsupportedValue", refusal);
        return None;
    }
    let check = expression::check_substitution(&regex.pattern, &regex.substitution);
    c.admit("substitution", &regex.substitution, check)?;
    Some(RegexRewrite {
        pattern: (&*regex.pattern).into(),
        substitution: (&*regex.substitution).into(),
    })
}

fn injected(c: &mut Compilation<'_, '_>, id: Id, filter: &HttpRouteFilter) -> Result<edge_ir::RouteFilter, String> {
    if let Some(header) = filter
        .spec
        .credential_injection
        .as_deref()
        .and_then(|i| i.header.as_deref())
    {
        let check = match header {
            name if name.eq_ignore_ascii_case("host") => Err("the host is set by urlRewrite.hostname".to_owned()),
            name if header::is_framing(name) => Err(header::WHOSE_FRAMING.to_owned()),
            name => admissible::field_name(name),
        };
        check.map_err(|why| format!("header \"{header}\" can't be injected: {why}"))?;
    }
    if let Some(Err(why)) = credential::credential(c.reader, filter) {
        return Err(why);
    }
    let key = FilterKey {
        kind: FilterKind::CredentialInjector,
        owner: Some(FilterOwner::Object(Kind::HttpRouteFilter, id)),
    };
    c.rule.instances.push(key);
    Ok(edge_ir::RouteFilter {
        id: c.reader.filter_id(key),
        effect: FilterEffect::On,
    })
}

/// Whether a filter narrows what its rule is for.
fn has_conditions(filter: &HttpRouteFilter) -> bool {
    filter.spec.matches.iter().any(|list| !list.cookies.is_empty())
}

/// Conditions on cookies, a list for each match of the filter that has any: one without says nothing, and must not open
/// what the others are for. All are judged, so that whatever is wrong is told.
fn cookies(c: &mut Compilation<'_, '_>, filter: &HttpRouteFilter) -> Result<Vec<Seldom<ValueMatch>>, Unknown> {
    let mut one = |cookie: &CookieMatch| {
        c.admit("cookie name", &cookie.name, admissible::field_name(&cookie.name))?;
        let value = value(c, &cookie.r#type, &cookie.value)?;
        let name = (&*cookie.name).into();
        Some(ValueMatch { name, value })
    };
    let lists = filter
        .spec
        .matches
        .iter()
        .filter(|list| !list.cookies.is_empty())
        .map(|list| list.cookies.iter().map(&mut one).collect());
    let judged: Vec<Vec<Option<ValueMatch>>> = lists.collect();
    let known = judged.into_iter().map(|list| list.into_iter().collect());
    known.collect::<Option<_>>().ok_or(Unknown)
}

/// An answer and its headers.
fn answer_of(c: &mut Compilation<'_, '_>, answer: &DirectResponseFilter) -> Option<(DirectResponse, HeaderEdits)> {
    let code = answer.status_code.unwrap_or(200);
    let status = u16::try_from(code).ok().filter(|code| (200..=599).contains(code));
    let Some(status) = status else {
        c.admit(
            "statusCode of directResponse",
            &code.to_string(),
            Err("it must be from 200 to 599".into()),
        );
        return None;
    };
    if c.kind == RouteKind::Grpc && status < 300 {
        let message = "DirectResponse with a 2xx status code is not supported for GRPCRoute.";
        c.fail("UnsupportedValue", message);
        return None;
    }
    let body = match answer.body.as_ref().map(|b| body::body(c.reader, c.namespace, b)) {
        None => None,
        Some(Ok(body)) => body,
        Some(Err(why)) => {
            c.fail("UnsupportedValue", invalid(&why));
            return None;
        }
    };
    let headers = headers_of(c, answer)?;
    Some((DirectResponse { status, body }, headers))
}

fn headers_of(c: &mut Compilation<'_, '_>, answer: &DirectResponseFilter) -> Option<HeaderEdits> {
    let mut edits = HeaderEdits::default();
    if let Some(content_type) = answer.content_type.as_deref() {
        c.admit(
            "contentType of directResponse",
            content_type,
            admissible::field_value(content_type),
        )?;
        edits.set.push(HeaderEdit {
            name: "content-type".into(),
            value: content_type.into(),
        });
    }
    let Some(header) = answer.header.as_deref() else {
        return Some(edits);
    };
    for (is_set, field) in [
        (!header.remove.is_empty(), "remove"),
        (!header.remove_on_match.is_empty(), "removeOnMatch"),
        (!header.add_if_absent.is_empty(), "addIfAbsent"),
    ] {
        if is_set {
            let message = format!("header.{field} is not supported for DirectResponse");
            c.fail("UnsupportedValue", invalid(&message));
            return None;
        }
    }
    let mut error = None;
    let mut listed = |action, list: &[HttpHeader]| {
        header::edits(list, |header, flaw| {
            error.get_or_insert_with(|| filter::header_error(header, flaw, action, Side::Response));
        })
    };
    edits.set.append(&mut listed("set", &header.set));
    edits.add = listed("add", &header.add);
    if let Some(error) = error {
        c.fail("UnsupportedValue", error);
        return None;
    }
    Some(edits)
}
