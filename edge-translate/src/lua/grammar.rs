//! The grammar of Lua (Lua 5.1 reference manual §8), by descent, with notes of what is called.

use super::{
    Function, Script,
    lexer::{Lexer, Token, priority},
    scope::{GLOBALS, Scope},
};
use std::collections::BTreeSet;

/// How deep things may stand in each other, as in Lua itself (`LUAI_MAXCCALLS`).
const DEPTH: usize = 200;

/// Priority of the operators that are unary.
const UNARY: u8 = 8;

/// A reader of a script.
pub(super) struct Grammar<'a> {
    lexer: Lexer<'a>,
    token: Token,
    depth: usize,
    script: Script,
    /// Functions that are being read, the innermost last: its place in the script if it has a name.
    within: Vec<Scope>,
    /// Names that something was put behind so far, wherever that is.
    known: BTreeSet<String>,
}

/// An expression that may be called or assigned to, as Lua's grammar calls it (`prefixexp`).
#[derive(Clone, Debug, PartialEq)]
enum PrefixExpression {
    /// A path of names, `a.b.c`.
    Path(String),
    /// Something else that can be assigned to.
    Slot,
    /// A call.
    Call,
    /// In brackets: neither.
    Value,
}

type Read<T = ()> = Result<T, String>;

impl<'a> Grammar<'a> {
    pub(super) fn new(text: &'a str) -> Read<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Self {
            lexer,
            token,
            depth: 0,
            script: Script::default(),
            within: vec![Scope {
                takes_any: true,
                ..Scope::default()
            }],
            known: BTreeSet::new(),
        })
    }

    /// All of it.
    pub(super) fn script(mut self) -> Read<Script> {
        self.block()?;
        match self.token {
            Token::End => Ok(self.script),
            _ => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> String {
        let what = match &self.token {
            Token::Name(name) => name.as_str(),
            Token::Sign(sign) => sign,
            Token::Number => "a number",
            Token::Text(_) => "a string",
            Token::End => "the end",
        };
        self.lexer.fault(format_args!("unexpected {what}"))
    }

    fn advance(&mut self) -> Read {
        self.token = self.lexer.next()?;
        Ok(())
    }

    fn is(&self, sign: &str) -> bool {
        matches!(&self.token, Token::Sign(own) if *own == sign)
    }

    /// Takes a sign if it comes next.
    fn took(&mut self, sign: &str) -> Read<bool> {
        let is = self.is(sign);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn expect(&mut self, sign: &str) -> Read {
        match self.took(sign)? {
            true => Ok(()),
            false => Err(format!("{}, {sign} expected", self.unexpected())),
        }
    }

    fn name(&mut self) -> Read<String> {
        let Token::Name(name) = &self.token else {
            return Err(format!("{}, a name expected", self.unexpected()));
        };
        let name = name.clone();
        self.advance()?;
        Ok(name)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == DEPTH {
            return Err(self.lexer.fault("too many things within each other"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn block(&mut self) -> Read {
        self.in_scope(|scope| {
            scope.open();
            Ok(())
        })?;
        self.statements()?;
        self.in_scope(Scope::close)
    }

    /// Tells the function that is being read of something, which it may refuse.
    fn in_scope(&mut self, tell: impl FnOnce(&mut Scope) -> Read) -> Read {
        let told = self.within.last_mut().map_or(Ok(()), tell);
        told.map_err(|why| self.lexer.fault(why))
    }

    /// Local variables that come into being.
    fn declare(&mut self, names: impl IntoIterator<Item = String>) -> Read {
        for name in names {
            self.known.insert(name);
            self.in_scope(|scope| scope.declare(1))?;
        }
        Ok(())
    }

    fn statements(&mut self) -> Read {
        self.deeper(|grammar| {
            loop {
                let is_over = ["end", "else", "elseif", "until"].iter().any(|word| grammar.is(word))
                    || grammar.token == Token::End;
                if is_over {
                    return Ok(());
                }
                let is_last = grammar.is("return") || grammar.is("break");
                grammar.statement()?;
                while grammar.took(";")? {}
                if is_last && !grammar.is("end") && grammar.token != Token::End {
                    let ends = ["else", "elseif", "until"].iter().any(|word| grammar.is(word));
                    return if ends { Ok(()) } else { Err(grammar.unexpected()) };
                }
            }
        })
    }

    fn statement(&mut self) -> Read {
        let Token::Sign(sign) = self.token else {
            return self.assignment_or_call();
        };
        match sign {
            ";" => self.advance(),
            "if" => self.branches(),
            "while" => {
                self.advance()?;
                self.expression()?;
                self.expect("do")?;
                self.repeated()?;
                self.expect("end")
            }
            "do" => {
                self.advance()?;
                self.block()?;
                self.expect("end")
            }
            "for" => self.counted(),
            "repeat" => {
                self.advance()?;
                self.repeated()?;
                self.expect("until")?;
                self.expression()
            }
            "function" => self.named_function(),
            "local" => self.local(),
            "return" => self.answer(),
            "break" => match self.within.last().is_some_and(|within| within.loops > 0) {
                true => self.advance(),
                false => Err(self.lexer.fault("break outside of a loop")),
            },
            "goto" => {
                self.advance()?;
                let label = self.name()?;
                self.in_scope(|scope| {
                    scope.jump(label);
                    Ok(())
                })
            }
            "::" => {
                self.advance()?;
                let label = self.name()?;
                self.in_scope(|scope| scope.label(label))?;
                self.expect("::")
            }
            _ => self.assignment_or_call(),
        }
    }

    fn repeated(&mut self) -> Read {
        let count = |grammar: &mut Self, more: bool| {
            if let Some(within) = grammar.within.last_mut() {
                within.loops = if more { within.loops + 1 } else { within.loops - 1 };
            }
        };
        count(self, true);
        let read = self.block();
        count(self, false);
        read
    }

    fn branches(&mut self) -> Read {
        loop {
            // `if` or `elseif`.
            self.advance()?;
            self.expression()?;
            self.expect("then")?;
            self.block()?;
            if !self.is("elseif") {
                break;
            }
        }
        if self.took("else")? {
            self.block()?;
        }
        self.expect("end")
    }

    fn counted(&mut self) -> Read {
        self.in_scope(|scope| {
            scope.open();
            // What counts is kept in three of its own.
            scope.declare(3)
        })?;
        self.advance()?;
        let mut names = vec![self.name()?];
        if self.took("=")? {
            self.expression()?;
            self.expect(",")?;
            self.expression()?;
            if self.took(",")? {
                self.expression()?;
            }
        } else {
            while self.took(",")? {
                names.push(self.name()?);
            }
            self.expect("in")?;
            self.expressions()?;
        }
        self.declare(names)?;
        self.expect("do")?;
        self.repeated()?;
        self.in_scope(Scope::close)?;
        self.expect("end")
    }

    fn named_function(&mut self) -> Read {
        self.advance()?;
        let root = self.name()?;
        let mut name = root.clone();
        while self.took(".")? {
            name = format!("{name}.{}", self.name()?);
        }
        if self.took(":")? {
            name = format!("{name}:{}", self.name()?);
        }
        if name != root {
            self.note_end(&root);
        }
        self.known.insert(root);
        self.body(Some(name))
    }

    fn local(&mut self) -> Read {
        self.advance()?;
        if self.took("function")? {
            let name = self.name()?;
            self.declare([name])?;
            return self.body(None);
        }
        let mut names = vec![self.name()?];
        while self.took(",")? {
            names.push(self.name()?);
        }
        if self.took("=")? {
            self.expressions()?;
        }
        self.declare(names)
    }

    fn answer(&mut self) -> Read {
        self.advance()?;
        let is_bare = ["end", "else", "elseif", "until", ";"].iter().any(|word| self.is(word));
        match is_bare || self.token == Token::End {
            true => Ok(()),
            false => self.expressions(),
        }
    }

    fn assignment_or_call(&mut self) -> Read {
        let root = match &self.token {
            Token::Name(root) => Some(root.clone()),
            _ => None,
        };
        let first = self.suffixed()?;
        if let Some(root) = root {
            match &first {
                PrefixExpression::Path(path) if *path == root => {}
                _ => self.note_end(&root),
            }
        }
        if !self.is("=") && !self.is(",") {
            return match first {
                PrefixExpression::Call => Ok(()),
                _ => Err(self.unexpected()),
            };
        }
        let mut prefixes = vec![first];
        while self.took(",")? {
            prefixes.push(self.suffixed()?);
        }
        let names = prefixes.iter().filter_map(|prefix| match prefix {
            PrefixExpression::Path(path) => path.split('.').next().map(str::to_owned),
            _ => None,
        });
        self.known.extend(names);
        if prefixes
            .iter()
            .any(|prefix| !matches!(prefix, PrefixExpression::Path(_) | PrefixExpression::Slot))
        {
            return Err(self.lexer.fault("nothing can be assigned to this"));
        }
        self.expect("=")?;
        // `f = function(...)` names a function as well.
        if let ([PrefixExpression::Path(name)], true) = (prefixes.as_slice(), self.is("function")) {
            let name = name.clone();
            self.advance()?;
            self.body(Some(name))?;
            return Ok(());
        }
        self.expressions()
    }

    fn expressions(&mut self) -> Read {
        self.expression()?;
        while self.took(",")? {
            self.expression()?;
        }
        Ok(())
    }

    fn expression(&mut self) -> Read {
        self.operation(0)
    }

    fn operation(&mut self, limit: u8) -> Read {
        self.deeper(|grammar| {
            match ["not", "-", "#"].iter().any(|sign| grammar.is(sign)) {
                true => {
                    grammar.advance()?;
                    grammar.operation(UNARY)?;
                }
                false => grammar.simple()?,
            }
            grammar.operators(limit)
        })
    }

    /// What stands behind an operand.
    fn operators(&mut self, limit: u8) -> Read {
        while let Some((_, right)) = self.priority().filter(|(left, _)| *left > limit) {
            self.advance()?;
            self.operation(right)?;
        }
        Ok(())
    }

    /// Priority of the binary operator that comes next, to its left and to its right.
    fn priority(&self) -> Option<(u8, u8)> {
        match self.token {
            Token::Sign(sign) => priority(sign),
            _ => None,
        }
    }

    fn simple(&mut self) -> Read {
        match &self.token {
            Token::Number | Token::Text(_) | Token::Sign("nil" | "true" | "false") => self.advance(),
            Token::Sign("...") => match self.within.last().is_some_and(|within| within.takes_any) {
                true => self.advance(),
                false => Err(self.lexer.fault("... outside of a function that takes any arguments")),
            },
            Token::Sign("{") => self.table(),
            Token::Sign("function") => {
                self.advance()?;
                self.body(None)
            }
            _ => self.suffixed().map(drop),
        }
    }

    /// A name or something in brackets, with fields and calls behind it.
    fn suffixed(&mut self) -> Read<PrefixExpression> {
        let mut prefix = if self.took("(")? {
            self.expression()?;
            self.expect(")")?;
            PrefixExpression::Value
        } else {
            PrefixExpression::Path(self.name()?)
        };
        loop {
            match &self.token {
                Token::Sign(".") => {
                    self.advance()?;
                    let field = self.name()?;
                    prefix = match prefix {
                        PrefixExpression::Path(path) => PrefixExpression::Path(format!("{path}.{field}")),
                        _ => PrefixExpression::Slot,
                    };
                }
                Token::Sign("[") => {
                    self.advance()?;
                    self.expression()?;
                    self.expect("]")?;
                    self.note_use(prefix);
                    prefix = PrefixExpression::Slot;
                }
                Token::Sign(":") => {
                    self.advance()?;
                    let method = self.name()?;
                    self.note_method(&prefix, method);
                    self.note_use(prefix);
                    self.arguments()?;
                    prefix = PrefixExpression::Call;
                }
                Token::Text(_) | Token::Sign("(" | "{") => {
                    let argument = self.arguments()?;
                    if let PrefixExpression::Path(path) = prefix {
                        self.script.calls.insert((path, argument));
                    }
                    prefix = PrefixExpression::Call;
                }
                _ => {
                    self.note_use(prefix.clone());
                    return Ok(prefix);
                }
            }
        }
    }

    /// A name that is called, or of which a field is assigned: where nothing is behind it, loading ends there. What
    /// stands in a function, in a loop or under a condition may never run.
    fn note_end(&mut self, root: &str) {
        let runs = matches!(&self.within[..], [chunk] if chunk.is_outermost());
        let is_known = self.known.contains(root) || GLOBALS.contains(&root);
        if runs && !is_known && self.script.end.is_none() {
            let why = match root {
                "error" => "the script ends with an error while it is loaded".to_owned(),
                _ => format!("attempt to use global '{root}' (a nil value) while the script is loaded"),
            };
            self.script.end = Some(self.lexer.fault(why));
        }
    }

    fn note_use(&mut self, prefix: PrefixExpression) {
        if let PrefixExpression::Path(path) = prefix {
            self.script.uses.insert(path);
        }
    }

    /// A method of the first parameter of a function with a name.
    fn note_method(&mut self, prefix: &PrefixExpression, method: String) {
        let PrefixExpression::Path(subject) = prefix else {
            return;
        };
        let named = self.within.iter().rev().filter_map(|within| within.named);
        for index in named {
            let function = &mut self.script.functions[index];
            if function.subject.as_ref() == Some(subject) {
                function.methods.insert(method);
                return;
            }
        }
    }

    /// Arguments of a call; the text of the only one, if it is a string.
    fn arguments(&mut self) -> Read<Option<String>> {
        if let Token::Text(text) = &self.token {
            let text = text.clone();
            self.advance()?;
            return Ok(Some(text));
        }
        if self.is("{") {
            self.table()?;
            return Ok(None);
        }
        self.expect("(")?;
        if self.took(")")? {
            return Ok(None);
        }
        let mut first = None;
        match &self.token {
            Token::Text(text) => {
                let text = text.clone();
                self.advance()?;
                // What is put together of several isn't known.
                first = (self.is(")") || self.is(",")).then_some(text);
                self.operators(0)?;
            }
            _ => self.expression()?,
        }
        while self.took(",")? {
            self.expression()?;
        }
        self.expect(")")?;
        Ok(first)
    }

    fn table(&mut self) -> Read {
        self.deeper(|grammar| {
            grammar.expect("{")?;
            while !grammar.is("}") {
                if grammar.took("[")? {
                    grammar.expression()?;
                    grammar.expect("]")?;
                    grammar.expect("=")?;
                    grammar.expression()?;
                } else {
                    // `name = value` begins as an expression does.
                    grammar.expression()?;
                    if grammar.took("=")? {
                        grammar.expression()?;
                    }
                }
                if !grammar.took(",")? && !grammar.took(";")? {
                    break;
                }
            }
            grammar.expect("}")
        })
    }

    fn body(&mut self, name: Option<String>) -> Read {
        self.expect("(")?;
        let mut parameters = Vec::new();
        let mut takes_any = false;
        while !self.is(")") {
            if self.took("...")? {
                takes_any = true;
                break;
            }
            parameters.push(self.name()?);
            if !self.took(",")? {
                break;
            }
        }
        self.expect(")")?;
        let is_method = name.as_ref().is_some_and(|name| name.contains(':'));
        let named = name.map(|name| {
            self.script.functions.push(Function {
                name,
                subject: parameters.first().cloned(),
                methods: Default::default(),
            });
            self.script.functions.len() - 1
        });
        self.within.push(Scope {
            named,
            takes_any,
            ..Scope::default()
        });
        let own = is_method.then(|| "self".to_owned());
        let read = self
            .declare(own.into_iter().chain(parameters))
            .and_then(|()| self.block());
        self.within.pop();
        read?;
        self.expect("end")
    }
}
