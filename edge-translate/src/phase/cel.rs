//! Expressions in CEL over attributes of requests, as access logs and rules of access have them.
//!
//! A proxy refuses a whole listener, or a table of routes, for one that it can't read or for a function that it doesn't
//! know. Of an attribute that it doesn't know it says nothing: that is never there, and what is no condition is never
//! met, so that a rule would be without effect. Both are refused here. Proxies run no loops, so that the macros over
//! lists are refused, and take regular expressions up to a small size only.

use cel::{
    ParseErrors, Program,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, MapExpr},
};
use edge_ir::{Call, Expression};
use std::sync::Arc;

mod attributes;
mod conditions;
mod functions;
mod regex_size;

/// Longest expression.
const LONGEST: usize = 4096;
/// Deepest tree: what a proxy reads may be nested no deeper than a hundred messages, of which each step takes two.
const DEEPEST: usize = 24;

/// What an expression may do with texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Compare them and look into them.
    Compared,
    /// Make new ones, too.
    Made,
}

/// Whether an access log can evaluate an expression.
pub(crate) fn check(expression: &str) -> Result<(), String> {
    read(expression, Texts::Compared).map(drop)
}

/// Reads an expression.
pub(crate) fn read(expression: &str, texts: Texts) -> Result<Expression, String> {
    let fails = |why: &str| format!("invalid CEL expression: {expression}: {why}");
    if expression.len() > LONGEST {
        return Err(format!("a CEL expression may have at most {LONGEST} bytes"));
    }
    let program = Program::compile(expression).map_err(|errors| fails(&syntax_error(&errors)))?;
    let (reading, tree) = (Reading { texts }, &program.expression().expr);
    let read = reading.part(tree, DEEPEST).map_err(|why| fails(&why))?;
    match conditions::is_condition(tree) {
        true => Ok(read),
        false => Err(fails("it is neither true nor false")),
    }
}

/// Where an expression can't be read any further, and why. Behind that the parser lists all tokens that it would have
/// taken instead, which is longer than most expressions.
fn syntax_error(errors: &ParseErrors) -> String {
    let Some(first) = errors.errors.iter().min_by_key(|error| error.pos) else {
        return "it can't be read".to_owned();
    };
    let what = first.msg.split(" expecting ").next().unwrap_or_default();
    let (line, column) = first.pos;
    format!(
        "line {line}, column {column}: {}",
        what.trim_start_matches("Syntax error: ")
    )
}

struct Reading {
    texts: Texts,
}

impl Reading {
    fn part(&self, expression: &Expr, depth: usize) -> Result<Expression, String> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("it is nested deeper than {DEEPEST}"))?;
        let boxed = |of: &Expr| self.part(of, depth).map(Box::new);
        Ok(match expression {
            Expr::Literal(literal) => constant(literal),
            Expr::Ident(name) => {
                attributes::check_name(name)?;
                Expression::Name(name.as_str().into())
            }
            Expr::Select(select) => {
                attributes::check_selected(select)?;
                let (of, field) = (boxed(&select.operand.expr)?, select.field.as_str().into());
                match select.test {
                    true => Expression::Has(of, field),
                    false => Expression::Field(of, field),
                }
            }
            Expr::Call(call) => self.call(call, depth)?,
            Expr::List(list) if list.optional_indices.is_empty() => {
                let elements = list.elements.iter().map(|element| self.part(&element.expr, depth));
                Expression::List(elements.collect::<Result<_, _>>()?)
            }
            Expr::Map(map) => Expression::Map(self.entries(map, depth)?),
            Expr::Comprehension(_) => {
                return Err("proxies run no loops: all, exists, exists_one, filter and map can't be used".to_owned());
            }
            Expr::Struct(message) => {
                return Err(format!("{} is no type that proxies know", message.type_name));
            }
            Expr::List(_) | Expr::Unspecified => return Err(OPTIONAL.to_owned()),
        })
    }

    fn call(&self, call: &CallExpr, depth: usize) -> Result<Expression, String> {
        let function = call.func_name.as_str();
        functions::check(function, call.target.is_some(), call.args.len(), self.texts)?;
        attributes::check_called_up(call)?;
        if function == "matches"
            && let Some(pattern) = call.args.last().and_then(|last| text_of(&last.expr))
        {
            regex_size::check(pattern)?;
        }
        let on = call.target.as_ref().map(|on| self.part(&on.expr, depth).map(Box::new));
        let arguments = call.args.iter().map(|argument| self.part(&argument.expr, depth));
        Ok(Expression::Call(Call {
            function: function.into(),
            on: on.transpose()?,
            arguments: arguments.collect::<Result<_, _>>()?,
        }))
    }

    fn entries(&self, map: &MapExpr, depth: usize) -> Result<Vec<(Expression, Expression)>, String> {
        // The message of an entry is one more.
        let depth = depth.saturating_sub(1);
        let entries = map.entries.iter().map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) if !entry.optional => {
                Ok((self.part(&entry.key.expr, depth)?, self.part(&entry.value.expr, depth)?))
            }
            EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(OPTIONAL.to_owned()),
        });
        entries.collect()
    }
}

