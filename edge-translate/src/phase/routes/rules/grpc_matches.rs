//! Matches of a GRPCRoute rule: which calls it is for.
//!
//! A call is a request to `/<service>/<method>`, so every match becomes one on the path. Requests that aren't gRPC are
//! not told apart: a virtual host is shared with HTTPRoutes, and whoever asks for such a path means the call.

use super::{
    Compilation, HostRule, RankedMatch, RuleParts, Wording, admissible,
    matches::{check_regex, everything, headers, one_of},
    widened,
};
use crate::{
    api::{GrpcMethodMatch, GrpcRouteMatch, GrpcRouteRule, MatchType},
    phase::precedence::Rank,
};
use edge_ir::{PathMatch, RouteMatch};

impl HostRule for GrpcRouteRule {
    fn parts(&self) -> RuleParts<'_> {
        RuleParts {
            name: self.name.as_deref(),
            filters: &self.filters,
            backend_refs: &self.backend_refs,
            timeouts: None,
            retry: None,
            session: self.session_persistence.as_deref(),
            prefix: None,
        }
    }

    fn matches(&self, c: &mut Compilation<'_, '_>) -> Vec<RankedMatch> {
        let ranked = |index, (matches, rank)| RankedMatch {
            index,
            matches,
            rank,
            wording: Wording::Written,
        };
        if self.matches.is_empty() {
            let rank = Rank::of(&everything());
            return vec![ranked(0, (everything(), rank))];
        }
        let mut all = Vec::with_capacity(self.matches.len());
        for (i, one) in self.matches.iter().enumerate() {
            match compile_one(c, one) {
                Some(compiled) => all.push(ranked(i, compiled)),
                None => c.rule.refused.push(widened::call(i, one)),
            }
        }
        all
    }
}

fn compile_one(c: &mut Compilation<'_, '_>, one: &GrpcRouteMatch) -> Option<(RouteMatch, Rank)> {
    let call = one.method.as_deref();
    let (service, method) = parts(call);
    let path = match call {
        None => PathMatch::Any,
        Some(call) => path(c, call, service, method)?,
    };
    let headers = headers(c, one.headers.iter().map(|h| (&h.r#type, &*h.name, &*h.value)))?;
    let matches = RouteMatch {
        path,
        headers,
        ..everything()
    };
    let rank = rank(&matches, call);
    Some((matches, rank))
}

/// Service and method of a call, if it names them.
pub(super) fn parts(call: Option<&GrpcMethodMatch>) -> (Option<&str>, Option<&str>) {
    let service = call.and_then(|m| m.service.as_deref()).filter(|s| !s.is_empty());
    let method = call.and_then(|m| m.method.as_deref()).filter(|m| !m.is_empty());
    (service, method)
}

/// The rank of a match on a call.
pub(super) fn rank(matches: &RouteMatch, call: Option<&GrpcMethodMatch>) -> Rank {
    let (service, method) = parts(call);
    match call.map(|call| &call.r#type) {
        Some(MatchType::Exact) => Rank::of_call(matches, service, method),
        _ => Rank::of(matches),
    }
}

fn path(
    c: &mut Compilation<'_, '_>,
    call: &GrpcMethodMatch,
    service: Option<&str>,
    method: Option<&str>,
) -> Option<PathMatch> {
    match &call.r#type {
        MatchType::Exact => {
            if let Some(service) = service {
                c.admit("service", service, admissible::grpc_service(service))?;
            }
            if let Some(method) = method {
                c.admit("method", method, admissible::grpc_method(method))?;
            }
            Some(written(call))
        }
        MatchType::RegularExpression => {
            for part in [service, method].into_iter().flatten() {
                check_regex(c, part)?;
            }
            Some(written(call))
        }
        MatchType::Other(kind) => {
            c.admit("method match type", kind, Err(one_of(MatchType::KNOWN)))?;
            None
        }
    }
}

/// The path of a call, as it is written.
pub(super) fn written(call: &GrpcMethodMatch) -> PathMatch {
    let (service, method) = parts(Some(call));
    if call.r#type == MatchType::RegularExpression {
        // Grouped, so that an alternative in one part doesn't split the whole.
        let part = |part: Option<&str>| part.map_or("[^/]+".to_owned(), |part| format!("(?:{part})"));
        return match (service, method) {
            (None, None) => PathMatch::Any,
            _ => PathMatch::Regex(format!("/{}/{}", part(service), part(method)).into()),
        };
    }
    match (service, method) {
        (Some(service), Some(method)) => PathMatch::Exact(format!("/{service}/{method}").into()),
        (Some(service), None) => PathMatch::Prefix(format!("/{service}").into()),
        (None, Some(method)) => PathMatch::Regex(format!("/[^/]+/{}", regex::escape(method)).into()),
        (None, None) => PathMatch::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(path: PathMatch, service: Option<&str>, method: Option<&str>) -> Rank {
        Rank::of_call(&RouteMatch { path, ..everything() }, service, method)
    }

    #[test]
    fn more_of_the_service_counts_before_more_of_the_method() {
        let call = ranked(PathMatch::Exact("/a.B/C".into()), Some("a.B"), Some("C"));
        let expression = Rank::of(&RouteMatch {
            path: PathMatch::Regex("/(?:a.*)/[^/]+".into()),
            ..everything()
        });
        let long_service = ranked(PathMatch::Prefix("/a.Long".into()), Some("a.Long"), None);
        let service = ranked(PathMatch::Prefix("/a.B".into()), Some("a.B"), None);
        let long_method = ranked(
            PathMatch::Regex("/[^/]+/LongerThanAnyService".into()),
            None,
            Some("LongerThanAnyService"),
        );
        let method = ranked(PathMatch::Regex("/[^/]+/C".into()), None, Some("C"));
        let any = ranked(PathMatch::Any, None, None);
        let falling = [call, expression, long_service, service, long_method, method, any];
        for pair in falling.windows(2) {
            assert!(pair[0] > pair[1], "{pair:?}");
        }
    }
}
