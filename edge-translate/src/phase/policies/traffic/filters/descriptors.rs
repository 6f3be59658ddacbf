//! What rules of rate limits ask of requests, as what a request is described by.
//!
//! Any selector of a rule is enough, and all of a selector must hold: each selector becomes a list of entries, which
//! describes the requests that it is for, and no other.

use super::Problems;
use crate::{
    api::{
        http_route::PathMatchType,
        rate_limit::{
            CostFrom, CostSpecifier, RateLimitMatchType as MatchType, RateLimitMethod, RateLimitNamedMatch as Named,
            RateLimitPath, RateLimitRule as Rule, RateLimitSelector, RateLimitSource, RateLimitUnit as Unit,
            XRateLimitHeaders,
        },
    },
    phase::{cidr, routes::rules::expression},
};
use edge_ir::{Hits, LimitHeaders, RateLimit, RateLimitEntry as Entry, RateLimitUnit, TextMatcher};
use std::sync::Arc;

pub(super) const AREA: &str = "RateLimit";

/// The limit of a rule.
pub(super) fn limit(rule: &Rule, problems: &mut Problems) -> Option<RateLimit> {
    let unit = match &rule.limit.unit {
        Unit::Second => RateLimitUnit::Second,
        Unit::Minute => RateLimitUnit::Minute,
        Unit::Hour => RateLimitUnit::Hour,
        Unit::Day => RateLimitUnit::Day,
        Unit::Week => RateLimitUnit::Week,
        Unit::Month => RateLimitUnit::Month,
        Unit::Year => RateLimitUnit::Year,
        Unit::Other(other) => {
            problems.add(AREA, format_args!("unsupported unit {other}"));
            return None;
        }
    };
    Some(RateLimit {
        requests: rule.limit.requests,
        unit,
    })
}

/// Whether clients are told of a rule.
pub(super) fn told(rule: &Rule, problems: &mut Problems) -> LimitHeaders {
    match &rule.x_rate_limit_headers {
        None => LimitHeaders::Usual,
        Some(XRateLimitHeaders::Off) => LimitHeaders::No,
        Some(XRateLimitHeaders::DraftVersion03) => LimitHeaders::Yes,
        Some(XRateLimitHeaders::Other(other)) => {
            problems.add(AREA, format_args!("unsupported xRateLimitHeaders {other}"));
            LimitHeaders::Usual
        }
    }
}

/// The most that a request can count for.
const MOST_HITS: u64 = 1_000_000_000;

/// What a request counts for.
pub(super) fn hits(cost: Option<&CostSpecifier>, problems: &mut Problems) -> Hits {
    let Some(cost) = cost else {
        return Hits::One;
    };
    match (&cost.from, cost.number, &cost.metadata) {
        (CostFrom::Number, Some(number), None) => match number {
            1 => Hits::One,
            0..=MOST_HITS => Hits::Number(number),
            _ => {
                problems.add(
                    AREA,
                    format_args!("cost {number} is out of range, must be at most {MOST_HITS}"),
                );
                Hits::One
            }
        },
        (CostFrom::Metadata, None, Some(place)) => Hits::Metadata {
            namespace: operand(&place.namespace, problems),
            key: operand(&place.key, problems),
        },
        (CostFrom::Other(other), ..) => {
            problems.add(AREA, format_args!("unsupported cost from {other}"));
            Hits::One
        }
        _ => {
            problems.add(AREA, "cost must have the one of number and metadata that from names");
            Hits::One
        }
    }
}

/// A part of a command operator (`%DYNAMIC_METADATA(namespace:key)%`), which nothing in it may end.
pub(super) fn operand(text: &str, problems: &mut Problems) -> Arc<str> {
    if text.is_empty() || text.contains([':', ')', '%']) || text.chars().any(char::is_control) {
        problems.add(AREA, format_args!("{text:?} can't name metadata"));
    }
    text.into()
}

/// What every request is described by.
pub(super) fn everything(rule: usize) -> Vec<Entry> {
    vec![Entry::Always {
        key: format!("rule-{rule}-match--1").into(),
    }]
}

/// What the requests of a rule are described by, a list for each of its selectors. Conditions are numbered through all
/// of them, so that no two lists look alike.
pub(super) fn descriptors(rule: usize, spec: &Rule, problems: &mut Problems) -> Vec<Vec<Entry>> {
    let mut conditions = Conditions {
        rule,
        next: 0,
        selector: 0,
        entries: Vec::new(),
    };
    let mut lists = Vec::with_capacity(spec.client_selectors.len());
    for (i, selector) in spec.client_selectors.iter().enumerate() {
        conditions.selector = i;
        conditions.selector(selector, problems);
        lists.push(std::mem::take(&mut conditions.entries));
    }
    lists
}

/// The conditions of a rule, on their way to entries.
struct Conditions {
    rule: usize,
    next: usize,
    selector: usize,
    entries: Vec<Entry>,
}

impl Conditions {
    fn selector(&mut self, selector: &RateLimitSelector, problems: &mut Problems) {
        for header in &selector.headers {
            let name = problems.token(AREA, "header", &header.name);
            self.named(header, name, ConditionSubject::Header, problems);
        }
        for parameter in &selector.query_params {
            if parameter.name.is_empty() {
                problems.add(AREA, "a query parameter has no name");
            }
            self.named(parameter, (&*parameter.name).into(), ConditionSubject::Query, problems);
        }
        self.methods(&selector.methods, problems);
        if let Some(path) = &selector.path {
            self.path(path, problems);
        }
        if let Some(source) = &selector.source_cidr {
            self.source(source, problems);
        }
        if self.entries.is_empty() {
            // All that it asks for is true of every request.
            let key = self.key(&format!("selector-{}", self.selector));
            self.entries.push(Entry::Always { key });
        }
    }

