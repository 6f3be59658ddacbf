//! What happens to a running gateway: Gateways beside each other, edits under load, protocols, rotation, rejections.
//! Each scenario runs with each data plane, those of filters that edge-proxy hasn't got with stock Envoy.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod backends;
mod changes;
mod clients;
mod extension_server;
mod extensions;
mod gateways;
mod grpc;
mod held_ports;
mod named_backends;
mod patches;
mod policies;
mod protocols;
mod rejection;
mod resources;
mod secrets;
mod statuses;
mod telemetry;
mod traffic;

use changes::{
    a_certificate_is_rotated_without_a_failed_request, edits_under_load_fail_no_request,
    the_configuration_is_reloaded_under_load, the_xds_server_is_changed_under_load,
};
use clients::{
    as_many_connections_are_open_as_the_policy_allows, backends_are_told_whose_connections_they_get,
    clients_are_where_the_policy_looks, clients_show_the_certificates_that_the_policy_asks_for,
    connections_tell_whose_they_are, headers_are_as_the_policy_wants_them,
    names_with_underscores_are_refused_unless_the_policy_lets_them, paths_are_read_as_the_policy_says,
    requests_have_the_time_that_the_policy_gives_them,
};
use extension_server::{
    a_service_is_shown_policies_for_routes_and_listeners, a_service_is_shown_the_objects_that_routes_refer_to,
    a_service_may_change_a_whole_fleet, a_service_of_the_operator_changes_what_proxies_are_sent,
    a_service_says_where_backends_are_that_it_knows, a_service_that_is_named_and_not_there_stops_nothing,
};
use extensions::{
    a_service_processes_responses, modules_tell_clients_what_they_like, scripts_tell_clients_what_they_like,
    services_process_content, services_process_heads, services_send_content_of_their_own,
    services_watch_and_change_nothing,
};
use gateways::{a_deleted_gateway_finishes_what_it_serves, gateways_do_not_notice_each_other};
use held_ports::{a_port_belongs_to_one_controller, a_port_in_use_is_told_and_served_once_it_is_free};
use named_backends::backends_that_requests_name_are_known_by_the_name_that_is_asked_for;
use patches::patches_change_what_proxies_are_sent;
use policies::{
    a_guard_that_breaks_opens_nothing, a_login_outlives_the_controller_and_its_provider,
    a_provider_that_fails_is_asked_again, a_service_decides_over_grpc, a_service_decides_over_http,
    claims_of_tokens_decide, clients_log_in_at_a_certified_provider, clients_log_in_at_a_provider, clients_need_a_key,
    connections_are_let_in_by_address, connections_of_before_are_not_let_past_a_new_guard,
    cookies_of_logins_are_of_one_form, nobody_gets_in_by_the_login_or_the_session_of_another,
    rules_decide_by_expressions, rules_decide_by_where_clients_are, rules_decide_who_may_do_what,
    scripts_of_other_origins_are_told_what_they_may_do, sessions_are_renewed_while_the_provider_does_it,
    sites_that_forge_requests_are_refused, tokens_of_an_issuer_are_needed, users_need_a_password,
};
use protocols::{
    calls_of_scripts_reach_a_grpc_backend, calls_reach_a_grpc_backend, connections_reach_a_tcp_backend,
    datagrams_reach_a_udp_backend, tls_is_passed_through_by_server_name, tls_is_terminated_for_a_tcp_backend,
};
use rejection::what_a_proxy_rejects_harms_nobody_and_heals_with_its_edit;
use secrets::secrets_come_from_a_server_beside_the_proxy;
use telemetry::{
    access_logs_go_where_an_edge_proxy_says, collectors_are_told_of_metrics, services_are_told_what_an_edge_proxy_says,
    streams_are_logged_where_an_edge_proxy_says,
};
use traffic::{
    backends_that_fail_are_left_out, backends_that_fail_probes_are_left_out, faults_are_injected,
    filters_answer_rewrite_and_sign, long_requests_are_refused, one_list_of_cookies_is_enough_and_preflights_need_none,
    requests_are_refused_while_too_few_succeed, requests_are_tried_again, requests_beyond_a_rate_are_turned_away,
    requests_end_in_time, requests_of_a_user_stay_at_a_backend, responses_are_compressed_as_clients_like,
    responses_are_replaced, responses_pass_at_a_rate, the_zone_of_a_proxy_comes_first, what_a_cluster_bears_is_bounded,
};

