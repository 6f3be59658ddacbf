//! Functions that proxies know, as Envoy 1.40 takes them: it refuses an expression for any other, and for another number
//! of arguments.

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

/// Operators, as trees name them.
const OPERATORS: &[&str] = &[
    "!_", "-_", "@in", "_!=_", "_%_", "_&&_", "_*_", "_+_", "_-_", "_/_", "_<=_", "_<_", "_==_", "_>=_", "_>_",
    "_?_:_", "_[_]", "_||_",
];

/// Whether a proxy knows a function, called on something or not, with so many arguments.
pub(super) fn check(name: &str, is_on: bool, n_arguments: usize) -> Result<(), String> {
    let takes = |(known, least, most): &(&str, usize, usize)| *known == name && (*least..=*most).contains(&n_arguments);
    let is_known = match is_on {
        true => ON.iter().any(takes),
        false => OPERATORS.contains(&name) || PLAIN.contains(&(name, n_arguments)),
    };
    match is_known {
        true => Ok(()),
        false => Err(format!("{name} is no function that proxies know")),
    }
}
