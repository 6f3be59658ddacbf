//! Lua scripts, judged without running them: whether a text is a program of Lua 5.1 as LuaJIT takes it, and what it
//! uses.
//!
//! A reader of our own because scripts come from anybody: one that descends without a limit would let a page of
//! brackets overflow the stack and end the process. Ours gives up at the depth at which Lua itself does.

mod grammar;
mod lexer;
mod scope;

use grammar::Grammar;
use std::{collections::BTreeSet, sync::Arc};

/// A text, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The text.
    pub(crate) code: Arc<str>,
    /// What it holds, or why it is no Lua.
    pub(crate) script: Result<Script, String>,
}

/// What a script uses and defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// Its functions with a name, each with its parameters.
    pub(crate) functions: Vec<Function>,
    /// Paths of names that are called: `a.b.c`, with the first argument if that is a string.
    pub(crate) calls: BTreeSet<(String, Option<String>)>,
    /// Paths of names that are used in other ways.
    pub(crate) uses: BTreeSet<String>,
    /// What ends it while it is loaded, before it has anything to do with requests.
    pub(crate) end: Option<String>,
}

/// A function of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Its first parameter.
    pub(crate) subject: Option<String>,
    /// Methods that are called on the first parameter.
    pub(crate) methods: BTreeSet<String>,
}

impl Text {
    /// Reads a text.
    pub(crate) fn read(code: &Arc<str>) -> Self {
        Self {
            code: Arc::clone(code),
            script: read(code),
        }
    }
}

/// Reads a script, or says where it is no Lua.
pub(crate) fn read(text: &str) -> Result<Script, String> {
    Grammar::new(text)?.script()
}

#[cfg(test)]
mod tests;
