use super::*;
use envoy_types::pb::{
    envoy::{
        config::{
            bootstrap::v3::{Admin, Bootstrap},
            core::v3::{Address, SocketAddress, address, socket_address},
            listener::v3::{Filter, FilterChain, Listener, filter},
        },
        extensions::filters::network::http_connection_manager::v3::HttpConnectionManager,
    },
    google::protobuf::Duration,
};
use envoy_types::util::pack_any;
use serde_json::json;

fn listener() -> Listener {
    let manager = HttpConnectionManager {
        stat_prefix: "http-80".to_owned(),
        drain_timeout: Some(Duration {
            seconds: 3,
            nanos: 500_000_000,
        }),
        ..Default::default()
    };
    let filter = Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(manager))),
    };
    Listener {
        name: "tcp-80".to_owned(),
        filter_chains: vec![FilterChain {
            filters: vec![filter],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn message_at(error: JsonError, wanted: &str) -> String {
    match error {
        JsonError::Field { path, message } => {
            assert_eq!(path, wanted, "{message}");
            message
        }
        other => panic!("no path in {other}"),
    }
}

#[test]
fn any_is_expanded_both_ways() {
    let value = to_json(&listener(), Names::Camel).unwrap();
    let config = &value["filterChains"][0]["filters"][0]["typedConfig"];
    assert_eq!(
        *config,
        json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "statPrefix": "http-80",
            "drainTimeout": "3.500s",
        })
    );
    assert_eq!(from_json::<Listener>(value).unwrap(), listener());
}

#[test]
fn proto_names_are_written_on_demand_and_read_as_well() {
    let value = to_json(&listener(), Names::Proto).unwrap();
    assert_eq!(
        value["filter_chains"][0]["filters"][0]["typed_config"]["stat_prefix"],
        "http-80"
    );
    assert_eq!(from_json::<Listener>(value).unwrap(), listener());
}

#[test]
fn a_field_is_written_by_one_of_its_names() {
    let manager =
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let within = |typed: serde_json::Value| json!({"filterChains": [{"filters": [{"typed_config": typed}]}]});
    for (twice, path) in [
        (json!({"bind_to_port": true, "bindToPort": false}), "."),
        (
            json!({"filter_chains": [{}, {"filterChainMatch": {"serverNames": [], "server_names": []}}]}),
            "filter_chains[1].filterChainMatch",
        ),
        (
            within(json!({"@type": manager, "stat_prefix": "a", "statPrefix": "b"})),
            "filterChains[0].filters[0].typed_config",
        ),
        (
            json!({"metadata": {"typed_filter_metadata": {"x": {"@type": manager, "statPrefix": "a", "stat_prefix": "a"}}}}),
            "metadata.typed_filter_metadata.x",
        ),
    ] {
        let message = message_at(from_json::<Listener>(twice).unwrap_err(), path);
        assert!(message.ends_with("name the same field"), "{message}");
    }
    // Keys of a message of its own form are no names of fields.
    let free = json!({"metadata": {"filter_metadata": {"x": {"bind_to_port": 1, "bindToPort": 2}}}});
    assert!(from_json::<Listener>(free).is_ok());
}

#[test]
fn an_unknown_field_is_refused_with_its_path() {
    let error = from_json::<Listener>(json!({"filter_chains": [{"filter": []}]})).unwrap_err();
    assert!(message_at(error, "filter_chains[0]").contains("'filter'"));
}

#[test]
fn a_wrong_value_says_what_was_expected() {
    let value = json!({"address": {"socket_address": {"port_value": [1]}}});
    let message = message_at(
        from_json::<Listener>(value).unwrap_err(),
        "address.socket_address.port_value",
    );
    assert!(message.contains("expected"), "{message}");
}

#[test]
fn an_error_inside_an_any_has_the_whole_path() {
    let mut value = to_json(&listener(), Names::Proto).unwrap();
    value["filter_chains"][0]["filters"][0]["typed_config"]["stat_prefiks"] = json!("x");
    let error = from_json::<Listener>(value).unwrap_err();
    assert!(message_at(error, "filter_chains[0].filters[0].typed_config").contains("'stat_prefiks'"));
}

#[test]
fn an_unknown_type_is_named() {
    let value = json!({"filter_chains": [{"filters": [{"typed_config": {"@type": "a.b/envoy.nope.v3.X"}}]}]});
    let error = from_json::<Listener>(value).unwrap_err();
    let message = message_at(error, "filter_chains[0].filters[0].typed_config.@type");
    assert!(message.contains("envoy.nope.v3.X"), "{message}");
}

#[test]
fn a_partial_codec_holds_what_a_value_names_and_nothing_else() {
    let socket = SocketAddress {
        address: "127.0.0.1".to_owned(),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(19000)),
        ..Default::default()
    };
    let address = Address {
        address: Some(address::Address::SocketAddress(socket)),
    };
    let bootstrap = Bootstrap {
        admin: Some(Admin {
            address: Some(address),
            ..Default::default()
        }),
        static_resources: Some(
            envoy_types::pb::envoy::config::bootstrap::v3::bootstrap::StaticResources {
                listeners: vec![listener()],
                ..Default::default()
            },
        ),
        ..Default::default()
    };
    let value = to_json(&bootstrap, Names::Proto).unwrap();
    let codec = Codec::for_value::<Bootstrap>(&value).unwrap();
    assert_eq!(codec.from_json::<Bootstrap>(value).unwrap(), bootstrap);
    let unrelated = "envoy.extensions.filters.http.oauth2.v3.OAuth2";
    assert!(codec.pool().get_message_by_name(unrelated).is_none());
    assert!(Codec::cached().unwrap().pool().get_message_by_name(unrelated).is_some());
}

