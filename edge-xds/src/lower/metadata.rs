//! Provenance: the objects that a resource came from, written into it where the proxy shows them and a rejection
//! brings them back.

use crate::wire::{
    LIST_VALUES, MAP_KEY, MAP_VALUE, VALUE_LIST, VALUE_STRUCT, put_message, put_str, put_struct_entry, put_struct_str,
};
use edge_ir::Origin;

/// Key of our entry in `filter_metadata`.
const NAMESPACE: &str = "edge-gateway";

/// Where a proxy looks for which transport socket of its cluster an endpoint is for.
const SOCKET_NAMESPACE: &str = "envoy.transport_socket_match";

/// Key of the name there.
pub(super) const SOCKET_NAME: &str = "name";

/// `envoy.config.core.v3.Metadata.filter_metadata`.
const FILTER_METADATA: u32 = 1;

/// Appends a `Metadata` field of this number to an encoded message. Nothing without origins.
pub(super) fn put_metadata(out: &mut Vec<u8>, number: u32, origins: &[Origin]) {
    if origins.is_empty() {
        return;
    }
    put_message(out, number, |out| {
        put_message(out, FILTER_METADATA, |out| {
            put_str(out, MAP_KEY, NAMESPACE);
            put_message(out, MAP_VALUE, |out| {
                put_struct_entry(out, "resources", |out| {
                    put_message(out, VALUE_LIST, |out| {
                        origins.iter().for_each(|origin| put_origin(out, origin))
                    });
                });
            });
        });
    });
}

/// Appends a `Metadata` field of this number that names a transport socket.
pub(super) fn put_socket_name(out: &mut Vec<u8>, number: u32, name: &str) {
    put_message(out, number, |out| {
        put_message(out, FILTER_METADATA, |out| {
            put_str(out, MAP_KEY, SOCKET_NAMESPACE);
            put_message(out, MAP_VALUE, |out| put_struct_str(out, SOCKET_NAME, name));
        });
    });
}

/// One element of the list, its keys in alphabetical order.
fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    put_message(out, LIST_VALUES, |out| {
        put_message(out, VALUE_STRUCT, |out| {
            if !origin.annotations.is_empty() {
                put_struct_entry(out, "annotations", |out| {
                    put_message(out, VALUE_STRUCT, |out| {
                        origin
                            .annotations
                            .iter()
                            .for_each(|(key, value)| put_struct_str(out, key, value));
                    });
                });
            }
            put_struct_str(out, "kind", &origin.kind);
            put_struct_str(out, "name", &origin.name);
            if !origin.namespace.is_empty() {
                put_struct_str(out, "namespace", &origin.namespace);
            }
            if let Some(section) = &origin.section {
                put_struct_str(out, "sectionName", section);
            }
        });
    });
}
