//! Whether an expression can be true at all. One that gives a text or a number is never met, whatever a request is.

use super::attributes::{Gives, called_up, gives};
use cel::common::ast::{CallExpr, Expr, LiteralValue};

/// Functions and operators that give true or false.
const TESTS: [&str; 12] = [
    "@in",
    "_!=_",
    "_<=_",
    "_<_",
    "_==_",
    "_>=_",
    "_>_",
    "bool",
    "contains",
    "endsWith",
    "matches",
    "startsWith",
];

/// Whether an expression can be true or false, as far as it can be told without a request.
pub(super) fn is_condition(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        Expr::Select(select) => select.test || member_is_condition(&select.operand.expr, &select.field),
        Expr::Call(call) => call_is_condition(call),
        Expr::Ident(_) | Expr::List(_) | Expr::Map(_) => false,
        // Refused for other reasons.
        Expr::Comprehension(_) | Expr::Struct(_) | Expr::Unspecified => true,
    }
}

fn call_is_condition(call: &CallExpr) -> bool {
    let parts = |from: usize| call.args.iter().skip(from).all(|part| is_condition(&part.expr));
    match call.func_name.as_str() {
        "_&&_" | "_||_" | "!_" | "dyn" => parts(0),
        "_?_:_" => parts(1),
        "_[_]" => match called_up(call) {
            Some((of, name)) => member_is_condition(of, name),
            None => call.args.first().is_none_or(|of| !is_fields(&of.expr)),
        },
        name => TESTS.contains(&name),
    }
}

/// What stands deeper than attributes is what others have put there.
fn member_is_condition(of: &Expr, name: &str) -> bool {
    match of {
        Expr::Ident(root) => !matches!(gives(root, name), Some(Gives::Fields | Gives::Other)),
        _ => !is_fields(of),
    }
}

/// Whether something is the header fields of a message, whose values are texts.
fn is_fields(of: &Expr) -> bool {
    let is_of_message = |root: &Expr, name: &str| match root {
        Expr::Ident(root) => gives(root, name) == Some(Gives::Fields),
        _ => false,
    };
    match of {
        Expr::Select(select) => !select.test && is_of_message(&select.operand.expr, &select.field),
        Expr::Call(call) => called_up(call).is_some_and(|(root, name)| is_of_message(root, name)),
        _ => false,
    }
}
