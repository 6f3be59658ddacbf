//! What an expression is for the facts that there are.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use crate::expression::value::Value;
use crate::expression::{Arithmetic, Comparison, Expression, Facts, Failed, Field, FieldName, Message, functions};

type Outcome<'a> = Result<Value<'a>, Failed>;

impl Expression {
    /// Its value.
    pub fn evaluate<'a>(&'a self, facts: &'a dyn Facts) -> Outcome<'a> {
        let of = |expression: &'a Expression| expression.evaluate(facts);
        Ok(match self {
            Self::Constant(constant) => constant.value(),
            Self::Attribute(attribute) => facts.attribute(*attribute).ok_or(Failed)?,
            Self::HasAttribute(attribute) => Value::Bool(facts.attribute(*attribute).is_some()),
            Self::Field(field) => Value::Text(facts.field(field).ok_or(Failed)?),
            Self::HasField(field) => Value::Bool(facts.field(field).is_some()),
            Self::FieldNamed(name) => Value::Text(named(&of(name)?, facts)?.ok_or(Failed)?),
            Self::HasFieldNamed(name) => Value::Bool(named(&of(name)?, facts)?.is_some()),
            Self::Metadata => facts.metadata().map(Value::Found).ok_or(Failed)?,
            Self::Member(map, name) => of(map)?.entry(&Value::text(&**name))?.ok_or(Failed)?,
            Self::HasMember(map, name) => Value::Bool(of(map)?.entry(&Value::text(&**name))?.is_some()),
            Self::Element(two) => of(&two[0])?.at(&of(&two[1])?)?,
            Self::In(two) => Value::Bool(of(&two[0])?.is_in(&of(&two[1])?)?),
            Self::And(two) => return short(two, false, facts),
            Self::Or(two) => return short(two, true, facts),
            Self::Not(one) => Value::Bool(!truth(&of(one)?)?),
            Self::Possible(one) => Value::Bool(of(one).map_or(Ok(true), |value| truth(&value))?),
            Self::Negative(one) => negative(&of(one)?)?,
            Self::Choice(three) => match truth(&of(&three[0])?)? {
                true => of(&three[1])?,
                false => of(&three[2])?,
            },
            Self::Compare(comparison, two) => Value::Bool(compare(*comparison, &of(&two[0])?, &of(&two[1])?)?),
            Self::Compute(arithmetic, two) => compute(*arithmetic, of(&two[0])?, of(&two[1])?)?,
            Self::List(elements) => Value::List(elements.iter().map(of).collect::<Result<Rc<[_]>, _>>()?),
            Self::Map(entries) => map(entries, facts)?,
            Self::Matches(text, pattern) => match of(text)? {
                Value::Text(text) => Value::Bool(pattern.is_match(&text)),
                _ => return Err(Failed),
            },
            Self::Call(function, arguments) => {
                let arguments = arguments.iter().map(of).collect::<Result<Vec<_>, _>>()?;
                functions::call(*function, arguments)?
            }
        })
    }
}

/// `&&` and `||`: one side of the deciding value decides, whatever the other one is.
fn short<'a>(two: &'a [Expression; 2], decides: bool, facts: &'a dyn Facts) -> Outcome<'a> {
    let first = two[0].evaluate(facts);
    if matches!(first, Ok(Value::Bool(value)) if value == decides) {
        return first;
    }
    let second = two[1].evaluate(facts)?;
    match (first, truth(&second)?) {
        (_, value) if value == decides => Ok(second),
        (Ok(Value::Bool(_)), _) => Ok(second),
        _ => Err(Failed),
    }
}

fn truth(value: &Value<'_>) -> Result<bool, Failed> {
    match value {
        Value::Bool(value) => Ok(*value),
        _ => Err(Failed),
    }
}