    fn key(&self, part: &str) -> Arc<str> {
        format!("rule-{}-{part}", self.rule).into()
    }

    /// A key that no other selector of the rule has.
    fn key_of(&self, part: &str) -> Arc<str> {
        match self.selector {
            0 => self.key(part),
            selector => self.key(&format!("selector-{selector}-{part}")),
        }
    }

    fn named(&mut self, condition: &Named, name: Arc<str>, place: ConditionSubject, problems: &mut Problems) {
        let key = self.key(&format!("match-{}", self.next));
        self.next += 1;
        let value = condition.value.as_deref();
        let text = match (&condition.r#type, value) {
            (MatchType::Distinct, value) => {
                if value.is_some() {
                    problems.add(
                        AREA,
                        format_args!("a value must not be set for {name}, whose type is Distinct"),
                    );
                }
                if condition.invert {
                    let what = "unable to translate rateLimit.Invert is not applicable for distinct header match type";
                    problems.add(AREA, what);
                }
                self.entries.push(match place {
                    ConditionSubject::Header => Entry::HeaderValue { key, name },
                    ConditionSubject::Query => Entry::QueryValue { key, name },
                });
                return;
            }
            (MatchType::Exact, Some(value)) => TextMatcher::Exact(value.into()),
            (MatchType::RegularExpression, Some(value)) => regex(value, problems),
            (MatchType::Exact | MatchType::RegularExpression, None) => {
                problems.add(AREA, format_args!("a value must be set for {name}"));
                return;
            }
            (MatchType::Other(other), _) => {
                problems.add(AREA, format_args!("unsupported match type {other}"));
                return;
            }
        };
        let expect = !condition.invert;
        self.entries.push(match place {
            ConditionSubject::Header => Entry::Header {
                key,
                name,
                text,
                expect,
            },
            ConditionSubject::Query => Entry::Query {
                key,
                name,
                text,
                expect,
            },
        });
    }

    /// Any of them is enough, and one that is inverted is true of all other methods.
    fn methods(&mut self, methods: &[RateLimitMethod], problems: &mut Problems) {
        for method in methods {
            problems.token(AREA, "method", &method.value);
        }
        let of = |is_inverted| {
            let of = methods.iter().filter(move |method| method.invert == is_inverted);
            let mut names: Vec<&str> = of.map(|method| &*method.value).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let (wanted, unwanted) = (of(false), of(true));
        let (names, expect) = match (wanted.as_slice(), unwanted.as_slice()) {
            ([], []) => return,
            (wanted, []) => (wanted, true),
            (wanted, [one]) if !wanted.contains(one) => (&unwanted[..], false),
            // True of every request.
            _ => return,
        };
        let text = match names {
            [one] => TextMatcher::Exact((*one).into()),
            several => {
                // Tokens may hold `.`, `*`, `+` and `|` (RFC 9110 §5.6.2).
                let several: Vec<_> = several.iter().map(|name| regex::escape(name)).collect();
                TextMatcher::Regex(several.join("|").into())
            }
        };
        let key = self.key_of(&format!("match-{}-method", self.next));
        self.next += 1;
        let name = ":method".into();
        self.entries.push(Entry::Header {
            key,
            name,
            text,
            expect,
        });
    }

    /// A path as the proxy has it, with the query behind it.
    fn path(&mut self, path: &RateLimitPath, problems: &mut Problems) {
        let value = &*path.value;
        let expression = match &path.r#type {
            PathMatchType::Exact => regex::escape(value),
            // By whole segments, as in routes; what all paths begin with needs no condition.
            PathMatchType::PathPrefix => format!("{}(/[^?]*)?", regex::escape(value.trim_end_matches('/'))),
            PathMatchType::RegularExpression => match expression::check(value) {
                Ok(()) => format!("(?:{value})"),
                Err(why) => return problems.add(AREA, format_args!("regex \"{value}\" is invalid: {why}")),
            },
            PathMatchType::Other(other) => {
                return problems.add(AREA, format_args!("unsupported path match type {other}"));
            }
        };
        let key = self.key_of(&format!("match-{}-path", self.next));
        self.next += 1;
        self.entries.push(Entry::Header {
            key,
            name: ":path".into(),
            text: TextMatcher::Regex(format!("{expression}(\\?.*)?").into()),
            expect: !path.invert,
        });
    }

    fn source(&mut self, source: &RateLimitSource, problems: &mut Problems) {
        let cidr = match cidr::cidr(&source.value) {
            Ok(cidr) => cidr,
            Err(why) => return problems.add(AREA, format_args!("invalid sourceCIDR {:?}: {why}", source.value)),
        };
        let key = self.key_of("masked-remote-address");
        let expect = !source.invert;
        self.entries.push(Entry::Cidr { key, cidr, expect });
        match &source.r#type {
            MatchType::Distinct => self.entries.push(Entry::Address),
            MatchType::Exact => {}
            MatchType::RegularExpression | MatchType::Other(_) => {
                problems.add(AREA, format_args!("unsupported type {} of sourceCIDR", source.r#type));
            }
        }
    }
}

/// What a named condition is about.
#[derive(Clone, Copy)]
enum ConditionSubject {
    Header,
    Query,
}

fn regex(value: &str, problems: &mut Problems) -> TextMatcher {
    if let Err(why) = expression::check(value) {
        problems.add(AREA, format_args!("regex \"{value}\" is invalid: {why}"));
    }
    TextMatcher::Regex(value.into())
}
