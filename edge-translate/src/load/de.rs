//! From the tree to the types, keeping the place and path of everything that is odd.
//!
//! Null members count as absent, as the cluster treats them, except in free JSON where null means something. A field
//! that a type doesn't know is noted and skipped.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Visitor};

use crate::load::known::{nearest, silent};
use crate::load::node::{Data, Entry, Node};
use crate::load::unsupported;

/// What went wrong at which place.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) message: String,
    /// Path and place of the innermost value at fault, once known.
    pub(crate) place: Option<(u32, String)>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            place: None,
        }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = plain_words(&expected.to_string());
        let advice = match &found {
            de::Unexpected::Unit => "",
            de::Unexpected::Str(text) if expected.contains("number") && text.parse::<f64>().is_ok() => {
                ": take the quotes away"
            }
            de::Unexpected::Bool(_)
            | de::Unexpected::Signed(_)
            | de::Unexpected::Unsigned(_)
            | de::Unexpected::Float(_)
                if expected.contains("string") =>
            {
                ": put it in quotes"
            }
            _ => "",
        };
        Self::custom(format_args!(
            "found {}, but this must be {expected}{advice}",
            found_words(found)
        ))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format_args!("the field `{field}` is missing: add it"))
    }
}

fn found_words(found: de::Unexpected<'_>) -> String {
    match found {
        de::Unexpected::Unit => "nothing".to_owned(),
        de::Unexpected::Seq => "a list".to_owned(),
        de::Unexpected::Map => "a mapping".to_owned(),
        de::Unexpected::Str(text) if text.len() > 80 => "a long string".to_owned(),
        de::Unexpected::Str(text) => format!("the string {text:?}"),
        de::Unexpected::Bool(flag) => format!("the boolean {flag}"),
        de::Unexpected::Signed(number) => format!("the number {number}"),
        de::Unexpected::Unsigned(number) => format!("the number {number}"),
        de::Unexpected::Float(number) => format!("the number {number}"),
        other => other.to_string(),
    }
}

/// The type names of serde in words for people.
fn plain_words(expected: &str) -> String {
    match expected {
        "u16" => "a number from 0 to 65535".to_owned(),
        "u32" => "a number from 0 to 4294967295".to_owned(),
        "u64" => "a whole number that is not negative".to_owned(),
        "i32" => "a number from -2147483648 to 2147483647".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        other if other.starts_with("struct ") => "a mapping".to_owned(),
        other => other.to_owned(),
    }
}

/// Something to warn about.
#[derive(Debug)]
pub(crate) struct Odd {
    /// Place of the key or value.
    pub(crate) at: u32,
    /// Path of the field.
    pub(crate) path: String,
    /// What is odd.
    pub(crate) what: What,
}

/// What is odd about a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// No type knows it.
    Unknown(Unknown),
    /// It is a number, and text was wanted.
    Unquoted,
    /// It is known and not honoured; what happens instead.
    Unsupported(&'static str),
}

/// A field that its type doesn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// The type.
    pub(crate) owner: &'static str,
    /// The field of that type with nearly this name.
    pub(crate) meant: Option<&'static str>,
}

/// The way from the document to a value; linked, so that it costs nothing unless there is something to report.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// Whether it is one of the fields by which the kind was told already: no type has them, and every object does.
    fn is_identity(&self) -> bool {
        matches!(self, Path::Field(Path::Root, "apiVersion" | "kind"))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads one value of the tree.
pub(crate) struct Reader<'n, 'a, 'p> {
    node: &'n Node<'a>,
    path: Path<'p>,
    odd: &'p RefCell<Vec<Odd>>,
    /// Of what type the value is a field.
    field: Option<Field>,
}

impl<'n, 'a, 'p> Reader<'n, 'a, 'p> {
    /// A reader for a whole object.
    pub(crate) fn new(node: &'n Node<'a>, odd: &'p RefCell<Vec<Odd>>) -> Self {
        Self {
            node,
            path: Path::Root,
            odd,
            field: None,
        }
    }

    fn locate<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|mut error| {
            if error.place.is_none() {
                error.place = Some((self.node.at, self.path.to_string()));
            }
            error
        })
    }

    fn unexpected(&self) -> de::Unexpected<'_> {
        match &self.node.data {
            Data::Null => de::Unexpected::Unit,
            Data::Bool(flag) => de::Unexpected::Bool(*flag),
            Data::Int(int) => de::Unexpected::Signed(*int),
            Data::UInt(int) => de::Unexpected::Unsigned(*int),
            Data::Float(float) => de::Unexpected::Float(*float),
            Data::Text(text) => de::Unexpected::Str(text),
            Data::Seq(_) => de::Unexpected::Seq,
            Data::Map(_) => de::Unexpected::Map,
        }
    }

    fn wrong<V: de::Expected, T>(&self, visitor: &V) -> Result<T, Error> {
        self.locate(Err(de::Error::invalid_type(self.unexpected(), visitor)))
    }

    /// A number where text belongs is taken for the text it prints as, and the author is told. A boolean is not:
    /// a namespace `n` must not become `false`.
    fn unquoted<V: Visitor<'n>>(&self, text: &str, visitor: V) -> Result<V::Value, Error> {
        self.odd.borrow_mut().push(Odd {
            at: self.node.at,
            path: self.path.to_string(),
            what: What::Unquoted,
        });
        self.locate(visitor.visit_str(text))
    }

    fn map<V: Visitor<'n>>(&self, entries: &'n [Entry<'a>], owner: Owner, visitor: V) -> Result<V::Value, Error> {
        let fields = Fields {
            entries: entries.iter(),
            next: None,
            path: &self.path,
            odd: self.odd,
            unsupported: match owner {
                Owner::Struct(name, _) => unsupported::fields_of(name),
                Owner::Map | Owner::Free => &[],
            },
            owner,
        };
        self.locate(visitor.visit_map(fields))
    }

    fn seq<V: Visitor<'n>>(&self, items: &'n [Node<'a>], visitor: V) -> Result<V::Value, Error> {
        let items = Items {
            items: items.iter().enumerate(),
            path: &self.path,
            odd: self.odd,
        };
        self.locate(visitor.visit_seq(items))
    }
}

