//! CEL expressions over attributes of requests, as access logs choose entries by them.
//!
//! A proxy refuses a whole listener for one that it can't read or for a function that it doesn't know. What an
//! attribute is called is no matter to it: an unknown one is never there. It runs no loops, so that the macros over
//! lists are refused, makes no texts, and takes regular expressions up to a small size only.

use cel::{
    Program,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, MapExpr},
};

mod functions;
mod regex_size;

/// Longest expression.
const LONGEST: usize = 4096;
/// Deepest tree. A proxy reads no more than 32 levels of brackets.
const DEEPEST: usize = 24;

/// Whether a proxy can evaluate the expression.
pub(super) fn check(expression: &str) -> Result<(), String> {
    let fails = || format!("invalid CEL expression: {expression}");
    if expression.len() > LONGEST {
        return Err(format!("a CEL expression may have at most {LONGEST} bytes"));
    }
    let program = Program::compile(expression).map_err(|_| fails())?;
    part(&program.expression().expr, DEEPEST).map_err(|why| format!("{}: {why}", fails()))
}

const OPTIONAL: &str = "proxies know no optional values";

fn part(expression: &Expr, depth: usize) -> Result<(), String> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| format!("it is nested deeper than {DEEPEST}"))?;
    match expression {
        Expr::Literal(_) | Expr::Ident(_) => Ok(()),
        Expr::Select(select) => part(&select.operand.expr, depth),
        Expr::Call(call) => self::call(call, depth),
        Expr::List(list) if list.optional_indices.is_empty() => {
            list.elements.iter().try_for_each(|element| part(&element.expr, depth))
        }
        Expr::Map(map) => entries(map, depth),
        Expr::Comprehension(_) => {
            Err("proxies run no loops: all, exists, exists_one, filter and map can't be used".to_owned())
        }
        Expr::Struct(message) => Err(format!("{} is no type that proxies know", message.type_name)),
        Expr::List(_) | Expr::Unspecified => Err(OPTIONAL.to_owned()),
    }
}

fn call(call: &CallExpr, depth: usize) -> Result<(), String> {
    let function = call.func_name.as_str();
    functions::check(function, call.target.is_some(), call.args.len())?;
    if function == "matches"
        && let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|last| &last.expr)
    {
        regex_size::check(pattern.inner())?;
    }
    let on = call.target.as_ref().map(|on| &on.expr).into_iter();
    let mut parts = on.chain(call.args.iter().map(|argument| &argument.expr));
    parts.try_for_each(|one| part(one, depth))
}

fn entries(map: &MapExpr, depth: usize) -> Result<(), String> {
    map.entries.iter().try_for_each(|entry| match &entry.expr {
        EntryExpr::MapEntry(entry) if !entry.optional => {
            part(&entry.key.expr, depth)?;
            part(&entry.value.expr, depth)
        }
        EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(OPTIONAL.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn expressions_are_read_as_a_proxy_reads_them() {
        for good in [
            "response.code >= 400",
            "request.headers['x-log'] == 'yes' && !('a' in request.headers)",
            "request.path.startsWith('/api') || request.method in ['GET', 'HEAD']",
            "size(request.headers) > 3 ? true : false",
            "has(request.referer)",
            "request.path.matches('^/v[0-9]+/.*$')",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            ")++++",
            "",
            "response.code >=",
            "nobody(request.path)",
            "request.path.nobody()",
            "size(request.path, 1)",
            "string(1) == '1'",
            "request.path.lowerAscii() == '/'",
            "[1, 2].exists(n, n == response.code)",
            "request.path.matches('(')",
            "request.path.matches('[a-z]{50}[0-9]{50}')",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_expression_is_longer_or_deeper_than_a_proxy_reads() {
        let sum = |n: usize| format!("{}1 == 1", "1 + ".repeat(n));
        assert_eq!(check(&sum(8)), Ok(()));
        assert!(check(&sum(40)).is_err());
        assert!(check(&format!("'{}' == ''", "a".repeat(4096))).is_err());
    }
}
