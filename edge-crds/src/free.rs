//! Fields that are free, empty, or of a type of the cluster itself.

use crate::values::shaped;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

shaped! {
    /// Any JSON.
    pub struct AnyJson(Value) = { "x-kubernetes-preserve-unknown-fields": true }
}

/// Settings that are there or not, and hold nothing (yet).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Empty {}

/// A type of the cluster itself, without the descriptions of its fields: they are the cluster's documentation, and
/// would be nine tenths of our definitions, which must fit into one request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Core<T>(pub T);

impl<T: JsonSchema> JsonSchema for Core<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator).to_value();
        without_descriptions(&mut schema);
        Schema::try_from(schema).unwrap_or_default()
    }
}

fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // A property of that name would be a schema, and no text.
            members.retain(|name, value| name != "description" || !value.is_string());
            members.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}