/// A value as a field of a type.
#[derive(Clone, Copy)]
struct Field {
    /// The type.
    owner: &'static str,
    /// What it knows.
    known: &'static [&'static str],
    /// Place of the key.
    at: u32,
}

/// What a mapping is read as.
#[derive(Clone, Copy)]
enum Owner {
    /// A type of this name, and the fields that it knows.
    Struct(&'static str, &'static [&'static str]),
    /// A mapping of any keys.
    Map,
    /// Free JSON, which keeps null.
    Free,
}

impl<'de> de::Deserializer<'de> for Reader<'de, '_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let result = match &self.node.data {
            Data::Null => visitor.visit_unit(),
            Data::Bool(flag) => visitor.visit_bool(*flag),
            Data::Int(int) => visitor.visit_i64(*int),
            Data::UInt(int) => visitor.visit_u64(*int),
            Data::Float(float) => visitor.visit_f64(*float),
            Data::Text(text) => visitor.visit_str(text),
            Data::Seq(items) => return self.seq(items, visitor),
            Data::Map(entries) => return self.map(entries, Owner::Free, visitor),
        };
        self.locate(result)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.data {
            Data::Text(text) => self.locate(visitor.visit_str(text)),
            Data::Int(int) => self.unquoted(&int.to_string(), visitor),
            Data::UInt(int) => self.unquoted(&int.to_string(), visitor),
            Data::Float(float) => self.unquoted(&float.to_string(), visitor),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.data {
            Data::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.data {
            Data::Seq(items) => self.seq(items, visitor),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.data {
            Data::Map(entries) => self.map(entries, Owner::Map, visitor),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.node.data {
            Data::Map(entries) => self.map(entries, Owner::Struct(name, fields), visitor),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let (Some(Field { owner, known, at }), Path::Field(_, name)) = (self.field, &self.path)
            && !self.path.is_identity()
            && !silent(owner, name)
        {
            let meant = nearest(name, known);
            self.odd.borrow_mut().push(Odd {
                at,
                path: self.path.to_string(),
                what: What::Unknown(Unknown { owner, meant }),
            });
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct enum identifier
    }
}

/// Whether a value asks for anything. False and an empty list are what absence is.
fn says_something(value: &Node<'_>) -> bool {
    match &value.data {
        Data::Null | Data::Bool(false) => false,
        Data::Seq(items) => !items.is_empty(),
        _ => true,
    }
}

struct Items<'n, 'a, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'n, Node<'a>>>,
    path: &'p Path<'p>,
    odd: &'p RefCell<Vec<Odd>>,
}

impl<'n> de::SeqAccess<'n> for Items<'n, '_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path::Index(self.path, index);
        seed.deserialize(Reader {
            node,
            path,
            odd: self.odd,
            field: None,
        })
        .map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'n, 'a, 'p> {
    entries: std::slice::Iter<'n, Entry<'a>>,
    next: Option<&'n Entry<'a>>,
    path: &'p Path<'p>,
    odd: &'p RefCell<Vec<Odd>>,
    owner: Owner,
    /// Fields of the owner that are not honoured.
    unsupported: &'static [(&'static str, &'static str)],
}

impl<'n> de::MapAccess<'n> for Fields<'n, '_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let keep_null = matches!(self.owner, Owner::Free);
        self.next = self
            .entries
            .find(|entry| keep_null || !matches!(entry.value.data, Data::Null));
        match self.next {
            Some(entry) => seed.deserialize(de::value::StrDeserializer::new(&entry.key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'n>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(entry) = self.next.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        let field = match self.owner {
            Owner::Struct(owner, known) => Some(Field {
                owner,
                known,
                at: entry.at,
            }),
            Owner::Map | Owner::Free => None,
        };
        let path = Path::Field(self.path, &entry.key);
        let unsupported = self.unsupported.iter().find(|(name, _)| *name == entry.key);
        if let Some((_, instead)) = unsupported.filter(|_| says_something(&entry.value)) {
            self.odd.borrow_mut().push(Odd {
                at: entry.at,
                path: path.to_string(),
                what: What::Unsupported(instead),
            });
        }
        seed.deserialize(Reader {
            node: &entry.value,
            path,
            odd: self.odd,
            field,
        })
    }
}
