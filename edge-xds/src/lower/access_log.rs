//! The default access log: one JSON object a request on standard output.

use super::common::any;
use crate::wire::{put_message, put_str, put_struct_str};
use envoy_types::pb::envoy::{
    config::accesslog::v3::{AccessLog, access_log::ConfigType},
    extensions::access_loggers::file::v3::FileAccessLog,
};

/// Keys and what stands for them, in the order of the keys.
const FIELDS: [(&str, &str); 24] = [
    (":authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("protocol", "%PROTOCOL%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    (
        "upstream_transport_failure_reason",
        "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    ),
    ("user-agent", "%REQ(USER-AGENT)%"),
    ("x-edge-origin-path", "%REQ(X-EDGE-ORIGINAL-PATH?:PATH)%"),
    ("x-edge-upstream-service-time", "%RESP(X-EDGE-UPSTREAM-SERVICE-TIME)%"),
    ("x-forwarded-for", "%REQ(X-FORWARDED-FOR)%"),
    ("x-request-id", "%REQ(X-REQUEST-ID)%"),
];

/// `FileAccessLog.path`, `.log_format`.
const PATH: u32 = 1;
const LOG_FORMAT: u32 = 5;
/// `SubstitutionFormatString.json_format`.
const JSON_FORMAT: u32 = 2;

/// The access log of a proxy that was not told otherwise.
pub(super) fn default_json() -> AccessLog {
    let mut config = Vec::new();
    put_str(&mut config, PATH, "/dev/stdout");
    put_message(&mut config, LOG_FORMAT, |out| {
        put_message(out, JSON_FORMAT, |out| {
            FIELDS.iter().for_each(|(key, value)| put_struct_str(out, key, value));
        });
    });
    AccessLog {
        name: "envoy.access_loggers.file".to_owned(),
        config_type: Some(ConfigType::TypedConfig(any::<FileAccessLog>(config))),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::{
        envoy::{
            config::core::v3::substitution_format_string::Format,
            extensions::access_loggers::file::v3::file_access_log::AccessLogFormat,
        },
        google::protobuf::value::Kind,
    };
    use prost::Message;

    #[test]
    fn the_hand_written_encoding_reads_back_as_the_message() {
        let Some(ConfigType::TypedConfig(any)) = default_json().config_type else {
            panic!("no config")
        };
        let log = FileAccessLog::decode(any.value.as_slice()).unwrap();
        assert_eq!(log.path, "/dev/stdout");
        let Some(AccessLogFormat::LogFormat(format)) = log.access_log_format else {
            panic!("no format")
        };
        let Some(Format::JsonFormat(json)) = format.format else {
            panic!("no JSON format")
        };
        assert_eq!(json.fields.len(), FIELDS.len());
        let method = json.fields["method"].kind.clone();
        assert_eq!(method, Some(Kind::StringValue("%REQ(:METHOD)%".to_owned())));
    }
}
