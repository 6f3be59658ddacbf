//! Chains that lose filters.

use super::{ResourceType, Response, Snapshot, ack, nack, only, sent, settled, subscribe};
use crate::{
    lower::{Lowering, tables_of},
    sample,
};
use edge_ir::{
    FilterId, FilterInstance, FilterKind, FilterSettings, KeySet, Network, Rerouting, TokenIssuer, TokenRequirement,
    Tokens, WithoutToken,
};
use envoy_types::pb::envoy::{
    config::listener::v3 as pb,
    extensions::filters::{
        http::jwt_authn::v3::JwtAuthentication,
        network::http_connection_manager::v3::{HttpConnectionManager, http_filter},
    },
};
use prost::{Message as _, Name as _};
use std::sync::Arc;

/// A fleet whose one chain has these filters, and whose one route is another where it is closed.
fn guarded(kinds: &[FilterKind], closed: bool) -> Snapshot {
    let filters = kinds.iter().map(|kind| (*kind, FilterSettings::OfRoutes));
    with_filters(filters.collect(), closed)
}

fn with_filters(filters: Vec<(FilterKind, FilterSettings)>, closed: bool) -> Snapshot {
    behind("", filters, closed)
}

/// The same behind guards that are called this.
fn behind(guards: &str, filters: Vec<(FilterKind, FilterSettings)>, closed: bool) -> Snapshot {
    let route = sample::route("r", if closed { "/closed" } else { "/" }, "c");
    let mut fleet = sample::fleet(vec![sample::host("h.example", vec![route])], &["c"]);
    let listeners = Arc::make_mut(&mut fleet.listeners);
    let chain = Arc::make_mut(&mut listeners[0]).default_chain.as_mut().unwrap();
    let Network::Http(manager) = &mut chain.network else {
        panic!("no HTTP")
    };
    let instance = |(kind, settings)| FilterInstance {
        id: FilterId::shared(kind),
        settings,
    };
    manager.filters = filters.into_iter().map(instance).collect();
    manager.guards = guards.into();
    Arc::make_mut(&mut Arc::make_mut(&mut fleet.route_tables)[0]).guards = guards.into();
    Lowering::new().lower(&fleet)
}

/// The managers on the chains of a response.
fn managers(response: &Response) -> Vec<HttpConnectionManager> {
    let listeners = response.resources.iter();
    let listeners = listeners.map(|entry| pb::Listener::decode(entry.body.contiguous()).unwrap());
    let filters = listeners
        .filter_map(|listener| listener.default_filter_chain)
        .flat_map(|chain| chain.filters);
    let configs = filters.filter_map(|filter| match filter.config_type {
        Some(pb::filter::ConfigType::TypedConfig(config)) => Some(config),
        _ => None,
    });
    configs
        .map(|config| HttpConnectionManager::decode(config.value.as_slice()).unwrap())
        .collect()
}

/// The filters on the chains of a response.
fn filters(response: &Response) -> Vec<String> {
    let filters = managers(response).into_iter().flat_map(|manager| manager.http_filters);
    filters
        .map(|filter| filter.name.replace("envoy.filters.http.", ""))
        .collect()
}

#[test]
fn a_chain_that_gets_others_has_both_until_no_table_needs_the_lost_ones() {
    let (mut stream, _) = settled(guarded(&[FilterKind::Csrf, FilterKind::Rbac], false));
    let both = sent(stream.on_snapshot(&guarded(&[FilterKind::ApiKeyAuth, FilterKind::Rbac], true), 1));
    let [listeners, routes] = both.as_slice() else {
        panic!("{both:?}")
    };
    assert_eq!(filters(listeners), ["csrf", "api_key_auth", "rbac", "router"]);
    assert_eq!(routes.kind, ResourceType::Routes);
    assert!(
        sent(stream.on_request(&ack(routes), 2)).is_empty(),
        "the listener isn't acknowledged"
    );
    let last = only(stream.on_request(&ack(listeners), 3));
    assert_eq!(filters(&last), ["api_key_auth", "rbac", "router"]);
    stream.on_request(&ack(&last), 4);
    assert!(stream.is_settled());
}

#[test]
fn a_chain_loses_filters_after_the_table_that_needs_them_is_replaced() {
    let (mut stream, _) = settled(guarded(&[FilterKind::Csrf], false));
    let routes = only(stream.on_snapshot(&guarded(&[], true), 1));
    assert_eq!(routes.kind, ResourceType::Routes);
    let last = only(stream.on_request(&ack(&routes), 2));
    assert_eq!(filters(&last), ["router"]);
    stream.on_request(&ack(&last), 3);
    assert!(stream.is_settled());
}