#[test]
fn a_codec_for_a_value_leaves_unknown_types_to_the_reader() {
    let value = json!({"filter_chains": [{"filters": [{"typed_config": {"@type": "a.b/envoy.nope.v3.X"}}]}]});
    let codec = Codec::for_value::<Listener>(&value).unwrap();
    message_at(
        codec.from_json::<Listener>(value).unwrap_err(),
        "filter_chains[0].filters[0].typed_config.@type",
    );
}

#[test]
fn a_top_level_type_must_agree() {
    let url = "type.googleapis.com/envoy.config.listener.v3.Listener";
    assert!(from_json::<Listener>(json!({"@type": url, "name": "a"})).is_ok());
    let error = from_json::<Bootstrap>(json!({"@type": url})).unwrap_err();
    assert!(message_at(error, "@type").contains("Bootstrap"));
}

/// A message without its secrets.
fn redacted(name: &str, value: serde_json::Value) -> serde_json::Value {
    let codec = Codec::cached().unwrap();
    let any = Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: codec.bytes_from_json(name, value).unwrap(),
    };
    let shown = codec.redacted(&[any]).unwrap();
    codec.bytes_to_json(name, &shown[0].value, Names::Proto).unwrap()
}

#[test]
fn what_the_api_marks_as_sensitive_is_redacted_wherever_it_stands() {
    let filter = |name: &str, fields: serde_json::Value| {
        let mut filter = json!({"@type": format!("type.googleapis.com/envoy.extensions.filters.http.{name}")});
        filter
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        filter
    };
    let table = |client: &str, key: &str, users: serde_json::Value, team: &str| {
        let keys = json!({"credentials": [{"client": client, "key": key}], "forwarding": {"header": "x-client"}});
        let authz = json!({"check_settings": {"context_extensions": {"team": team}}});
        json!({"virtual_hosts": [{"name": "www", "typed_per_filter_config": {
            "keys": filter("api_key_auth.v3.ApiKeyAuthPerRoute", keys),
            "users": filter("basic_auth.v3.BasicAuthPerRoute", json!({"users": users})),
            "authz": filter("ext_authz.v3.ExtAuthzPerRoute", authz),
        }}]})
    };
    let given = table("anna", "k1", json!({"inline_bytes": "YW5uYTp7U0hBfQ=="}), "blue");
    let r = "[redacted]";
    assert_eq!(
        redacted("envoy.config.route.v3.RouteConfiguration", given),
        table(r, r, json!({"inline_bytes": "W3JlZGFjdGVkXQ=="}), r),
    );
}

#[test]
fn keys_are_redacted_and_the_names_of_their_files_are_not() {
    let tls = |key: serde_json::Value, ticket: &str| {
        json!({
            "common_tls_context": {"tls_certificates": [
                {"certificate_chain": {"inline_string": "c"}, "private_key": key},
            ]},
            "session_ticket_keys": {"keys": [{"inline_string": ticket}]},
            "session_timeout": "3600s",
        })
    };
    let name = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    assert_eq!(
        redacted(name, tls(json!({"inline_string": "secret"}), "ticket")),
        tls(json!({"inline_string": "[redacted]"}), "[redacted]"),
    );
    let file = json!({"filename": "/certs/tls.key"});
    assert_eq!(
        redacted(name, tls(file.clone(), "ticket"))["common_tls_context"]["tls_certificates"][0]["private_key"],
        file
    );
}

#[test]
fn what_is_no_text_goes_and_what_nobody_knows_too() {
    let key = |content: serde_json::Value| json!({"tls_certificates": [{"private_key_provider": {"provider_name": "p", "typed_config": content}}]});
    let any = |url: &str, more: serde_json::Value| {
        let mut any = json!({"@type": format!("type.googleapis.com/{url}")});
        any.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        any
    };
    let address = "envoy.config.core.v3.SocketAddress";
    let given = key(any(address, json!({"address": "a", "port_value": 80})));
    assert_eq!(
        redacted("envoy.extensions.transport_sockets.tls.v3.CommonTlsContext", given),
        key(any(address, json!({"address": "[redacted]"}))),
    );
}
