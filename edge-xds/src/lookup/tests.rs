//! A matcher means what the list means, for every host and every request.

use super::*;
use crate::{
    lower::{Lowering, encode_host_alone},
    sample,
    snapshot::ResourceType,
};
use edge_ir::{PathMatch, Route, RouteMatch, ValueMatch, ValueMatcher};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::BuildVersion,
            route::v3::{
                self as pb, RouteConfiguration, RouteList, VirtualHost, header_matcher::HeaderMatchSpecifier,
                route_match::PathSpecifier,
            },
        },
        r#type::{matcher::v3::HttpRequestHeaderMatchInput, v3::SemanticVersion},
    },
    xds::core::v3::TypedExtensionConfig,
    xds::r#type::matcher::v3::{
        Matcher,
        matcher::{MatcherType, OnMatch, matcher_tree::TreeType, on_match::OnMatch as Then},
    },
};
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;

/// A request as far as matches are about it.
#[derive(Clone, Debug)]
struct Request {
    /// As it stands in `:path`; none for CONNECT.
    path: Option<String>,
    has_header: bool,
}

/// What Envoy's router does with the path of one match.
fn is_for(route: &pb::Route, request: &Request) -> bool {
    let matches = route.r#match.as_ref().unwrap();
    let header = matches.headers.iter().all(|header| {
        assert!(matches!(
            header.header_match_specifier,
            Some(HeaderMatchSpecifier::StringMatch(_))
        ));
        request.has_header
    });
    let path = request.path.as_deref().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    header
        && match matches.path_specifier.as_ref().unwrap() {
            PathSpecifier::Prefix(prefix) => path.starts_with(prefix.as_str()),
            PathSpecifier::Path(exact) => path == exact,
            PathSpecifier::PathSeparatedPrefix(prefix) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            // All of them are `.*` and a letter.
            PathSpecifier::SafeRegex(regex) => path.ends_with(regex.regex.trim_start_matches(".*")),
            other => panic!("{other:?}"),
        }
}

fn first<'a>(routes: &'a [pb::Route], request: &Request) -> Option<&'a str> {
    let found = routes.iter().find(|route| is_for(route, request));
    found.map(|route| route.name.as_str())
}

/// What generic matching does: the longest prefix of the header decides, and nothing is tried behind it.
fn looked_up(matcher: &Matcher, request: &Request) -> Option<String> {
    let Some(MatcherType::MatcherTree(tree)) = &matcher.matcher_type else {
        panic!("{matcher:?}")
    };
    let input = tree
        .input
        .as_ref()
        .and_then(|input| input.typed_config.as_ref())
        .unwrap();
    let input = HttpRequestHeaderMatchInput::decode(input.value.as_slice()).unwrap();
    assert_eq!(input.header_name, ":path");
    let Some(TreeType::PrefixMatchMap(map)) = &tree.tree_type else {
        panic!("{tree:?}")
    };
    let path = request.path.as_deref();
    let found = path.and_then(|path| {
        let fitting = map.map.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
        fitting.max_by_key(|(prefix, _)| prefix.len())
    });
    let then = found.map(|(_, then)| then).or(matcher.on_no_match.as_deref())?;
    first(&routes_of(then), request).map(str::to_owned)
}

fn routes_of(then: &OnMatch) -> Vec<pb::Route> {
    let Some(Then::Action(TypedExtensionConfig {
        typed_config: Some(list),
        ..
    })) = &then.on_match
    else {
        panic!("{then:?}")
    };
    assert_eq!(list.type_url, ROUTE_LIST);
    RouteList::decode(list.value.as_slice()).unwrap().routes
}

fn host(framed: &[u8]) -> VirtualHost {
    let table = RouteConfiguration::decode(framed).unwrap();
    table.virtual_hosts.into_iter().next().unwrap()
}

/// Routes in their order, each for a path, and half of them for requests with a header.
fn encoded(routes: &[(PathMatch, bool)]) -> Bytes {
    let route = |(n, (path, header)): (usize, &(PathMatch, bool))| {
        let mut matches = RouteMatch::on_path(path.clone());
        if *header {
            let value = ValueMatcher::Exact("1".into());
            matches.headers = [ValueMatch {
                name: "x".into(),
                value,
            }]
            .into();
        }
        let route = sample::route(&n.to_string(), "/", "c");
        Arc::new(Route {
            matches,
            ..(*route).clone()
        })
    };
    let routes = routes.iter().enumerate().map(route).collect();
    encode_host_alone(&sample::host("a.example", routes)).contiguous()
}

fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "ab", "-", "/", "/a", "/b", "//"]);
    prop::collection::vec(part, 0..5).prop_map(|parts| format!("/{}", parts.concat()))
}

