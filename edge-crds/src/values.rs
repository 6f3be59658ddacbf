//! Texts of which a field takes only some.

/// Declares an enumeration by the texts that a resource writes.
///
/// Not by a derive: that would make alternatives of the values' own descriptions, which a structural schema can't hold.
macro_rules! values {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`.")]
                #[serde(rename = $text)]
                $variant,
            )+
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),+] })
            }
        }
    };
}
pub(crate) use values;

/// Declares a type of one field with the schema of every such field.
macro_rules! shaped {
    ($(#[$meta:meta])* pub struct $name:ident($inner:ty) = $schema:tt) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use shaped;