const OPTIONAL: &str = "proxies know no optional values";

/// A constant text.
fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn constant(literal: &LiteralValue) -> Expression {
    match literal {
        LiteralValue::Boolean(value) => Expression::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Expression::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Expression::Double(Arc::from(value.inner().to_string())),
        LiteralValue::Int(value) => Expression::Int(*value.inner()),
        LiteralValue::Null => Expression::Null,
        LiteralValue::String(value) => Expression::Text(value.inner().into()),
        LiteralValue::UInt(value) => Expression::Uint(*value.inner()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Texts, check, read};

    #[test]
    fn expressions_are_read_as_a_proxy_reads_them() {
        for good in [
            "response.code >= 400",
            "request.headers['x-log'] == 'yes' && !('a' in request.headers)",
            "request.path.startsWith('/api') || request.method in ['GET', 'HEAD']",
            "size(request.headers) > 3 ? true : false",
            "has(request.referer)",
            "{'a': 1}['a'] == -1 && request.size < 2u && 0.5 < double(1) && b'a' != null",
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
            "request.headers[?'a'] == 'a'",
            "a.b.C{d: 1} == 1",
            "request.path.matches('(')",
            "request.path.matches('[a-z]{50}[0-9]{50}')",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_shown_with_its_place() {
        for (bad, why) in [
            (")++++", "line 1, column 1: "),
            ("request.path ==", "line 1, column 16: "),
            ("request.path ==\n  'a' &&& 'b'", "line 2, column 9: "),
        ] {
            let told = check(bad).unwrap_err();
            let begin = format!("invalid CEL expression: {bad}: {why}");
            assert!(told.len() > begin.len() && told.starts_with(&begin), "{told}");
            assert!(!told.contains("expecting"), "{told}");
        }
    }

    #[test]
    fn attributes_are_those_that_proxies_know() {
        for good in [
            "request['path'] == '/' && request.headers['anything'] != ''",
            "metadata.filter_metadata['one']['two'] == 'x' || 'x' in filter_state",
            "xds.route_metadata.filter_metadata['a'].b == 'c' && upstream.port == 80u",
            "type(request.headers['a']) == string || type(request.time) == google.protobuf.Timestamp",
            "has(connection.sha256_peer_certificate_digest)",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, name) in [
            ("requst.headers['a'] == 'b'", "requst"),
            ("request.header['a'] == 'b'", "request.header"),
            ("request['heads']['a'] == 'b'", "request.heads"),
            ("has(source.ip)", "source.ip"),
            ("headers['a'] == 'b'", "headers"),
        ] {
            let why = format!("{name} is no attribute that proxies know");
            assert_eq!(check(bad), Err(format!("invalid CEL expression: {bad}: {why}")));
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for good in [
            "true",
            "connection.mtls",
            "!has(request.referer)",
            "metadata.filter_metadata['jwt']['is_admin']",
            "request.path == '/' ? connection.mtls : false",
            "bool(request.headers['x'])",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "request.headers['x']",
            "request.headers.x",
            "request['headers'][request.path]",
            "request.path",
            "request",
            "1",
            "'true'",
            "size(request.path) - 1",
            "request.path == '/' && request.headers['x']",
            "!request.path",
            "request.path == '/' ? 'a' : 'b'",
            "[true]",
        ] {
            let why = format!("invalid CEL expression: {bad}: it is neither true nor false");
            assert_eq!(check(bad), Err(why));
        }
    }

    #[test]
    fn rules_of_access_may_make_texts() {
        let made = "string(response.code) + request.path.lowerAscii() == 'a'";
        assert!(read(made, Texts::Made).is_ok());
        assert!(read(made, Texts::Compared).is_err());
    }

    #[test]
    fn no_tree_is_deeper_than_a_proxy_reads() {
        let nested = |n: usize| format!("{}true", "!".repeat(n));
        // The parser cancels pairs of negations: an even number of them makes no tree.
        assert!(check(&nested(1)).is_ok());
        let deep = |n: usize| format!("{}1 == 1", "1 + ".repeat(n));
        assert!(check(&deep(8)).is_ok());
        assert!(check(&deep(40)).is_err());
        assert!(check(&format!("'{}' == ''", "a".repeat(4096))).is_err());
        let all = vec!["request.path == '/'"; 60].join(" || ");
        assert!(check(&all).is_ok(), "a long list of alternatives is no deep tree");
    }
}
