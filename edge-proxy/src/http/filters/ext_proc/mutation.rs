//! Changes of headers that a service wants, within the rules of what it may change.

use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::service::ext_proc::v3::HeaderMutation;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::config::filter::ext_proc::{Change, MutationRules};
use crate::http::filters::pseudo;
use crate::message::head::Head;

/// The head or the trailers of a message.
pub(super) enum Target<'m> {
    Request(&'m mut Head),
    Response(&'m mut StatusCode, &'m mut HeaderMap),
    Trailers(&'m mut HeaderMap),
}

/// What stays as it is, whatever a service wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    /// The length of the content, which may be another in the end.
    Length,
}

/// A change that can't be made; in Envoy's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid(pub(super) String);

/// How a value goes beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Replace,
    Append,
}

impl Target<'_> {
    fn fields(&mut self) -> &mut HeaderMap {
        match self {
            Self::Request(head) => &mut head.headers,
            Self::Response(_, fields) | Self::Trailers(fields) => fields,
        }
    }

    fn has(&mut self, name: &str) -> bool {
        match (&self, name) {
            (Self::Request(_), "host" | ":authority" | ":path" | ":method" | ":scheme")
            | (Self::Response(..), ":status") => true,
            _ => self.fields().contains_key(name),
        }
    }

    /// Sets a pseudo header; `false` where there is none of this name and value.
    fn set_own(&mut self, name: &str, value: &HeaderValue) -> bool {
        match (self, name) {
            (Self::Request(head), _) => return pseudo::set(head, name, value),
            (Self::Response(status, _), ":status") => match value.to_str().unwrap_or_default().parse() {
                Ok(code @ 200..600) => **status = StatusCode::from_u16(code).unwrap_or(**status),
                _ => return false,
            },
            _ => return false,
        }
        true
    }
}

/// What may be changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'t> {
    pub(super) rules: &'t MutationRules,
    pub(super) kept: Kept,
    /// The whole message is another one: its method may be too.
    pub(super) is_replaced: bool,
    /// So many headers there may be, and so many may be changed.
    pub(super) limit: usize,
}

impl Terms<'_> {
    fn keeps(self, name: &str) -> bool {
        self.kept == Kept::Length && name == CONTENT_LENGTH.as_str()
    }
}

/// Makes the changes.
pub(super) fn apply(mutation: &HeaderMutation, target: &mut Target<'_>, terms: Terms<'_>) -> Result<(), Invalid> {
    let limit = terms.limit;
    let (removed, set) = (mutation.remove_headers.len(), mutation.set_headers.len());
    if removed > limit || set > limit {
        return Err(Invalid(format!(
            "Header mutation remove header count {removed} or set header count {set} exceed the HCM header count limit \
             {limit}"
        )));
    }
    for name in &mutation.remove_headers {
        remove(name, target, terms)?;
    }
    for option in &mutation.set_headers {
        self::set(option, target, terms)?;
    }
    let count = target.fields().len();
    if count > limit {
        return Err(Invalid(format!(
            "Header mutation causes end result header count {count}, exceeding the count limit {limit}"
        )));
    }
    Ok(())
}

fn remove(name: &str, target: &mut Target<'_>, terms: Terms<'_>) -> Result<(), Invalid> {
    let name = name.to_ascii_lowercase();
    let header = HeaderName::try_from(name.as_str());
    if header.is_err() && !name.starts_with(':') {
        return Err(Invalid("Invalid character in remove_headers mutation.".to_owned()));
    }
    if !terms.rules.allow(Change::Remove, &name) {
        return match terms.rules.strict {
            true => Err(Invalid(format!("Invalid attempt to remove {name}"))),
            false => Ok(()),
        };
    }
    if let Ok(header) = header
        && !terms.keeps(&name)
    {
        target.fields().remove(header);
    }
    Ok(())
}

fn set(option: &HeaderValueOption, target: &mut Target<'_>, terms: Terms<'_>) -> Result<(), Invalid> {
    let Some(header) = &option.header else { return Ok(()) };
    if !header.value.is_empty() && !header.raw_value.is_empty() {
        let text = "Only one of value or raw_value in the HeaderValue message should be set.";
        return Err(Invalid(text.to_owned()));
    }
    let value = match header.raw_value.is_empty() {
        true => header.value.as_bytes(),
        false => &header.raw_value,
    };
    let name = header.key.to_ascii_lowercase();
    let is_own = name.starts_with(':') || name == "host";
    let invalid = || Invalid("Invalid character in set_headers mutation.".to_owned());
    let value = HeaderValue::from_bytes(value).map_err(|_| invalid())?;
    let field = HeaderName::try_from(name.as_str());
    if field.is_err() && !is_own {
        return Err(invalid());
    }
    let Some(manner) = manner(option, target.has(&name)) else {
        return Ok(());
    };
    if terms.keeps(&name) {
        return Ok(());
    }
    let is_allowed = terms.rules.allow(Change::Set, &name) || (terms.is_replaced && name == ":method");
    let is_done = is_allowed
        && match field {
            Ok(field) if !is_own => {
                let fields = target.fields();
                if manner == Manner::Append {
                    fields.append(field, value);
                } else {
                    fields.insert(field, value);
                }
                true
            }
            _ => target.set_own(&name, &value),
        };
    match is_done || !terms.rules.strict {
        true => Ok(()),
        false => Err(Invalid(format!("Invalid attempt to modify {name}"))),
    }
}

