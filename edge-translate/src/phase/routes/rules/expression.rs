//! Regular expressions that both data planes take, and take alike: Envoy's engine is RE2, `edge-proxy`'s the `regex`
//! crate.
//!
//! What the crate refuses (look-around, back-references) RE2 refuses as well, but for a few forms that nobody misses
//! (`\C`, `\Q…\E`, octal). What the crate takes beyond RE2 is told from the tree of the expression: repetitions of
//! repetitions (`a++`), counts over 1000, the flags `x`, `u` and `R`, and classes by other properties. What RE2 reads
//! as something else must not pass either, for the two proxies would match different requests: nested classes and
//! operations on them (`[a&&b]`), `{,n}`, and the word boundaries `\<` and `\>`.

use regex_syntax::ast::{
    self, Ast, ClassSetBinaryOp, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, FlagsItemKind, HexLiteralKind,
    LiteralKind, Repetition, RepetitionKind, RepetitionRange, SpecialLiteralKind, Visitor, parse::Parser,
};
use std::ops::ControlFlow;

/// Largest program in bytes. RE2 stops at some 87,000 instructions (8 MiB for all it keeps), the crate needs 24 bytes
/// and more for a state of its own.
const MAX_PROGRAM: usize = 1 << 20;
/// Largest count, by itself and multiplied by those around it (RE2).
const MAX_COUNT: u32 = 1000;

/// Whether both engines take an expression; if not, why.
pub(in crate::phase) fn check(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() {
        return Err("an expression must not be empty".into());
    }
    let built = regex::RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).build();
    built.map_err(|error| match error {
        regex::Error::Syntax(text) => text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
        regex::Error::CompiledTooBig(_) => "it needs more memory than an expression may: use smaller counts".into(),
        other => other.to_string(),
    })?;
    let tree = Parser::new().parse(pattern).map_err(|error| error.to_string())?;
    ast::visit(
        &tree,
        Re2 {
            pattern,
            counts: Vec::new(),
        },
    )
}

/// Whether an expression's match can be replaced by a text, in which `\1` stands for a group and `\\` for itself.
pub(super) fn check_substitution(pattern: &str, substitution: &str) -> Result<(), String> {
    if substitution.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err("it must not hold line breaks".into());
    }
    let n_groups = regex::Regex::new(pattern).map_or(0, |regex| regex.captures_len() - 1);
    let mut bytes = substitution.bytes();
    while bytes.any(|b| b == b'\\') {
        match bytes.next() {
            Some(b'\\') => {}
            Some(digit @ b'0'..=b'9') if usize::from(digit - b'0') <= n_groups => {}
            Some(digit @ b'0'..=b'9') => {
                let group = digit - b'0';
                return Err(format!("it names group {group}, and the expression has {n_groups}"));
            }
            _ => return Err("a backslash must be followed by a digit or another one".into()),
        }
    }
    Ok(())
}

/// Looks for what RE2 doesn't take.
struct Re2<'p> {
    pattern: &'p str,
    /// Greatest count of each repetition around.
    counts: Vec<u32>,
}

impl Re2<'_> {
    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        if let Ast::Repetition(_) = *repetition.ast {
            return Err("a repetition can't be repeated: put the inner one in parentheses".into());
        }
        let count = match &repetition.op.kind {
            RepetitionKind::Range(range) => {
                let written = &self.pattern[repetition.op.span.start.offset..repetition.op.span.end.offset];
                if written.starts_with("{,") {
                    return Err("a count needs a lower bound: write {0,n} instead of {,n}".into());
                }
                match range {
                    RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n) | RepetitionRange::Bounded(_, n) => *n,
                }
            }
            _ => 1,
        };
        self.counts.push(count.max(1));
        let product = self.counts.iter().fold(1_u32, |all, n| all.saturating_mul(*n));
        match product > MAX_COUNT {
            true => Err(format!(
                "counts must not exceed {MAX_COUNT}, multiplied with those around them"
            )),
            false => Ok(()),
        }
    }
}

impl Visitor for Re2<'_> {
    type Output = ();
    type Err = String;

    fn finish(self) -> Result<(), String> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Flags(set) => flags(&set.flags),
            Ast::Group(group) => match &group.kind {
                ast::GroupKind::NonCapturing(set) => flags(set),
                ast::GroupKind::CaptureName { name, .. } => group_name(&name.name),
                ast::GroupKind::CaptureIndex(_) => Ok(()),
            },
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Literal(literal) => self::literal(literal),
            Ast::ClassUnicode(class) => property(class),
            Ast::Assertion(assertion) => word_boundary(&assertion.kind),
            _ => Ok(()),
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), String> {
        if let Ast::Repetition(_) = ast {
            self.counts.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Bracketed(_) => Err("a class can't stand in a class: escape the inner bracket".into()),
            ClassSetItem::Unicode(class) => property(class),
            ClassSetItem::Literal(literal) => self::literal(literal),
            ClassSetItem::Range(range) => self::literal(&range.start).and_then(|()| self::literal(&range.end)),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), String> {
        Err("classes can't be combined with &&, -- or ~~: escape these characters".into())
    }
}

