//! Filters of Wasm modules. The proxy fetches a module by its digest, and runs each filter in a machine of its own.

use super::{common::duration, extension};
use edge_ir::{Failing, Timeout, WasmFilter};
use envoy_types::{
    pb::{
        envoy::{
            config::core::v3::{
                AsyncDataSource, BackoffStrategy, RemoteDataSource, RetryPolicy, async_data_source::Specifier,
            },
            extensions::{
                filters::http::wasm::v3::Wasm,
                wasm::v3::{EnvironmentVariables, FailurePolicy, PluginConfig, VmConfig, plugin_config::Vm},
            },
        },
        google::protobuf::{StringValue, UInt32Value},
    },
    util::pack_any,
};
use std::sync::Arc;

/// What runs modules.
const RUNTIME: &str = "envoy.wasm.runtime.v8";
/// How often a fetch is tried again: a controller may begin anew, and another replica may have the module first.
const TRIES: u32 = 8;
/// Pause before the second try, and the longest pause.
const FIRST_PAUSE: Timeout = Timeout(250);
const LONGEST_PAUSE: Timeout = Timeout(5_000);

/// A filter, by the name of its instance.
pub(super) fn filter(name: &str, filter: &WasmFilter) -> Wasm {
    let remote = RemoteDataSource {
        retry_policy: Some(RetryPolicy {
            retry_back_off: Some(BackoffStrategy {
                base_interval: Some(duration(FIRST_PAUSE)),
                max_interval: Some(duration(LONGEST_PAUSE)),
            }),
            num_retries: Some(UInt32Value { value: TRIES }),
            ..Default::default()
        }),
        ..extension::remote(&filter.module)
    };
    let environment = (!filter.environment.is_empty()).then(|| EnvironmentVariables {
        host_env_keys: filter.environment.iter().map(ToString::to_string).collect(),
        ..Default::default()
    });
    let vm = VmConfig {
        // Filters of the same module and settings would share a machine, and its memory, otherwise; and one whose
        // module has become another would keep the machine that it has.
        vm_id: format!("{name}@{}", filter.module.sha256),
        runtime: RUNTIME.to_owned(),
        code: Some(AsyncDataSource {
            specifier: Some(Specifier::Remote(remote)),
        }),
        environment_variables: environment,
        ..Default::default()
    };
    let json = |text: &Arc<str>| {
        pack_any(StringValue {
            value: text.to_string(),
        })
    };
    // One that breaks is made anew for the next request: it would refuse them all for ever otherwise.
    let policy = match filter.failing {
        Failing::Closed => FailurePolicy::FailReload,
        Failing::Open => FailurePolicy::FailOpen,
    };
    Wasm {
        config: Some(PluginConfig {
            name: filter.name.to_string(),
            root_id: filter.root_id.to_string(),
            configuration: filter.config.as_ref().map(json),
            failure_policy: policy.into(),
            vm: Some(Vm::VmConfig(vm)),
            ..Default::default()
        }),
    }
}