/// How a value goes beside what is there; `None`: it doesn't.
fn manner(option: &HeaderValueOption, is_there: bool) -> Option<Manner> {
    match HeaderAppendAction::try_from(option.append_action) {
        // The default is another than elsewhere.
        Ok(HeaderAppendAction::AppendIfExistsOrAdd) | Err(_) => {
            #[allow(deprecated)]
            let appends = option.append.as_ref().is_some_and(|append| append.value);
            Some(if appends { Manner::Append } else { Manner::Replace })
        }
        Ok(HeaderAppendAction::AddIfAbsent) => (!is_there).then_some(Manner::Append),
        Ok(HeaderAppendAction::OverwriteIfExistsOrAdd) => Some(Manner::Replace),
        Ok(HeaderAppendAction::OverwriteIfExists) => is_there.then_some(Manner::Replace),
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::HeaderValue as ProtoHeader;
    use http::Method;

    use super::*;

    fn rules(strict: bool) -> MutationRules {
        MutationRules {
            routing: false,
            own_prefix: Some("x-envoy".into()),
            system: true,
            any: true,
            allowed: None,
            disallowed: None,
            strict,
        }
    }

    fn option(key: &str, value: &str, action: HeaderAppendAction) -> HeaderValueOption {
        HeaderValueOption {
            header: Some(ProtoHeader {
                key: key.to_owned(),
                raw_value: value.as_bytes().to_vec(),
                ..ProtoHeader::default()
            }),
            append_action: action.into(),
            ..HeaderValueOption::default()
        }
    }

    fn changed(head: &mut Head, set: Vec<HeaderValueOption>, remove: &[&str], strict: bool) -> Result<(), Invalid> {
        let mutation = HeaderMutation {
            set_headers: set,
            remove_headers: remove.iter().map(|name| (*name).to_owned()).collect(),
        };
        let terms = Terms {
            rules: &rules(strict),
            kept: Kept::Length,
            is_replaced: false,
            limit: 4,
        };
        apply(&mutation, &mut Target::Request(head), terms)
    }

    #[test]
    fn headers_are_set_beside_others_as_their_action_says() {
        use HeaderAppendAction::{AddIfAbsent, AppendIfExistsOrAdd, OverwriteIfExists, OverwriteIfExistsOrAdd};
        for (action, there, absent) in [
            (AppendIfExistsOrAdd, "new", Some("new")),
            (AddIfAbsent, "old", Some("new")),
            (OverwriteIfExistsOrAdd, "new", Some("new")),
            (OverwriteIfExists, "new", None),
        ] {
            let mut head = Head::empty();
            head.headers.insert("x-a", HeaderValue::from_static("old"));
            let set = vec![option("X-A", "new", action), option("x-b", "new", action)];
            assert_eq!(changed(&mut head, set, &[], false), Ok(()));
            let value = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
            assert_eq!((value("x-a"), value("x-b")), (Some(there), absent), "{action:?}");
        }
    }

    #[test]
    fn what_may_not_be_changed_stays_or_is_an_error() {
        let plain = |key: &str, value: &str| vec![option(key, value, HeaderAppendAction::AppendIfExistsOrAdd)];
        for key in [":method", "host", "x-envoy-a"] {
            let mut head = Head::empty();
            assert_eq!(changed(&mut head, plain(key, "POST"), &[], false), Ok(()));
            assert!(head.method == Method::GET && head.authority.is_empty() && head.headers.is_empty());
            assert!(changed(&mut head, plain(key, "POST"), &[], true).is_err(), "{key}");
        }
        let mut head = Head::empty();
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        assert_eq!(
            changed(&mut head, plain("content-length", "4"), &["content-length"], true),
            Ok(())
        );
        assert_eq!(head.headers[CONTENT_LENGTH], "3");
        assert_eq!(changed(&mut head, plain(":path", "/b?c"), &[], true), Ok(()));
        assert_eq!(head.target, "/b?c");
        assert!(changed(&mut head, plain(":path", "/b c"), &[], true).is_err());
        assert!(changed(&mut head, plain("x a", ""), &[], false).is_err());
        assert!(changed(&mut head, plain("x-a", "a\nb"), &[], false).is_err());
        let many = (0..5).flat_map(|_| plain("x-a", "b")).collect();
        assert!(changed(&mut head, many, &[], false).is_err());
    }
}
