//! Words of Lua (Lua 5.1 reference manual §2.1, with what LuaJIT adds: `goto`, labels, number suffixes).

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A reserved word or a sign.
    Sign(&'static str),
    Number,
    Text(String),
    End,
}

/// Reserved words.
const WORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Signs, the longer ones first.
const SIGNS: [&str; 28] = [
    "...", "..", "==", "~=", "<=", ">=", "::", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")", "{", "}",
    "[", "]", ";", ":", ",", ".", "~",
];

/// The words of a text, in order.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    /// Line of what comes next.
    pub(super) line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Self { rest: text, line: 1 };
        if text.starts_with('#') {
            lexer.skip_line();
        }
        lexer
    }

    pub(super) fn fault(&self, what: impl std::fmt::Display) -> String {
        format!("line {}: {what}", self.line)
    }

    pub(super) fn next(&mut self) -> Result<Token, String> {
        self.skip_blanks()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token::End);
        };
        if first.is_ascii_alphabetic() || first == '_' || !first.is_ascii() {
            let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
            return Ok(match WORDS.iter().find(|word| **word == name) {
                Some(word) => Token::Sign(word),
                None => Token::Name(name.to_owned()),
            });
        }
        let is_fraction = first == '.' && self.rest[1..].starts_with(|c: char| c.is_ascii_digit());
        if first.is_ascii_digit() || is_fraction {
            return self.number();
        }
        match first {
            '"' | '\'' => self.quoted(first),
            '[' if self.level().is_some() => self.long().map(Token::Text),
            _ => self.sign(first),
        }
    }

    fn sign(&mut self, first: char) -> Result<Token, String> {
        let sign = SIGNS.iter().find(|sign| self.rest.starts_with(**sign));
        let sign = sign.filter(|sign| **sign != "~");
        let sign = sign.ok_or_else(|| self.fault(format_args!("unexpected {first:?}")))?;
        self.rest = &self.rest[sign.len()..];
        Ok(Token::Sign(sign))
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_line(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    fn skip_blanks(&mut self) -> Result<(), String> {
        loop {
            let blanks = self.take(|c| c.is_ascii_whitespace() || c == '\u{b}');
            self.line += blanks.matches('\n').count();
            let Some(comment) = self.rest.strip_prefix("--") else {
                return Ok(());
            };
            self.rest = comment;
            match self.level() {
                Some(_) => drop(self.long()?),
                None => self.skip_line(),
            }
        }
    }

    /// The level of the long bracket that begins here.
    fn level(&self) -> Option<usize> {
        let inside = self.rest.strip_prefix('[')?;
        let level = inside.bytes().take_while(|b| *b == b'=').count();
        inside[level..].starts_with('[').then_some(level)
    }

    fn long(&mut self) -> Result<String, String> {
        let level = self.level().unwrap_or_default();
        let inside = &self.rest[level + 2..];
        let close = format!("]{}]", "=".repeat(level));
        let end = inside
            .find(&close)
            .ok_or_else(|| self.fault("unfinished long string"))?;
        let text = &inside[..end];
        self.rest = &inside[end + close.len()..];
        self.line += text.matches('\n').count();
        Ok(text.to_owned())
    }

    fn quoted(&mut self, quote: char) -> Result<Token, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, '\n')) => self.line += 1,
                    Some((at, escaped)) if is_escape(&self.rest[at..]) => text.extend(['\\', escaped]),
                    Some(_) => return Err(self.fault("invalid escape sequence")),
                    None => break,
                },
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Token::Text(text));
                }
                c => text.push(c),
            }
        }
        Err(self.fault("unfinished string"))
    }

    fn number(&mut self) -> Result<Token, String> {
        let is_hex = self.rest.starts_with("0x") || self.rest.starts_with("0X");
        let mut last = ' ';
        let end = self.rest.find(|c: char| {
            let signs_exponent = matches!((c, last), ('+' | '-', 'e' | 'E') if !is_hex)
                || matches!((c, last), ('+' | '-', 'p' | 'P') if is_hex);
            last = c;
            !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || signs_exponent)
        });
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if !is_number(number) {
            return Err(self.fault(format_args!("malformed number {number}")));
        }
        self.rest = rest;
        Ok(Token::Number)
    }
}

/// Priority of a binary operator, to its left and to its right.
pub(super) fn priority(sign: &str) -> Option<(u8, u8)> {
    Some(match sign {
        "or" => (1, 1),
        "and" => (2, 2),
        "<" | ">" | "<=" | ">=" | "~=" | "==" => (3, 3),
        ".." => (5, 4),
        "+" | "-" => (6, 6),
        "*" | "/" | "%" => (7, 7),
        "^" => (10, 9),
        _ => return None,
    })
}

/// Whether what stands behind a backslash is an escape that LuaJIT knows.
fn is_escape(rest: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match rest.as_bytes() {
        [
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'z' | b'\\' | b'"' | b'\'' | b'\r',
            ..,
        ] => true,
        [b'x', ..] => rest.get(1..3).is_some_and(is_hex),
        [b'u', b'{', ..] => {
            let point = rest[2..].split_once('}').map(|(digits, _)| digits);
            let point = point.filter(|digits| is_hex(digits));
            point.is_some_and(|digits| u32::from_str_radix(digits, 16).is_ok_and(|point| point <= 0x10_ffff))
        }
        [b'0'..=b'9', ..] => {
            let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
            rest[..digits].parse::<u16>().is_ok_and(|byte| byte <= 255)
        }
        _ => false,
    }
}

/// Whether a word that begins with a digit is a number, with the suffixes of LuaJIT.
fn is_number(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let whole = ["ull", "ll", "i"].iter().find_map(|suffix| lower.strip_suffix(suffix));
    let text = whole.unwrap_or(&lower);
    match text.strip_prefix("0x") {
        Some(hex) => {
            let (digits, exponent) = hex.split_once('p').unwrap_or((hex, "0"));
            let exponent = exponent.trim_start_matches(['+', '-']);
            let is_digit = |c: char| c.is_ascii_hexdigit() || c == '.';
            digits.contains(|c: char| c.is_ascii_hexdigit())
                && digits.chars().all(is_digit)
                && digits.matches('.').count() <= 1
                && !exponent.is_empty()
                && exponent.bytes().all(|b| b.is_ascii_digit())
        }
        None => text.parse::<f64>().is_ok(),
    }
}
