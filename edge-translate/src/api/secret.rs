//! Secret, whose bytes are decoded on load and never shown by `Debug`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::Text;
use crate::api::meta::Metadata;
use crate::api::text::{is_default, visit_text};

/// Certificates, keys and other private data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Written")]
pub struct Secret {
    /// Name, labels and the like.
    pub metadata: Metadata,
    /// What the data is, such as `kubernetes.io/tls`.
    #[serde(skip_serializing_if = "is_default")]
    pub r#type: Text,
    /// The data, with `stringData` merged in as the cluster does.
    #[serde(skip_serializing_if = "is_default")]
    pub data: BTreeMap<Text, SecretData>,
}

/// A Secret as written.
#[derive(Deserialize)]
#[serde(rename = "Secret", rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    r#type: Text,
    #[serde(default)]
    data: BTreeMap<Text, SecretData>,
    #[serde(default)]
    string_data: BTreeMap<Text, PlainText>,
}

impl From<Written> for Secret {
    fn from(written: Written) -> Self {
        let mut data = written.data;
        data.extend(written.string_data.into_iter().map(|(key, text)| (key, text.0)));
        let r#type = if written.r#type.is_empty() {
            "Opaque".into()
        } else {
            written.r#type
        };
        Self {
            metadata: written.metadata,
            r#type,
            data,
        }
    }
}

/// Private bytes: shared, compared and hashed by callers, but never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData(Arc<[u8]>);

impl SecretData {
    /// These bytes, from now on private.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves, for who needs them.
    pub fn expose(&self) -> &Arc<[u8]> {
        &self.0
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} private bytes]", self.0.len())
    }
}

impl Serialize for SecretData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for SecretData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_text(deserializer, |text| {
            decoded(text).map(|bytes| Self(bytes.into())).map_err(|_| {
                serde::de::Error::custom("the value is not base64: encode it, or put the plain text under stringData")
            })
        })?
    }
}

/// The bytes of base64. Line breaks inside are common in files that are written by hand, and a cluster takes them.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, DecodeError> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    STANDARD.decode(compact)
}

/// An entry of `stringData`.
struct PlainText(SecretData);

impl<'de> Deserialize<'de> for PlainText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_text(deserializer, |text| Self(SecretData(text.as_bytes().into())))
    }
}
