//! Names of routes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, sync::Arc};

/// Name of a route: `httproute/<namespace>/<name>/rule/<i>/match/<j>`. An object has many routes: what their names
/// begin with stands once, and numbers are written where a name is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RouteName {
    /// What stands ahead of the numbers, or all of a name that doesn't end in these.
    object: Arc<str>,
    place: Option<Place>,
}

/// A match of a rule, both by their numbers. Greater ones are written out.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    rule: u16,
    of_rule: u16,
}

const RULE: &str = "/rule/";
const MATCH: &str = "/match/";

impl RouteName {
    /// The name of a match of an object: `httproute/<namespace>/<name>` and the like.
    pub fn of_match(object: &Arc<str>, rule: usize, of_rule: usize) -> Self {
        match (u16::try_from(rule), u16::try_from(of_rule)) {
            (Ok(rule), Ok(of_rule)) => Self {
                object: Arc::clone(object),
                place: Some(Place { rule, of_rule }),
            },
            _ => Self::whole(format!("{object}{RULE}{rule}{MATCH}{of_rule}")),
        }
    }

    /// The name of one of several routes that a match has.
    pub fn of_part(object: &str, rule: usize, of_rule: usize, part: usize) -> Self {
        Self::whole(format!("{object}{RULE}{rule}{MATCH}{of_rule}/part/{part}"))
    }

    fn whole(text: impl Into<Arc<str>>) -> Self {
        Self {
            object: text.into(),
            place: None,
        }
    }

    /// The name of the rule that the route belongs to: its own without the number of the match.
    pub fn rule(&self) -> String {
        let mut text = String::new();
        match self.place {
            Some(Place { rule, .. }) => [&*self.object, RULE, Digits::of(rule).text()]
                .iter()
                .for_each(|part| text.push_str(part)),
            None => text.push_str(self.object.rsplit_once(MATCH).map_or(&*self.object, |(rule, _)| rule)),
        }
        text
    }

    /// Whether the route belongs to a rule of this name.
    pub fn is_of(&self, rule: &str) -> bool {
        match self.place {
            Some(place) => {
                let number = rule
                    .strip_prefix(&*self.object)
                    .and_then(|rest| rest.strip_prefix(RULE));
                number == Some(Digits::of(place.rule).text())
            }
            None => self.rule() == rule,
        }
    }

    /// Whether the name is that of an object, a rule or a match with something behind it.
    pub fn is_below(&self, other: &str) -> bool {
        let is_likely = other.starts_with(&*self.object) || self.object.starts_with(other);
        is_likely
            && self
                .to_string()
                .strip_prefix(other)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Gives the text of the name in parts, in order.
    pub fn parts(&self, mut each: impl FnMut(&str)) {
        each(&self.object);
        if let Some(Place { rule, of_rule }) = self.place {
            for (ahead, number) in [(RULE, rule), (MATCH, of_rule)] {
                each(ahead);
                each(Digits::of(number).text());
            }
        }
    }
}

impl From<&str> for RouteName {
    fn from(text: &str) -> Self {
        let numbered = text.rsplit_once(MATCH).and_then(|(ahead, of_rule)| {
            let (object, rule) = ahead.rsplit_once(RULE)?;
            let place = Place {
                rule: number(rule)?,
                of_rule: number(of_rule)?,
            };
            Some((object, place))
        });
        match numbered {
            Some((object, place)) => Self {
                object: object.into(),
                place: Some(place),
            },
            None => Self::whole(text),
        }
    }
}

/// A number that would be written so.
fn number(text: &str) -> Option<u16> {
    let number = text.parse().ok()?;
    (Digits::of(number).text() == text).then_some(number)
}

/// A number in decimal. Each route has two, where the formatter would cost more than all the rest of a name.
struct Digits {
    bytes: [u8; 5],
    begin: usize,
}

impl Digits {
    fn of(mut number: u16) -> Self {
        let mut bytes = [0; 5];
        let mut begin = bytes.len();
        loop {
            begin -= 1;
            bytes[begin] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { bytes, begin };
            }
        }
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[self.begin..]).unwrap_or_default()
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Ok(());
        self.parts(|part| all = all.and_then(|()| f.write_str(part)));
        all
    }
}

impl fmt::Debug for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl Serialize for RouteName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RouteName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| text.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_however_it_came() {
        let object: Arc<str> = "httproute/default/a".into();
        for (rule, of_rule) in [(0, 0), (9, 10), (65_535, 65_535), (65_536, 0), (0, 70_000)] {
            let made = RouteName::of_match(&object, rule, of_rule);
            let text = format!("{object}/rule/{rule}/match/{of_rule}");
            assert_eq!(made.to_string(), text);
            assert_eq!(made, RouteName::from(&*text));
            assert_eq!(made.rule(), format!("{object}/rule/{rule}"));
            assert!(made.is_of(&made.rule()) && !made.is_of(&object) && !made.is_of(&text));
            let json = serde_json::to_string(&made).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<RouteName>(&json).unwrap(), made);
        }
        let part = RouteName::of_part(&object, 1, 2, 3);
        assert_eq!(part, "httproute/default/a/rule/1/match/2/part/3".into());
        assert_eq!(part.rule(), "httproute/default/a/rule/1");
        for (name, above, beside) in [
            (
                &part,
                "httproute/default/a/rule/1/match/2",
                "httproute/default/a/rule/1/match",
            ),
            (
                &RouteName::of_match(&object, 1, 2),
                "httproute/default/a/rule/1",
                "httproute/default/a/rule/2",
            ),
        ] {
            assert!(name.is_below(above) && name.is_below(&object) && name.is_below("httproute"));
            assert!(!name.is_below(&name.to_string()) && !name.is_below("httproute/default/b"));
            assert_eq!(name.is_below(beside), beside.ends_with("/match"));
        }
        assert_ne!(RouteName::of_match(&object, 1, 2), RouteName::of_match(&object, 2, 1));
    }

    #[test]
    fn what_is_no_number_stays_as_it_is() {
        for text in [
            "",
            "misdirected-request",
            "a/rule/01/match/0",
            "a/rule/0/match/+1",
            "a/match/1",
            "a/rule/1",
        ] {
            let name = RouteName::from(text);
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(RouteName::from("misdirected-request").rule(), "misdirected-request");
        assert_eq!(size_of::<RouteName>(), 3 * size_of::<usize>());
    }
}
