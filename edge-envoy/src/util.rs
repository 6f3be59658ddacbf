//! What messages in messages need.

use crate::pb::google::protobuf::Any;
use prost::{Message, Name};

/// Packs a message with its type, as fields take it that hold a message of any type.
pub fn pack_any<M: Message + Name>(message: M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}
