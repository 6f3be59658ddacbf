//! Expressions in CEL (Common Expression Language) as trees, as a proxy takes them.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expression {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is none below 0.
    Uint(u64),
    /// A number with a fraction, in digits.
    Double(Arc<str>),
    /// A text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// What a name stands for.
    Name(Arc<str>),
    /// A field of what an expression gives.
    Field(Box<Expression>, Arc<str>),
    /// Whether what an expression gives has a field.
    Has(Box<Expression>, Arc<str>),
    /// What a function makes of its arguments. Operators are functions, too: `_==_`.
    Call(Call),
    /// A list.
    List(Vec<Expression>),
    /// Keys and their values.
    Map(Vec<(Expression, Expression)>),
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// The function.
    pub function: Arc<str>,
    /// What it is called on, where that stands before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Box<Expression>>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Expression>,
}

impl Expression {
    /// That both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::operator("_&&_", vec![self, other])
    }

    /// That it isn't true: it is false, no truth value at all, or nobody can tell, for a header that it reads isn't
    /// there. `!` alone can't be told either then, so that it is asked whether the opposite is possible: the function
    /// by which CEL goes on in loops (`cel-spec`, "not_strictly_false"), which no text can name and which has an answer
    /// to everything.
    #[must_use]
    pub fn unmet(self) -> Self {
        Self::operator("@not_strictly_false", vec![Self::operator("!_", vec![self])])
    }

    fn operator(function: &str, arguments: Vec<Self>) -> Self {
        Self::Call(Call {
            function: function.into(),
            on: None,
            arguments,
        })
    }
}
