//! Functions that proxies know, as Envoy 1.40 takes them: it refuses an expression for any other, and for another
//! number of arguments.

use super::Texts;

/// What is called like `size(text)`, with the number of arguments.
const PLAIN: &[(&str, usize)] = &[
    ("bool", 1),
    ("bytes", 1),
    ("contains", 2),
    ("double", 1),
    ("duration", 1),
    ("dyn", 1),
    ("endsWith", 2),
    ("int", 1),
    ("matches", 2),
    ("size", 1),
    ("startsWith", 2),
    ("timestamp", 1),
    ("type", 1),
    ("uint", 1),
];

/// What is called like `text.size()`, with the least and the largest number of arguments.
const ON: &[(&str, usize, usize)] = &[
    ("contains", 1, 1),
    ("endsWith", 1, 1),
    ("getDate", 0, 1),
    ("getDayOfMonth", 0, 1),
    ("getDayOfWeek", 0, 1),
    ("getDayOfYear", 0, 1),
    ("getFullYear", 0, 1),
    ("getHours", 0, 1),
    ("getMilliseconds", 0, 1),
    ("getMinutes", 0, 1),
    ("getMonth", 0, 1),
    ("getSeconds", 0, 1),
    ("matches", 1, 1),
    ("size", 0, 0),
    ("startsWith", 1, 1),
];

/// The same of those that make texts.
const MAKING: &[(&str, usize, usize)] = &[
    ("charAt", 1, 1),
    ("format", 1, 1),
    ("indexOf", 1, 2),
    ("join", 0, 1),
    ("lastIndexOf", 1, 2),
    ("lowerAscii", 0, 0),
    ("replace", 2, 3),
    ("reverse", 0, 0),
    ("split", 1, 2),
    ("substring", 1, 2),
    ("trim", 0, 0),
    ("upperAscii", 0, 0),
];

/// Operators, as trees name them.
const OPERATORS: &[&str] = &[
    "!_", "-_", "@in", "_!=_", "_%_", "_&&_", "_*_", "_+_", "_-_", "_/_", "_<=_", "_<_", "_==_", "_>=_", "_>_",
    "_?_:_", "_[_]", "_||_",
];

/// Whether a proxy knows a function by its name, and this way of calling it.
pub(super) fn check(name: &str, is_on: bool, n_arguments: usize, texts: Texts) -> Result<(), String> {
    let takes = |(known, least, most): &(&str, usize, usize)| *known == name && (*least..=*most).contains(&n_arguments);
    let may_make = texts == Texts::Made;
    let is_known = match is_on {
        true => ON.iter().any(takes) || (may_make && MAKING.iter().any(takes)),
        false => {
            let is_made = may_make && (name, n_arguments) == ("string", 1);
            OPERATORS.contains(&name) || PLAIN.contains(&(name, n_arguments)) || is_made
        }
    };
    match is_known {
        true => Ok(()),
        false => Err(format!("{name} is no function that proxies know")),
    }
}
