//! What happens to a running gateway: Gateways beside each other, edits under load, protocols, rotation, rejections.
//! Each scenario runs with each data plane.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod backends;
mod changes;
mod gateways;
mod grpc;
mod held_ports;
mod protocols;
mod rejection;
mod resources;
mod statuses;

use changes::{
    a_certificate_is_rotated_without_a_failed_request, edits_under_load_fail_no_request,
    the_configuration_is_reloaded_under_load, the_xds_server_is_changed_under_load,
};
use gateways::{a_deleted_gateway_finishes_what_it_serves, gateways_do_not_notice_each_other};
use held_ports::{a_port_belongs_to_one_controller, a_port_in_use_is_told_and_served_once_it_is_free};
use protocols::{
    calls_of_scripts_reach_a_grpc_backend, calls_reach_a_grpc_backend, connections_reach_a_tcp_backend,
    datagrams_reach_a_udp_backend, tls_is_passed_through_by_server_name, tls_is_terminated_for_a_tcp_backend,
};
use rejection::what_a_proxy_rejects_harms_nobody_and_heals_with_its_edit;

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
}
