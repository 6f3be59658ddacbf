//! The messages of [Envoy's v3 API](https://www.envoyproxy.io/docs/envoy/latest/api-v3/api) that Edge Gateway speaks.
//!
//! What: types that `prost` encodes and decodes, one module a protobuf package, as in the crate `envoy-types`, of which
//! this is a part (`cargo xtask gen` cuts it out). Packages that the workspace has no use for are left out. With the
//! feature `grpc` there are clients and servers of the services too.
//!
//! Nothing here knows a socket or a file, so it compiles for any target. Where the definitions come from, and under
//! which licences, stands in the README.
//!
//! ```
//! use edge_envoy::{pb::envoy::config::core::v3::TypedExtensionConfig, util::pack_any};
//! use prost::Message;
//!
//! let config = TypedExtensionConfig { name: "mine".to_owned(), typed_config: None };
//! let any = pack_any(config.clone());
//! assert_eq!(any.type_url, "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig");
//! assert_eq!(TypedExtensionConfig::decode(any.value.as_slice()), Ok(config));
//! ```

pub mod pb;
pub mod util;
