//! Other responses in place of some: a list of conditions, of which the first that holds counts.

use super::super::{common::extension, headers::to_add, route::body_format};
use edge_ir::{CodeRange, Elsewhere, Instead, OtherResponse, ResponseOverride, ResponseSource, TextMatch, TextMatcher};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::TypedExtensionConfig as EnvoyExtension,
            route::v3::{
                RedirectAction,
                redirect_action::{PathRewriteSpecifier, SchemeRewriteSpecifier},
            },
        },
        extensions::{
            filters::http::custom_response::v3::CustomResponse,
            http::custom_response::{
                local_response_policy::v3::LocalResponsePolicy,
                redirect_policy::v3::{RedirectPolicy, redirect_policy::RedirectActionSpecifier},
            },
        },
        r#type::matcher::v3::{
            HttpResponseHeaderMatchInput, HttpResponseLocalReplyMatchInput, HttpResponseStatusCodeMatchInput,
        },
    },
    google::protobuf::UInt32Value,
    xds::{
        core::v3::TypedExtensionConfig,
        r#type::matcher::v3::{
            Matcher, RegexMatcher, StringMatcher,
            matcher::{
                MatcherList, MatcherType, OnMatch,
                matcher_list::{
                    FieldMatcher, Predicate,
                    predicate::{MatchType, PredicateList, SinglePredicate, single_predicate},
                },
                on_match,
            },
            regex_matcher::{EngineType, GoogleRe2},
            string_matcher::MatchPattern,
        },
    },
};
use std::fmt::Write;

/// The overrides of a route; without any the filter does nothing.
pub(super) fn lower(overrides: &[ResponseOverride]) -> CustomResponse {
    let matchers = overrides.iter().enumerate().map(|(i, one)| FieldMatcher {
        predicate: Some(predicate(one)),
        on_match: Some(OnMatch {
            on_match: Some(on_match::OnMatch::Action(action(i, &one.instead))),
            ..Default::default()
        }),
    });
    CustomResponse {
        custom_response_matcher: Some(Matcher {
            matcher_type: Some(MatcherType::MatcherList(MatcherList {
                matchers: matchers.collect(),
            })),
            ..Default::default()
        }),
    }
}

/// When an override counts: the source, one of the codes, and all headers.
fn predicate(one: &ResponseOverride) -> Predicate {
    let mut all = Vec::new();
    let local = |value: &str| {
        let input = extension("envoy.matching.inputs.local_reply", HttpResponseLocalReplyMatchInput {});
        single(input, MatchPattern::Exact(value.to_owned()))
    };
    match one.source {
        ResponseSource::Any => {}
        ResponseSource::Proxy => all.push(local("true")),
        ResponseSource::Backend => all.push(local("false")),
    }
    if !one.codes.is_empty() {
        all.push(several(one.codes.iter().map(code).collect(), MatchType::OrMatcher));
    }
    all.extend(one.headers.iter().map(header));
    several(all, MatchType::AndMatcher)
}

/// A list has at least two entries.
fn several(mut list: Vec<Predicate>, join: impl FnOnce(PredicateList) -> MatchType) -> Predicate {
    match (list.len(), list.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            list.extend(last);
            Predicate {
                match_type: Some(join(PredicateList { predicate: list })),
            }
        }
    }
}

fn single(input: EnvoyExtension, pattern: MatchPattern) -> Predicate {
    Predicate {
        match_type: Some(MatchType::SinglePredicate(SinglePredicate {
            input: Some(same(input)),
            matcher: Some(single_predicate::Matcher::ValueMatch(StringMatcher {
                match_pattern: Some(pattern),
                ..Default::default()
            })),
        })),
    }
}

/// The same message in the package of matchers.
fn same(extension: EnvoyExtension) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: extension.name,
        typed_config: extension.typed_config,
    }
}