e2e::with_each_data_plane! {
    gateways_do_not_notice_each_other,
    a_deleted_gateway_finishes_what_it_serves,
    edits_under_load_fail_no_request,
    a_certificate_is_rotated_without_a_failed_request,
    the_configuration_is_reloaded_under_load,
    the_xds_server_is_changed_under_load,
    calls_reach_a_grpc_backend,
    calls_of_scripts_reach_a_grpc_backend,
    connections_reach_a_tcp_backend,
    datagrams_reach_a_udp_backend,
    tls_is_passed_through_by_server_name,
    tls_is_terminated_for_a_tcp_backend,
    a_port_in_use_is_told_and_served_once_it_is_free,
    a_port_belongs_to_one_controller,
    what_a_proxy_rejects_harms_nobody_and_heals_with_its_edit,
    access_logs_go_where_an_edge_proxy_says,
    streams_are_logged_where_an_edge_proxy_says,
    services_are_told_what_an_edge_proxy_says,
    collectors_are_told_of_metrics,
    users_need_a_password,
    clients_need_a_key,
    rules_decide_who_may_do_what,
    connections_are_let_in_by_address,
    claims_of_tokens_decide,
    scripts_of_other_origins_are_told_what_they_may_do,
    sites_that_forge_requests_are_refused,
    tokens_of_an_issuer_are_needed,
    a_service_decides_over_grpc,
    a_service_decides_over_http,
    connections_of_before_are_not_let_past_a_new_guard,
    faults_are_injected,
    long_requests_are_refused,
    requests_are_tried_again,
    requests_end_in_time,
    requests_beyond_a_rate_are_turned_away,
    what_a_cluster_bears_is_bounded,
    requests_of_a_user_stay_at_a_backend,
    the_zone_of_a_proxy_comes_first,
    backends_that_fail_probes_are_left_out,
    backends_that_fail_are_left_out,
    filters_answer_rewrite_and_sign,
    one_list_of_cookies_is_enough_and_preflights_need_none,
    responses_are_compressed_as_clients_like,
    responses_are_replaced,
    responses_pass_at_a_rate,
    requests_are_refused_while_too_few_succeed,
    connections_tell_whose_they_are,
    as_many_connections_are_open_as_the_policy_allows,
    backends_are_told_whose_connections_they_get,
    a_service_of_the_operator_changes_what_proxies_are_sent,
    a_service_may_change_a_whole_fleet,
    a_service_is_shown_policies_for_routes_and_listeners,
    a_service_is_shown_the_objects_that_routes_refer_to, a_service_says_where_backends_are_that_it_knows,
    a_service_that_is_named_and_not_there_stops_nothing,
    clients_are_where_the_policy_looks,
    headers_are_as_the_policy_wants_them,
    names_with_underscores_are_refused_unless_the_policy_lets_them,
    paths_are_read_as_the_policy_says,
    clients_show_the_certificates_that_the_policy_asks_for,
    requests_have_the_time_that_the_policy_gives_them,
    clients_log_in_at_a_provider,
    clients_log_in_at_a_certified_provider,
    a_login_outlives_the_controller_and_its_provider,
    a_provider_that_fails_is_asked_again,
    cookies_of_logins_are_of_one_form,
    nobody_gets_in_by_the_login_or_the_session_of_another,
    sessions_are_renewed_while_the_provider_does_it,
    a_service_processes_responses,
    services_process_heads,
    services_process_content,
    services_send_content_of_their_own,
    services_watch_and_change_nothing,
    rules_decide_by_where_clients_are,
    rules_decide_by_expressions,
    secrets_come_from_a_server_beside_the_proxy,
    backends_that_requests_name_are_known_by_the_name_that_is_asked_for,
}

e2e::with_envoy! {
    a_guard_that_breaks_opens_nothing,
    patches_change_what_proxies_are_sent,
    scripts_tell_clients_what_they_like,
    modules_tell_clients_what_they_like,
}
