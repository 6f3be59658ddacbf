//! What evaluation does where nothing comes from a message; that it is Envoy's is for
//! `e2e/tests/messages/expressions.rs`.

use std::borrow::Cow;

use super::*;

/// Facts of which there are none.
struct Nothing;

impl Facts for Nothing {
    fn attribute(&self, _: Attribute) -> Option<Value<'_>> {
        None
    }

    fn field(&self, _: &Field) -> Option<Cow<'_, str>> {
        None
    }

    fn metadata(&self) -> Option<&Metadata> {
        None
    }
}

fn truth(value: bool) -> Expression {
    Expression::Constant(Constant::Bool(value))
}

fn failing() -> Expression {
    Expression::Attribute(Attribute::ResponseCode)
}

#[test]
fn what_has_no_value_is_never_true_and_neither_is_its_opposite() {
    assert!(!failing().holds(&Nothing));
    assert!(!Expression::Not(Box::new(failing())).holds(&Nothing));
    assert!(!Expression::Constant(Constant::Int(1)).holds(&Nothing));
    assert!(truth(true).holds(&Nothing));
}

#[test]
fn whatever_is_not_told_to_be_false_is_possible() {
    let possible = |one| Expression::Possible(Box::new(one)).holds(&Nothing);
    assert!(possible(failing()) && possible(truth(true)) && !possible(truth(false)));
    assert!(possible(Expression::Not(Box::new(failing()))));
    assert!(!possible(Expression::Constant(Constant::Int(1))));
}

#[test]
fn one_side_decides_whatever_the_other_one_is() {
    let both = |make: fn(Box<[Expression; 2]>) -> Expression, one, other| {
        let expression = make(Box::new([one, other]));
        expression
            .evaluate(&Nothing)
            .map(|value| matches!(value, Value::Bool(true)))
    };
    assert_eq!(both(Expression::Or, failing(), truth(true)), Ok(true));
    assert_eq!(both(Expression::Or, truth(true), failing()), Ok(true));
    assert_eq!(both(Expression::Or, failing(), truth(false)), Err(Failed));
    assert_eq!(both(Expression::And, failing(), truth(false)), Ok(false));
    assert_eq!(both(Expression::And, truth(true), failing()), Err(Failed));
}

#[test]
fn names_of_fields_are_read_in_any_case() {
    assert_eq!(FieldName::read("Host"), Some(FieldName::Authority));
    assert_eq!(FieldName::read(":Path"), Some(FieldName::Path));
    let named = FieldName::Named(HeaderName::from_static("x-a"));
    assert_eq!(FieldName::read("X-A"), Some(named));
    assert_eq!(FieldName::read("a b"), None);
}
