//! Texts of Secrets that filters of policies name, as a fleet has them.

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{SecretForm, SecretKey},
    phase::{origin, policies::derived},
};
use edge_ir::{Secret, SecretBytes, SecretContent, SecretName};
use std::sync::Arc;

/// Its name in a fleet.
pub(crate) fn name(reader: &Reader<'_>, named: SecretKey) -> SecretName {
    let (namespace, name) = (reader.text(named.id.namespace), reader.text(named.id.name));
    let key = named.key;
    match named.form {
        SecretForm::Bytes | SecretForm::Line => format!("{namespace}/{name}/{key}").into(),
        SecretForm::Own(of) => {
            let of = u128::from_be_bytes(of);
            format!("{namespace}/{name}/{key}/{of:032x}").into()
        }
    }
}

/// The text as it stands in the Secret; none where it isn't there or empty.
pub(crate) fn text<'a>(reader: &Reader<'a>, named: SecretKey) -> Option<&'a [u8]> {
    let text = &**reader.secret(named.id)?.data.get(named.key)?.expose();
    let text = match named.form {
        SecretForm::Bytes | SecretForm::Own(_) => text,
        // A line break at the end comes from the tool that wrote the Secret.
        SecretForm::Line => text.trim_ascii_end(),
    };
    (!text.is_empty()).then_some(text)
}

/// What a fleet is given of it.
pub(crate) fn resolved(reader: &Reader<'_>, named: SecretKey) -> Option<Arc<Secret>> {
    let text = text(reader, named)?;
    let value = match named.form {
        SecretForm::Bytes | SecretForm::Line => text.to_vec(),
        SecretForm::Own(of) => derived::key(text, &of).to_vec(),
    };
    let (namespace, object) = (reader.text(named.id.namespace), reader.text(named.id.name));
    let origin = origin::origin(Kind::Secret, namespace, object);
    Some(Arc::new(Secret {
        name: name(reader, named),
        content: SecretContent::Generic {
            value: SecretBytes::new(value),
        },
        origins: Arc::new([origin]),
    }))
}
