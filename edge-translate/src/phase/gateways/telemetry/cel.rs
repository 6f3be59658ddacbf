//! CEL expressions over attributes of requests, as access logs choose entries by them.
//!
//! A proxy refuses a whole listener for one that it can't read or for a function that it doesn't know. What an
//! attribute is called is no matter to it: an unknown one is never there.

use cel::Program;

/// Functions and operators that a proxy knows; macros are gone when they are listed.
const FUNCTIONS: [&str; 28] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "has",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
    "lowerAscii",
    "upperAscii",
];

/// Whether a proxy can evaluate the expression.
pub(super) fn check(expression: &str) -> Result<(), String> {
    let fails = || format!("invalid CEL expression: {expression}");
    let program = Program::compile(expression).map_err(|_| fails())?;
    let references = program.references();
    let is_known = |function: &&str| FUNCTIONS.contains(function) || is_operator(function);
    match references.functions().iter().find(|function| !is_known(function)) {
        None => Ok(()),
        Some(unknown) => Err(format!("{}: {unknown} is no function that proxies know", fails())),
    }
}

/// Operators are functions whose names no function can have: `_==_`, `@in`, `!_`.
fn is_operator(function: &str) -> bool {
    function.contains(|c: char| !c.is_ascii_alphanumeric())
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
            "[1, 2].exists(n, n == response.code)",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            ")++++",
            "",
            "response.code >=",
            "nobody(request.path)",
            "request.path.nobody()",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
