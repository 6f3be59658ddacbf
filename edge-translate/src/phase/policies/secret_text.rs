//! Texts of Secrets that filters of policies name, as a fleet has them.

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{SecretForm, SecretKey},
    phase::origin,
};
use edge_ir::{Secret, SecretBytes, SecretContent, SecretName};
use std::sync::Arc;

/// Its name in a fleet.
pub(crate) fn name(reader: &Reader<'_>, named: SecretKey) -> SecretName {
    let (namespace, name) = (reader.text(named.id.namespace), reader.text(named.id.name));
    format!("{namespace}/{name}/{}", named.key).into()
}

/// The text as it stands in the Secret; none where it isn't there or empty.
pub(crate) fn text<'a>(reader: &Reader<'a>, named: SecretKey) -> Option<&'a [u8]> {
    let text = &**reader.secret(named.id)?.data.get(named.key)?.expose();
    let text = match named.form {
        SecretForm::Bytes => text,
        // A line break at the end comes from the tool that wrote the Secret.
        SecretForm::Line => text.trim_ascii_end(),
    };
    (!text.is_empty()).then_some(text)
}

/// What a fleet is given of it.
pub(crate) fn resolved(reader: &Reader<'_>, named: SecretKey) -> Option<Arc<Secret>> {
    let value = text(reader, named)?;
    let (namespace, object) = (reader.text(named.id.namespace), reader.text(named.id.name));
    let origin = origin::origin(Kind::Secret, namespace, object);
    Some(Arc::new(Secret {
        name: name(reader, named),
        content: SecretContent::Generic {
            value: SecretBytes::new(value.to_vec()),
        },
        origins: Arc::new([origin]),
    }))
}
