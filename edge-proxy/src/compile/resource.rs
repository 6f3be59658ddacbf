//! Of what observations are, in OpenTelemetry's words: attributes of a resource.

use std::collections::BTreeMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::resource_detectors::v3::StaticConfigResourceDetectorConfig;
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::opentelemetry::proto::common::v1::KeyValueList;
use prost::Message;

use crate::compile::collector::pair;
use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};

/// What observations are of where nothing is said.
pub(super) const NO_SERVICE: &str = "unknown_service:edge-proxy";
/// What makes them.
const MAKER: [(&str, &str); 3] = [
    ("telemetry.sdk.name", "edge-proxy"),
    ("telemetry.sdk.language", "rust"),
    ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
];

/// Attributes by their names.
#[derive(Default)]
pub(super) struct Resource(BTreeMap<String, String>);

impl Resource {
    /// Says of which service.
    pub(super) fn name(&mut self, service: &str) {
        self.0.insert("service.name".to_owned(), service.to_owned());
    }

    /// Says what makes observations.
    pub(super) fn maker(&mut self) {
        let maker = MAKER.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.0.extend(maker);
    }

    /// Says what the configuration does; the later wins.
    pub(super) fn detect(&mut self, at: &At<'_>, detectors: &[TypedExtensionConfig]) -> Result<(), Rejection> {
        for (index, detector) in detectors.iter().enumerate() {
            self.detected(&at.index(index), detector)?;
        }
        Ok(())
    }

    fn detected(&mut self, at: &At<'_>, message: &TypedExtensionConfig) -> Result<(), Rejection> {
        let config = config(at, message)?;
        if !is::<StaticConfigResourceDetectorConfig>(config) {
            let kind = type_name(config);
            return Err(at.error(format!("resource detector {kind} is not supported by this proxy")));
        }
        let message: StaticConfigResourceDetectorConfig = unpack(at, config)?;
        fields!(at, &message => StaticConfigResourceDetectorConfig { attributes; ignore; refuse });
        self.0
            .extend(attributes.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(())
    }

    /// The encoded message. A resource and a list of pairs look alike on the wire.
    pub(super) fn encoded(&self) -> Bytes {
        let list = KeyValueList {
            values: self.0.iter().map(|(key, value)| pair(key, value)).collect(),
        };
        list.encode_to_vec().into()
    }
}

/// The settings of an extension.
pub(super) fn config<'m>(at: &At<'_>, message: &'m TypedExtensionConfig) -> Result<&'m Any, Rejection> {
    let config = message.typed_config.as_ref();
    config.ok_or_else(|| at.field("typed_config").error("is required"))
}