#[test]
fn a_chain_keeps_its_filters_while_the_proxy_refuses_the_new_table() {
    let (mut stream, _) = settled(guarded(&[FilterKind::Csrf], false));
    let routes = only(stream.on_snapshot(&guarded(&[], true), 1));
    let mut open = sent(stream.on_request(&nack(&routes, "no"), 2));
    while let Some(response) = open.pop() {
        assert_eq!(response.kind, ResourceType::Routes, "{:?}", filters(&response));
        open.extend(sent(stream.on_request(&nack(&response, "no"), 3)));
    }
}

#[test]
fn what_comes_back_before_it_was_lost_is_not_lost() {
    let (mut stream, _) = settled(guarded(&[FilterKind::Csrf], false));
    let routes = only(stream.on_snapshot(&guarded(&[], true), 1));
    assert!(sent(stream.on_snapshot(&guarded(&[FilterKind::Csrf], false), 2)).is_empty());
    let back = only(stream.on_request(&ack(&routes), 3));
    assert_eq!(back.kind, ResourceType::Routes);
    assert!(sent(stream.on_request(&ack(&back), 4)).is_empty());
    assert!(stream.is_settled());
}

#[test]
fn what_routes_ask_of_tokens_is_known_until_no_table_asks_it() {
    let tokens = |name: &str| {
        let issuer = TokenIssuer {
            name: name.into(),
            claims: name.into(),
            issuer: None,
            audiences: Vec::new(),
            keys: KeySet::Local("{}".into()),
            places: Vec::new(),
            headers: Vec::new(),
            routing: Rerouting::Never,
        };
        let requirement = TokenRequirement {
            name: name.into(),
            issuers: vec![name.into()],
            without: WithoutToken::None,
        };
        FilterSettings::Tokens(Arc::new(Tokens {
            issuers: vec![Arc::new(issuer)],
            requirements: vec![requirement],
        }))
    };
    let asks = |name: &str, closed| with_filters(vec![(FilterKind::JwtAuthn, tokens(name))], closed);
    let (mut stream, _) = settled(asks("one", false));
    let both = sent(stream.on_snapshot(&asks("two", true), 1));
    let [listeners, routes] = both.as_slice() else {
        panic!("{both:?}")
    };
    let known = |response: &Response| -> Vec<String> {
        let tokens = managers(response).into_iter().flat_map(|manager| manager.http_filters);
        let tokens = tokens.filter_map(|filter| match filter.config_type {
            Some(http_filter::ConfigType::TypedConfig(config)) if config.type_url == JwtAuthentication::type_url() => {
                JwtAuthentication::decode(config.value.as_slice()).ok()
            }
            _ => None,
        });
        let mut names: Vec<String> = tokens
            .flat_map(|tokens| tokens.requirement_map.into_keys().chain(tokens.providers.into_keys()))
            .collect();
        names.sort();
        names
    };
    assert_eq!(known(listeners), ["one", "one", "two", "two"]);
    stream.on_request(&ack(listeners), 2);
    let last = only(stream.on_request(&ack(routes), 3));
    assert_eq!(known(&last), ["two", "two"]);
}

#[test]
fn a_chain_behind_other_guards_asks_for_another_table() {
    let users = vec![(FilterKind::BasicAuth, FilterSettings::OfRoutes)];
    let keys = vec![(FilterKind::ApiKeyAuth, FilterSettings::OfRoutes)];
    let (mut stream, _) = settled(behind("users", users, false));
    let mut first = sent(stream.on_request(&subscribe(ResourceType::Routes, &["default/gw/http~users"]), 1));
    while let Some(response) = first.pop() {
        first.extend(sent(stream.on_request(&ack(&response), 1)));
    }
    let listeners = only(stream.on_snapshot(&behind("keys", keys, false), 2));
    assert_eq!(
        filters(&listeners),
        ["api_key_auth", "router"],
        "no table asks for more"
    );
    let tables = tables_of(&listeners.resources[0]);
    assert_eq!(tables.iter().collect::<Vec<_>>(), ["default/gw/http~keys"]);
}

#[test]
fn a_table_that_comes_back_is_brought_up_to_date_before_a_listener_goes_over_to_it() {
    let users = vec![(FilterKind::BasicAuth, FilterSettings::OfRoutes)];
    let (mut stream, _) = settled(guarded(&[], false));
    let listeners = only(stream.on_snapshot(&behind("users", users, false), 1));
    // Envoy goes on with the table of before as long as connections drain, whatever it is told.
    let mut sent_next = sent(stream.on_request(&ack(&listeners), 2));
    let table = subscribe(ResourceType::Routes, &["default/gw/http~users"]);
    sent_next.extend(sent(stream.on_request(&table, 3)));
    while let Some(response) = sent_next.pop() {
        sent_next.extend(sent(stream.on_request(&ack(&response), 4)));
    }
    assert!(stream.is_settled());
    let table = only(stream.on_snapshot(&guarded(&[], true), 5));
    assert_eq!(table.kind, ResourceType::Routes);
    let listeners = sent(stream.on_request(&ack(&table), 6));
    assert_eq!(
        listeners.first().map(|response| response.kind),
        Some(ResourceType::Listener)
    );
}
