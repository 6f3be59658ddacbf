//! CredentialInjector → [`Injector`]; the secret itself comes with the listener's others.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::credential_injector::v3::CredentialInjector;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::credential::{CredentialUse, generic};
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::config::filter::FilterKind;
use crate::config::filter::credential_injector::{CredentialSlot, Existing, Injector};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: CredentialInjector = unpack(at, config)?;
    fields!(at, &message => CredentialInjector {
        credential, overwrite, allow_request_without_credential; ignore; refuse
    });
    let spec = generic(&at.field("credential"), credential.as_ref())?;
    let slot = Arc::new(CredentialSlot::default());
    let injector = Injector {
        header: spec.header().clone(),
        existing: if *overwrite { Existing::Replaced } else { Existing::Kept },
        optional: *allow_request_without_credential,
        slot: Arc::clone(&slot),
    };
    context.credentials.push(CredentialUse::Header(spec, slot));
    Ok(FilterKind::CredentialInjector(injector))
}