fn path() -> impl Strategy<Value = PathMatch> {
    prop_oneof![
        1 => Just(PathMatch::Any),
        6 => text().prop_map(|text| PathMatch::Prefix(text.trim_end_matches('/').into())),
        6 => text().prop_map(|text| PathMatch::Exact(text.into())),
        1 => prop::sample::select(vec![".*a", ".*b"]).prop_map(|text| PathMatch::Regex(text.into())),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let query = prop::sample::select(vec!["", "", "?", "?a", "?/a", "#b"]);
    let path = prop_oneof![
        12 => (text(), query).prop_map(|(path, query)| Some(format!("{path}{query}"))),
        1 => Just(Some("*".to_owned())),
        1 => Just(None),
    ];
    (path, any::<bool>()).prop_map(|(path, has_header)| Request { path, has_header })
}

proptest! {
    /// Whatever the routes, whatever the request.
    #[test]
    fn a_matcher_means_what_the_list_means(
        routes in prop::collection::vec((path(), any::<bool>()), 1..40),
        requests in prop::collection::vec(request(), 1..40),
    ) {
        let list = encoded(&routes);
        let Some(converted) = convert(&list, 1, 1000) else {
            // Regular expressions alone.
            prop_assert!(routes.iter().all(|(path, _)| matches!(path, PathMatch::Regex(_))));
            return Ok(());
        };
        let (list, converted) = (host(&list), host(&converted));
        let matcher = converted.matcher.as_ref().unwrap();
        for request in &requests {
            prop_assert_eq!(
                looked_up(matcher, request),
                first(&list.routes, request).map(str::to_owned),
                "{:?}", request
            );
        }
        // All else stands as it stood.
        let unmatched = VirtualHost { routes: list.routes.clone(), matcher: None, ..converted };
        prop_assert_eq!(unmatched, list);
    }
}

#[test]
fn only_hosts_that_gain_by_it_are_told_so() {
    let paths = |count: usize| (0..count).map(|n| (PathMatch::Prefix(format!("/r{n}").into()), false));
    assert!(with_matcher(&encoded(&paths(LARGE - 1).collect::<Vec<_>>())).is_none());
    let large = with_matcher(&encoded(&paths(LARGE).collect::<Vec<_>>())).unwrap();
    let longest = |framed: &[u8]| {
        let matcher = host(framed).matcher.unwrap();
        let Some(MatcherType::MatcherTree(tree)) = matcher.matcher_type else {
            panic!("no tree")
        };
        let Some(TreeType::PrefixMatchMap(map)) = tree.tree_type else {
            panic!("no map")
        };
        map.map.values().map(|then| routes_of(then).len()).max()
    };
    assert_eq!(longest(&large), Some(1), "/r1 is tried for /r1/…, and not for /r10");
    // A route for all paths is in every list, which goes only so far.
    let all = |count| std::iter::repeat_n((PathMatch::Any, true), count);
    let with_all = |count| with_matcher(&encoded(&paths(LARGE).chain(all(count)).collect::<Vec<_>>()));
    assert_eq!(longest(&with_all(2).unwrap()), Some(3));
    assert!(with_all(3).is_none());
}

#[test]
fn envoys_of_an_age_are_told_matchers_and_nobody_else() {
    let node = |name: &str, minor_number| Node {
        user_agent_name: name.to_owned(),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(BuildVersion {
            version: Some(SemanticVersion {
                major_number: 1,
                minor_number,
                patch: 0,
            }),
            metadata: None,
        })),
        ..Node::default()
    };
    assert_eq!(HostForm::of(&node("envoy", 40)), HostForm::Matcher);
    assert_eq!(HostForm::of(&node("envoy", 29)), HostForm::List);
    assert_eq!(HostForm::of(&node("edge-proxy", 40)), HostForm::List);
    assert_eq!(HostForm::of(&Node::default()), HostForm::List);
}

#[test]
fn a_table_is_sent_with_what_is_large_converted() {
    let routes = |count: usize| {
        (0..count)
            .map(|n| sample::route(&n.to_string(), &format!("/r{n}"), "c"))
            .collect()
    };
    let hosts = vec![
        sample::host("a.example", routes(2)),
        sample::host("b.example", routes(200)),
    ];
    let snapshot = Lowering::new().lower(&sample::fleet(hosts, &["c"]));
    let table = &snapshot.section(ResourceType::Routes).entries()[0];
    let sent = RouteConfiguration::decode(with_matchers(&table.body)).unwrap();
    let told: Vec<_> = sent
        .virtual_hosts
        .iter()
        .map(|host| (host.routes.len(), host.matcher.is_some()))
        .collect();
    assert_eq!(told, [(2, false), (0, true)]);
    let whole = Body::Whole(table.body.contiguous());
    assert_eq!(with_matchers(&whole), table.body.contiguous(), "patched, say");
}
