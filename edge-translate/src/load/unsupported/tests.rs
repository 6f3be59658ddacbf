//! No field is ignored in silence: the types know each, and so does one of the two lists.

use super::{FIELDS, fields_of};
use crate::api::{
    ClientTrafficPolicySpec, Kind, Object,
    extension::{ExtProc, Lua, ModuleFilter, Wasm},
    security::SecuritySettings,
};
use crate::load::known::NARROWING;
use crate::load::{Limits, Source, load};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Visitor, value::Error};
use std::{cell::RefCell, collections::BTreeSet};

/// Fields that the translation reads, or refuses with a condition, or that are for others: `Type field field …`.
const HONOURED: &str = include_str!("honoured.txt");

/// Pretends to hold every field of every type, and remembers which there are.
#[derive(Clone, Copy)]
struct Walker<'s> {
    seen: &'s RefCell<BTreeSet<(&'static str, &'static str)>>,
    /// What texts hold.
    text: &'static str,
}

impl<'de> de::Deserializer<'de> for Walker<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u16(1)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(1)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(1)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(1)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(1)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(1.0)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Once { walker: Some(self) })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Members {
            walker: self,
            owner: "",
            fields: ["aaaa"].iter(),
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        owner: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Members {
            walker: self,
            owner,
            fields: fields.iter(),
        })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u128 f32 char string bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Once<'s> {
    walker: Option<Walker<'s>>,
}

impl<'de> de::SeqAccess<'de> for Once<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.walker.take().map(|walker| seed.deserialize(walker)).transpose()
    }
}

struct Members<'s> {
    walker: Walker<'s>,
    owner: &'static str,
    fields: std::slice::Iter<'static, &'static str>,
}

impl<'de> de::MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        // Below a field that isn't honoured nothing is.
        let skipped = fields_of(self.owner);
        let next = self.fields.find(|field| {
            self.walker.seen.borrow_mut().insert((self.owner, **field));
            // Free, and written by us.
            **field != "status" && !skipped.iter().any(|(name, _)| name == *field)
        });
        // All texts are base64 as well, but for a time.
        self.walker.text = match next {
            Some(&"creationTimestamp") => "2006-01-02T15:04:05Z",
            _ => "aaaa",
        };
        next.map(|field| seed.deserialize(de::value::StrDeserializer::new(field)))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.walker)
    }
}

/// Every field of every type that loading knows, down to what isn't honoured.
fn known() -> BTreeSet<(&'static str, &'static str)> {
    let seen = RefCell::default();
    for kind in Kind::ALL {
        let walked = Object::deserialize_as(
            *kind,
            Walker {
                seen: &seen,
                text: "aaaa",
            },
            |_| (),
        );
        assert!(walked.is_ok(), "{kind}: {walked:?}");
    }
    // Kept as it was written, and read where its meaning is asked for.
    let walked = SecuritySettings::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let walked = Lua::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let walked = ModuleFilter::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let walked = Wasm::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let walked = ExtProc::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let walked = ClientTrafficPolicySpec::deserialize(Walker {
        seen: &seen,
        text: "aaaa",
    });
    assert!(walked.is_ok(), "{walked:?}");
    let mut seen = seen.into_inner();
    seen.retain(|(owner, _)| !owner.is_empty());
    seen
}

#[test]
fn every_field_is_honoured_or_listed() {
    let honoured: BTreeSet<(&str, &str)> = HONOURED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| {
            let (owner, fields) = line.split_once(' ').unwrap_or((line, ""));
            fields.split(' ').map(move |field| (owner, field))
        })
        .collect();
    let listed: BTreeSet<(&str, &str)> = FIELDS
        .iter()
        .flat_map(|(owner, fields)| fields.iter().map(move |(field, _)| (*owner, *field)))
        .collect();
    let known = known();
    let both: Vec<_> = honoured.intersection(&listed).collect();
    assert!(both.is_empty(), "honoured, and listed as not: {both:?}");
    let told: BTreeSet<_> = honoured.union(&listed).copied().collect();
    let silent: Vec<_> = known.difference(&told).collect();
    assert!(
        silent.is_empty(),
        "list these in load/unsupported.rs, or in honoured.txt once they are translated: {silent:?}"
    );
    let stale: Vec<_> = told.difference(&known).collect();
    assert!(stale.is_empty(), "no type has these fields: {stale:?}");
}

#[test]
fn fields_that_must_not_get_lost_exist() {
    let known = known();
    let narrowing = NARROWING
        .iter()
        .flat_map(|(owner, fields)| fields.iter().map(move |f| (*owner, *f)));
    let stale: Vec<_> = narrowing.filter(|field| !known.contains(field)).collect();
    assert!(stale.is_empty(), "no type has these fields: {stale:?}");
}

#[test]
fn types_are_sorted() {
    assert!(FIELDS.is_sorted_by_key(|(owner, _)| *owner));
}

#[test]
fn what_is_not_honoured_is_a_warning_with_its_place_and_stays_with_the_object() {
    let text = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  rules:\n\
                \x20 - name: one\n  useDefaultGateways: All\n";
    let loaded = load(&Source { name: "f.yaml", text }, &Limits::default());
    let warning = "spec.useDefaultGateways is not supported by this version: the route attaches to the parents that it \
                   names";
    assert_eq!(
        loaded.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!("f.yaml:7:3: warning: HTTPRoute/default/r: {warning}")]
    );
    let unsupported = &loaded.objects[0].object.metadata().unsupported;
    assert_eq!(unsupported.iter().map(|text| &**text).collect::<Vec<_>>(), [warning]);
}
