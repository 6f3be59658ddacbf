//! Code of users in the path of requests. Each instance is off on the chain, and on for the routes of its policy.

use super::common::{duration, retries};
use crate::wire::{put_message, put_struct};
use edge_ir::{
    Download, ExternalProcessor, LuaScript, ModuleSource, NativeFilter, Processed, ProcessedBody, ProcessorAnswers,
    Timeout, Undecided,
};
use envoy_types::{
    pb::{
        envoy::{
            config::core::v3::{
                AsyncDataSource, DataSource, GrpcService, HttpUri, RemoteDataSource,
                async_data_source::Specifier as AsyncSpecifier,
                data_source::Specifier,
                grpc_service::{EnvoyGrpc, TargetSpecifier},
                http_uri::HttpUpstreamType,
            },
            extensions::{
                dynamic_modules::v3::DynamicModuleConfig,
                filters::http::{
                    dynamic_modules::v3::DynamicModuleFilter,
                    ext_proc::v3::{
                        ExternalProcessor as ExtProc, MetadataOptions, ProcessingMode,
                        metadata_options::MetadataNamespaces,
                        processing_mode::{BodySendMode, HeaderSendMode},
                    },
                    lua::v3::Lua,
                },
            },
            r#type::v3::HttpStatus,
        },
        google::protobuf::{Any, StringValue},
    },
    util::pack_any,
};
use prost::{Message, Name};
use serde_json::Value;
use std::sync::Arc;

/// Status of a request whose processor fails where nothing else is said.
const INTERNAL_ERROR: u16 = 500;
/// Longest wait for a module to download.
const DOWNLOAD: Timeout = Timeout(10_000);

/// A service that sees requests.
pub(super) fn processor(processor: &ExternalProcessor) -> ExtProc {
    let status = match processor.undecided {
        Undecided::Allowed | Undecided::Refused(INTERNAL_ERROR) => None,
        Undecided::Refused(code) => Some(HttpStatus { code: code.into() }),
    };
    let attributes = |seen: Option<&Processed>| -> Vec<String> {
        let names = seen.into_iter().flat_map(|seen| &seen.attributes);
        names.map(ToString::to_string).collect()
    };
    ExtProc {
        grpc_service: Some(GrpcService {
            retry_policy: processor.retry.as_ref().map(retries),
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: processor.cluster.to_string(),
                authority: processor.authority.to_string(),
                ..Default::default()
            })),
            ..Default::default()
        }),
        failure_mode_allow: processor.undecided == Undecided::Allowed,
        processing_mode: Some(mode(processor)),
        request_attributes: attributes(processor.request.as_ref()),
        response_attributes: attributes(processor.response.as_ref()),
        message_timeout: Some(duration(processor.message_timeout)),
        allow_mode_override: processor.answers == ProcessorAnswers::Steering,
        observability_mode: processor.answers == ProcessorAnswers::Ignored,
        metadata_options: metadata(processor),
        status_on_error: status,
        ..Default::default()
    }
}

fn mode(processor: &ExternalProcessor) -> ProcessingMode {
    let headers = |seen: Option<&Processed>| match seen {
        Some(_) => HeaderSendMode::Send,
        None => HeaderSendMode::Skip,
    };
    let is_duplex = |seen: Option<&Processed>| seen.is_some_and(|seen| seen.body == ProcessedBody::FullDuplexStreamed);
    // What flows in both directions at a time ends with trailers, which Envoy demands to be sent then.
    let trailers = |seen: Option<&Processed>| match is_duplex(seen) {
        true => HeaderSendMode::Send,
        false => HeaderSendMode::Skip,
    };
    let body = |seen: Option<&Processed>| match seen.map(|seen| seen.body).unwrap_or_default() {
        ProcessedBody::Hidden => BodySendMode::None,
        ProcessedBody::Streamed => BodySendMode::Streamed,
        ProcessedBody::Buffered => BodySendMode::Buffered,
        ProcessedBody::BufferedPartial => BodySendMode::BufferedPartial,
        ProcessedBody::FullDuplexStreamed => BodySendMode::FullDuplexStreamed,
    };
    let (request, response) = (processor.request.as_ref(), processor.response.as_ref());
    ProcessingMode {
        request_header_mode: headers(request).into(),
        response_header_mode: headers(response).into(),
        request_body_mode: body(request).into(),
        response_body_mode: body(response).into(),
        request_trailer_mode: trailers(request).into(),
        response_trailer_mode: trailers(response).into(),
    }
}

fn metadata(processor: &ExternalProcessor) -> Option<MetadataOptions> {
    let namespaces = |names: &[Arc<str>]| {
        (!names.is_empty()).then(|| MetadataNamespaces {
            untyped: names.iter().map(ToString::to_string).collect(),
            ..Default::default()
        })
    };
    let (readable, writable) = (namespaces(&processor.readable), namespaces(&processor.writable));
    (readable.is_some() || writable.is_some()).then(|| MetadataOptions {
        forwarding_namespaces: readable,
        receiving_namespaces: writable,
        ..Default::default()
    })
}

/// `envoy.extensions.filters.http.lua.v3.Lua.filter_context`.
const FILTER_CONTEXT: u32 = 6;

/// A script. What it is given is written by hand, since a map of a generated type has no order.
pub(super) fn script(script: &LuaScript) -> Any {
    let mut value = Lua {
        default_source_code: Some(DataSource {
            specifier: Some(Specifier::InlineString(script.code.to_string())),
            ..Default::default()
        }),
        ..Default::default()
    }
    .encode_to_vec();
    let context = script
        .context
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    if let Some(Value::Object(fields)) = context {
        put_message(&mut value, FILTER_CONTEXT, |out| put_struct(out, &fields));
    }
    Any {
        type_url: Lua::type_url(),
        value,
    }
}

/// A filter of a native module.
pub(super) fn native(filter: &NativeFilter) -> DynamicModuleFilter {
    let module = &filter.module;
    let config = filter
        .config
        .as_deref()
        .map(|text| pack_any(StringValue { value: text.to_owned() }));
    DynamicModuleFilter {
        dynamic_module_config: Some(DynamicModuleConfig {
            do_not_close: module.stays,
            load_globally: module.is_global,
            module: Some(source(&module.source)),
            ..Default::default()
        }),
        filter_name: filter.filter.to_string(),
        terminal_filter: false,
        filter_config: config,
    }
}

fn source(source: &ModuleSource) -> AsyncDataSource {
    let specifier = match source {
        ModuleSource::File(path) => AsyncSpecifier::Local(DataSource {
            specifier: Some(Specifier::Filename(path.to_string())),
            ..Default::default()
        }),
        ModuleSource::Download(download) => AsyncSpecifier::Remote(remote(download)),
    };
    AsyncDataSource {
        specifier: Some(specifier),
    }
}

/// What a proxy fetches itself.
pub(super) fn remote(download: &Download) -> RemoteDataSource {
    RemoteDataSource {
        http_uri: Some(HttpUri {
            uri: download.url.to_string(),
            timeout: Some(duration(DOWNLOAD)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(download.cluster.to_string())),
        }),
        sha256: download.sha256.to_string(),
        ..Default::default()
    }
}