fn flags(flags: &ast::Flags) -> Result<(), String> {
    let unknown = flags.items.iter().try_for_each(|item| match item.kind {
        FlagsItemKind::Flag(Flag::IgnoreWhitespace) => ControlFlow::Break('x'),
        FlagsItemKind::Flag(Flag::Unicode) => ControlFlow::Break('u'),
        FlagsItemKind::Flag(Flag::CRLF) => ControlFlow::Break('R'),
        _ => ControlFlow::Continue(()),
    });
    match unknown {
        ControlFlow::Break(flag) => Err(format!("there is no flag {flag}, only i, m, s and U")),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn group_name(name: &str) -> Result<(), String> {
    match name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        true => Ok(()),
        false => Err(format!(
            "the name of the group {name} may hold letters, digits and _ only"
        )),
    }
}

fn literal(literal: &ast::Literal) -> Result<(), String> {
    match &literal.kind {
        LiteralKind::HexBrace(HexLiteralKind::X) if literal.c > '\u{ff}' => {
            Err("a proxy's characters by number end at \\x{ff}: write the character itself".into())
        }
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            Err("characters by number are written \\x{…}".into())
        }
        LiteralKind::Special(SpecialLiteralKind::Space) => Err("there is no flag x, only i, m, s and U".into()),
        _ => Ok(()),
    }
}

fn word_boundary(kind: &ast::AssertionKind) -> Result<(), String> {
    use ast::AssertionKind as A;
    match kind {
        A::StartLine | A::EndLine | A::StartText | A::EndText | A::WordBoundary | A::NotWordBoundary => Ok(()),
        _ => Err("of word boundaries there are only \\b and \\B".into()),
    }
}

/// General categories, and the commonest scripts.
const PROPERTIES: &[&str] = &[
    "L",
    "Ll",
    "Lm",
    "Lo",
    "Lt",
    "Lu",
    "M",
    "Mc",
    "Me",
    "Mn",
    "N",
    "Nd",
    "Nl",
    "No",
    "P",
    "Pc",
    "Pd",
    "Pe",
    "Pf",
    "Pi",
    "Po",
    "Ps",
    "S",
    "Sc",
    "Sk",
    "Sm",
    "So",
    "Z",
    "Zl",
    "Zp",
    "Zs",
    "Arabic",
    "Armenian",
    "Bengali",
    "Cyrillic",
    "Devanagari",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Latin",
    "Tamil",
    "Thai",
];

fn property(class: &ClassUnicode) -> Result<(), String> {
    let mut letter = [0; 4];
    let name = match &class.kind {
        ClassUnicodeKind::OneLetter(c) => &*c.encode_utf8(&mut letter),
        ClassUnicodeKind::Named(name) => name,
        ClassUnicodeKind::NamedValue { name, .. } => name,
    };
    let is_plain = !matches!(class.kind, ClassUnicodeKind::NamedValue { .. });
    match is_plain && PROPERTIES.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "characters are not chosen by {name}, only by general categories such as Lu and scripts such as Greek"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_engines_take_passes() {
        for good in [
            ".*",
            "/a+/b*?",
            "^/v[0-9]+/.*$",
            "(?i)abc",
            "(?i:a|b)",
            "(?P<name>a)",
            "(?<name>a)",
            "a{2,3}",
            "a{1000}",
            r"\d+\w\s\b",
            r"\pL\p{Lu}\P{Greek}",
            "[[:alpha:]]",
            "[^]a]",
            r"[a\-z&]",
            "(?:a{10}){100}",
            "(a+)+",
            r"\x{41}",
            r"\.\/",
            "(?U)a+",
            "^*",
            "ä",
            r"[\d\pL]",
            "a|",
            "()",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_either_refuses_or_reads_otherwise_does_not() {
        for bad in [
            "",
            "a++",
            "a**",
            "a{2}{3}",
            "(?x)a b",
            "(?x: a)",
            "(?u)a",
            "(?-u:a)",
            "(?R)a",
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            r"(a)\1",
            "[a&&b]",
            "[a[b]]",
            "[a--b]",
            "[a~~b]",
            "a{,5}",
            "a{1001}",
            "(?:a{100}){11}",
            "(?:a{11}b){100}",
            r"\u0041",
            r"\u{41}",
            r"\<a",
            r"a\>",
            r"\b{start}",
            r"\p{Alphabetic}",
            r"\p{sc=Greek}",
            r"\p{Letter}",
            "(",
            "[",
            "*",
            r"\pL{1000}",
            "(?P<a.b>x)",
            r"\Qa\E",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reasons_are_one_line() {
        assert_eq!(check("(").unwrap_err(), "unclosed group");
        assert_eq!(
            check("a++").unwrap_err(),
            "a repetition can't be repeated: put the inner one in parentheses"
        );
    }
}
