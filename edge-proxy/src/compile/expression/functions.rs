//! Functions by their names and numbers of arguments.

use crate::compile::expression::Texts;
use crate::expression::{Function, TimePart};

/// The function of a name with so many arguments, that before the dot not counted; `None` when it isn't known.
pub(super) fn named(name: &str, is_on: bool, n_arguments: usize, texts: Texts) -> Option<Function> {
    let all = n_arguments + usize::from(is_on);
    let made = |function| texts.edits.then_some(function);
    match (name, is_on, all) {
        ("size", _, 1) => Some(Function::Size),
        ("contains", _, 2) => Some(Function::Contains),
        ("startsWith", _, 2) => Some(Function::StartsWith),
        ("endsWith", _, 2) => Some(Function::EndsWith),
        ("bool", false, 1) => Some(Function::Bool),
        ("bytes", false, 1) => Some(Function::Bytes),
        ("double", false, 1) => Some(Function::Double),
        ("int", false, 1) => Some(Function::Int),
        ("uint", false, 1) => Some(Function::Uint),
        ("duration", false, 1) => Some(Function::Duration),
        ("timestamp", false, 1) => Some(Function::Timestamp),
        ("dyn", false, 1) => Some(Function::Dyn),
        ("string", false, 1) => texts.converts.then_some(Function::Text),
        ("charAt", true, 2) => made(Function::CharAt),
        ("indexOf", true, 2 | 3) => made(Function::IndexOf),
        ("lastIndexOf", true, 2 | 3) => made(Function::LastIndexOf),
        ("join", true, 1 | 2) => made(Function::Join),
        ("lowerAscii", true, 1) => made(Function::LowerAscii),
        ("upperAscii", true, 1) => made(Function::UpperAscii),
        ("replace", true, 3 | 4) => made(Function::Replace),
        ("reverse", true, 1) => made(Function::Reverse),
        ("split", true, 2 | 3) => made(Function::Split),
        ("substring", true, 2 | 3) => made(Function::Substring),
        ("trim", true, 1) => made(Function::Trim),
        (name, true, 1) => time_part(name).map(Function::Time),
        _ => None,
    }
}

/// Parts of times are taken in UTC: names of time zones would need their tables.
fn time_part(name: &str) -> Option<TimePart> {
    Some(match name {
        "getDate" => TimePart::Date,
        "getDayOfMonth" => TimePart::DayOfMonth,
        "getDayOfWeek" => TimePart::DayOfWeek,
        "getDayOfYear" => TimePart::DayOfYear,
        "getFullYear" => TimePart::FullYear,
        "getHours" => TimePart::Hours,
        "getMilliseconds" => TimePart::Milliseconds,
        "getMinutes" => TimePart::Minutes,
        "getMonth" => TimePart::Month,
        "getSeconds" => TimePart::Seconds,
        _ => return None,
    })
}
