//! What a registry asks of who wants something (RFC 9110 §11.6.1, and the token specification of registries).

use std::fmt::Write as _;

/// A way to prove who one is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// By user and password.
    Basic,
    /// By a token that is to be had elsewhere.
    Bearer(BearerChallenge),
}

/// Where a token is to be had, and for what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BearerChallenge {
    realm: Option<String>,
    service: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    /// Reads the value of a `WWW-Authenticate`; none for other ways.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("Basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("Bearer") {
            return None;
        }
        let mut asked = BearerChallenge::default();
        for (name, value) in Parameters(rest) {
            match &*name.to_ascii_lowercase() {
                "realm" => asked.realm = Some(value),
                "service" => asked.service = Some(value),
                "scope" => asked.scope = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer(asked))
    }
}

impl BearerChallenge {
    /// The URL that answers with a token.
    pub(super) fn url(self) -> Option<String> {
        let mut url = self.realm?;
        for (name, value) in [("service", self.service), ("scope", self.scope)] {
            if let Some(value) = value {
                let mark = if url.contains('?') { '&' } else { '?' };
                url.push(mark);
                url.push_str(name);
                url.push('=');
                encode(&mut url, &value);
            }
        }
        Some(url)
    }
}

/// Writes a value into a query (RFC 3986 §2.3).
fn encode(url: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            // Writing into a text can't fail.
            other => _ = write!(url, "%{other:02X}"),
        }
    }
}

/// `name="value"` after `name=value`, with commas between.
struct Parameters<'a>(&'a str);

impl Iterator for Parameters<'_> {
    type Item = (String, String);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_once('=')?;
        let name = name.trim_matches([' ', ',']).to_owned();
        let rest = rest.trim_start();
        let Some(quoted) = rest.strip_prefix('"') else {
            let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
            self.0 = rest;
            return Some((name, value.trim().to_owned()));
        };
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.0 = &quoted[at + 1..];
                    return Some((name, value));
                }
                '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
                other => value.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_asked_for_where_the_registry_says() {
        let text =
            r#"Bearer realm="https://auth.example/token?a=b",service="reg, one",scope="repository:team/filter:pull""#;
        let Some(Challenge::Bearer(asked)) = Challenge::read(text) else {
            panic!("{text}");
        };
        assert_eq!(
            asked.url().unwrap(),
            "https://auth.example/token?a=b&service=reg%2C%20one&scope=repository%3Ateam%2Ffilter%3Apull"
        );
        assert_eq!(Challenge::read("basic realm=x"), Some(Challenge::Basic));
        assert_eq!(Challenge::read("Negotiate"), None);
        assert_eq!(
            Challenge::read(r#"Bearer realm="never ends"#),
            Some(Challenge::Bearer(BearerChallenge::default()))
        );
    }
}
