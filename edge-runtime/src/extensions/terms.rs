//! What the configuration says of a service, with its defaults.

use edge_translate::config::extension::{ExtensionManager, ExtensionRetry, TranslationHook, XdsHook};
use edge_xds::{
    hooks::{Hook, Hooks},
    snapshot::ResourceType,
};
use std::{collections::BTreeSet, time::Duration};
use tonic::Code;

/// The largest message where none is named.
const MESSAGE_SIZE: u64 = 4_000_000;

/// When a service is called.
pub(crate) fn hooks_of(manager: &ExtensionManager) -> Hooks {
    let post = manager.hooks.iter().flat_map(|hooks| &hooks.xds_translator);
    let post = post.clone().flat_map(|hooks| hooks.post.iter());
    let hooks: BTreeSet<Hook> = post.filter_map(hook).collect();
    let whole = match hooks.contains(&Hook::Translation) {
        true => whole_of(manager),
        false => BTreeSet::new(),
    };
    Hooks { hooks, whole }
}

fn hook(hook: &XdsHook) -> Option<Hook> {
    match hook {
        XdsHook::Route => Some(Hook::Route),
        XdsHook::VirtualHost => Some(Hook::VirtualHost),
        XdsHook::HttpListener => Some(Hook::HttpListener),
        XdsHook::Cluster => Some(Hook::Cluster),
        XdsHook::Endpoints => Some(Hook::Endpoints),
        XdsHook::Translation => Some(Hook::Translation),
        // The check of the file refuses it.
        XdsHook::Other(_) => None,
    }
}

/// What the last hook is given: clusters and secrets, unless something else is said.
fn whole_of(manager: &ExtensionManager) -> BTreeSet<ResourceType> {
    let hooks = manager.hooks.as_ref().and_then(|hooks| hooks.xds_translator.as_ref());
    let TranslationHook {
        listener,
        route,
        cluster,
        secret,
    } = hooks.and_then(|hooks| hooks.translation.clone()).unwrap_or_default();
    let kinds = [
        (ResourceType::Cluster, cluster, true),
        (ResourceType::Secret, secret, true),
        (ResourceType::Listener, listener, false),
        (ResourceType::Routes, route, false),
    ];
    let wanted = kinds.into_iter().filter(|(_, scope, default)| {
        let said = scope.as_ref().and_then(|scope| scope.include_all);
        said.unwrap_or(*default)
    });
    wanted.map(|(kind, ..)| kind).collect()
}

/// What any of the services is called for.
pub(crate) fn hooks_of_all<'a>(managers: impl IntoIterator<Item = &'a ExtensionManager>) -> Hooks {
    let mut all = Hooks::default();
    for manager in managers {
        let mut hooks = hooks_of(manager);
        all.hooks.append(&mut hooks.hooks);
        all.whole.append(&mut hooks.whole);
    }
    all
}

/// The largest message, in bytes.
pub(super) fn message_size(manager: &ExtensionManager) -> usize {
    let said = manager.max_message_size.as_ref().and_then(|size| size.parse().ok());
    usize::try_from(said.unwrap_or(MESSAGE_SIZE)).unwrap_or(usize::MAX)
}

/// How often a call is tried at once, and how long it waits in between.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tries {
    /// In all.
    pub(super) attempts: u32,
    /// The first wait.
    pub(super) first: Duration,
    /// The longest.
    pub(super) longest: Duration,
    /// Each is so many times the one before.
    pub(super) growth: f64,
    /// After which codes.
    pub(super) codes: Vec<Code>,
}

impl Tries {
    pub(super) fn of(retry: Option<&ExtensionRetry>) -> Self {
        let none = ExtensionRetry::default();
        let retry = retry.unwrap_or(&none);
        let codes = retry.retryable_status_codes.iter().filter_map(|name| code(name));
        let mut codes: Vec<Code> = codes.collect();
        if codes.is_empty() {
            codes.push(Code::Unavailable);
        }
        let time = |text: &Option<edge_translate::api::DurationText>| text.as_ref().and_then(|text| text.parse().ok());
        Self {
            attempts: retry
                .max_attempts
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(4)
                .max(1),
            first: time(&retry.initial_backoff).unwrap_or(Duration::from_millis(100)),
            longest: time(&retry.max_backoff).unwrap_or(Duration::from_secs(1)),
            growth: retry.backoff_multiplier.as_ref().map_or(2.0, |growth| {
                f64::from(growth.numerator) / f64::from(growth.denominator.max(1))
            }),
            codes,
        }
    }

    /// The wait before the next one of all tries.
    pub(super) fn pause(&self, tried: u32) -> Duration {
        let growth = self.growth.max(1.0).powi(i32::try_from(tried).unwrap_or(i32::MAX));
        // Longer than that is the longest anyway, and far from what a duration can't hold.
        self.first.mul_f64(growth.min(1e6)).min(self.longest)
    }
}

/// The code of a name, as gRPC writes it.
fn code(name: &str) -> Option<Code> {
    let all = [
        ("CANCELLED", Code::Cancelled),
        ("UNKNOWN", Code::Unknown),
        ("INVALID_ARGUMENT", Code::InvalidArgument),
        ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
        ("NOT_FOUND", Code::NotFound),
        ("ALREADY_EXISTS", Code::AlreadyExists),
        ("PERMISSION_DENIED", Code::PermissionDenied),
        ("RESOURCE_EXHAUSTED", Code::ResourceExhausted),
        ("FAILED_PRECONDITION", Code::FailedPrecondition),
        ("ABORTED", Code::Aborted),
        ("OUT_OF_RANGE", Code::OutOfRange),
        ("UNIMPLEMENTED", Code::Unimplemented),
        ("INTERNAL", Code::Internal),
        ("UNAVAILABLE", Code::Unavailable),
        ("DATA_LOSS", Code::DataLoss),
        ("UNAUTHENTICATED", Code::Unauthenticated),
    ];
    all.into_iter().find(|(known, _)| *known == name).map(|(_, code)| code)
}