/// A field of the request by a name that was computed. A text that is no name is no field's.
fn named<'a>(name: &Value<'_>, facts: &'a dyn Facts) -> Result<Option<Cow<'a, str>>, Failed> {
    let Value::Text(name) = name else {
        return Err(Failed);
    };
    let field = FieldName::read(name).map(|name| Field {
        of: Message::Request,
        name,
        place: 0,
    });
    Ok(field.and_then(|field| {
        let text = facts.field(&field)?;
        Some(Cow::Owned(text.into_owned()))
    }))
}

fn map<'a>(entries: &'a [[Expression; 2]], facts: &'a dyn Facts) -> Outcome<'a> {
    let mut made: Vec<[Value<'a>; 2]> = Vec::with_capacity(entries.len());
    for [key, value] in entries {
        let key = key.evaluate(facts)?;
        let is_key = matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Text(_));
        if !is_key || made.iter().any(|[known, _]| known.equals(&key)) {
            return Err(Failed);
        }
        made.push([key, value.evaluate(facts)?]);
    }
    Ok(Value::Map(made.into()))
}

fn compare(comparison: Comparison, one: &Value<'_>, other: &Value<'_>) -> Result<bool, Failed> {
    match comparison {
        Comparison::Equal => return Ok(one.equals(other)),
        Comparison::Other => return Ok(!one.equals(other)),
        _ => {}
    }
    // What is no number is neither less nor greater than anything.
    let Some(order) = one.order(other)? else {
        return Ok(false);
    };
    Ok(match comparison {
        Comparison::Less => order == Ordering::Less,
        Comparison::AtMost => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

fn negative(value: &Value<'_>) -> Result<Value<'static>, Failed> {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or(Failed),
        Value::Double(number) => Ok(Value::Double(-number)),
        _ => Err(Failed),
    }
}

fn compute<'a>(arithmetic: Arithmetic, one: Value<'a>, other: Value<'a>) -> Outcome<'a> {
    use Arithmetic::{Difference, Product, Quotient, Remainder, Sum, SumOrText};
    use Value::{Bytes, Double, Duration, Int, Text, Timestamp, Uint};
    let made = match (arithmetic, one, other) {
        (SumOrText, Text(one), Text(other)) => Some(Text(one + other)),
        (SumOrText, Bytes(one), Bytes(other)) => Some(Bytes([one, other].concat().into())),
        (Sum | SumOrText, Int(a), Int(b)) => a.checked_add(b).map(Int),
        (Difference, Int(a), Int(b)) => a.checked_sub(b).map(Int),
        (Product, Int(a), Int(b)) => a.checked_mul(b).map(Int),
        (Quotient, Int(a), Int(b)) => a.checked_div(b).map(Int),
        (Remainder, Int(a), Int(b)) => a.checked_rem(b).map(Int),
        (Sum | SumOrText, Uint(a), Uint(b)) => a.checked_add(b).map(Uint),
        (Difference, Uint(a), Uint(b)) => a.checked_sub(b).map(Uint),
        (Product, Uint(a), Uint(b)) => a.checked_mul(b).map(Uint),
        (Quotient, Uint(a), Uint(b)) => a.checked_div(b).map(Uint),
        (Remainder, Uint(a), Uint(b)) => a.checked_rem(b).map(Uint),
        (Sum | SumOrText, Double(a), Double(b)) => Some(Double(a + b)),
        (Difference, Double(a), Double(b)) => Some(Double(a - b)),
        (Product, Double(a), Double(b)) => Some(Double(a * b)),
        (Quotient, Double(a), Double(b)) => Some(Double(a / b)),
        (Sum | SumOrText, Duration(a), Duration(b)) => a.checked_add(b).map(Duration),
        (Difference, Duration(a), Duration(b)) => a.checked_sub(b).map(Duration),
        (Sum | SumOrText, Timestamp(at), Duration(by)) | (Sum | SumOrText, Duration(by), Timestamp(at)) => {
            at.checked_add(by).ok().map(Timestamp)
        }
        (Difference, Timestamp(at), Duration(by)) => at.checked_sub(by).ok().map(Timestamp),
        (Difference, Timestamp(a), Timestamp(b)) => Some(Duration(a.duration_since(b))),
        _ => None,
    };
    made.ok_or(Failed)
}