fn code(range: &CodeRange) -> Predicate {
    let input = extension(
        "envoy.matching.inputs.response_status_code",
        HttpResponseStatusCodeMatchInput {},
    );
    single(
        input,
        match range.first == range.last {
            true => MatchPattern::Exact(range.first.to_string()),
            false => regex(&digits(*range)),
        },
    )
}

fn regex(expression: &str) -> MatchPattern {
    MatchPattern::SafeRegex(RegexMatcher {
        regex: expression.to_owned(),
        engine_type: Some(EngineType::GoogleRe2(GoogleRe2 {})),
    })
}

/// An expression for all codes of a range: hundreds, tens and the rest at the ends of it.
fn digits(CodeRange { first, last }: CodeRange) -> String {
    let mut text = String::new();
    let mut at = first;
    while at <= last {
        if !text.is_empty() {
            text.push('|');
        }
        let (hundreds, tens) = (at / 100, at / 10 % 10);
        // Writing to a string can't fail.
        let _ = if at.is_multiple_of(100) && at + 99 <= last {
            at += 100;
            write!(text, "{hundreds}[0-9][0-9]")
        } else if at.is_multiple_of(10) && at + 9 <= last {
            at += 10;
            write!(text, "{hundreds}{tens}[0-9]")
        } else {
            at += 1;
            write!(text, "{}", at - 1)
        };
    }
    text
}

fn header(condition: &TextMatch) -> Predicate {
    let input = HttpResponseHeaderMatchInput {
        header_name: condition.name.to_string(),
    };
    let pattern = match &condition.text {
        TextMatcher::Exact(text) => MatchPattern::Exact(text.to_string()),
        TextMatcher::Prefix(text) => MatchPattern::Prefix(text.to_string()),
        TextMatcher::Suffix(text) => MatchPattern::Suffix(text.to_string()),
        TextMatcher::Regex(text) => regex(text),
    };
    single(extension("envoy.matching.inputs.response_headers", input), pattern)
}

/// What happens then; actions of a list have names of their own.
fn action(i: usize, instead: &Instead) -> TypedExtensionConfig {
    let name = format!("response/{i}");
    same(match instead {
        Instead::Response(response) => extension(&name, answer(response)),
        Instead::Elsewhere(location) => extension(&name, elsewhere(location)),
    })
}

fn answer(response: &OtherResponse) -> LocalResponsePolicy {
    LocalResponsePolicy {
        body_format: response.body.as_ref().map(body_format),
        status_code: response.status.map(|code| UInt32Value { value: code.into() }),
        response_headers_to_add: to_add(&response.headers),
        ..Default::default()
    }
}

fn elsewhere(location: &Elsewhere) -> RedirectPolicy {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(ToOwned::to_owned);
    RedirectPolicy {
        status_code: Some(UInt32Value {
            value: location.status.into(),
        }),
        redirect_action_specifier: Some(RedirectActionSpecifier::RedirectAction(RedirectAction {
            host_redirect: text(&location.host).unwrap_or_default(),
            port_redirect: location.port.unwrap_or_default().into(),
            scheme_rewrite_specifier: text(&location.scheme).map(SchemeRewriteSpecifier::SchemeRedirect),
            path_rewrite_specifier: text(&location.path).map(PathRewriteSpecifier::PathRedirect),
            ..Default::default()
        })),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_the_codes_of_its_range_and_no_other() {
        for (first, last) in [
            (100, 599),
            (200, 299),
            (404, 404),
            (498, 503),
            (501, 511),
            (107, 320),
            (590, 599),
        ] {
            let expression = format!("^(?:{})$", digits(CodeRange { first, last }));
            let matches = |code: u16| {
                let text = code.to_string();
                let parts = expression.trim_start_matches("^(?:").trim_end_matches(")$");
                parts.split('|').any(|part| {
                    let part = part.replace("[0-9]", "?");
                    part.len() == text.len() && part.chars().zip(text.chars()).all(|(p, t)| p == '?' || p == t)
                })
            };
            for code in 100..600 {
                assert_eq!(matches(code), (first..=last).contains(&code), "{code}: {expression}");
            }
        }
    }
}
