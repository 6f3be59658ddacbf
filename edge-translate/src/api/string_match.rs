//! A condition on a text, as policies and EdgeProxies write it.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::text::open_enum;

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StringMatch {
    /// How it is compared.
    #[serde(default)]
    pub r#type: StringMatchType,
    /// Text or expression.
    pub value: Text,
}

open_enum! {
    /// How a text is compared.
    pub enum StringMatchType {
        Exact = "Exact",
        Prefix = "Prefix",
        Suffix = "Suffix",
        RegularExpression = "RegularExpression",
    }
}
