//! Other responses in place of some (Envoy's `custom_response`).

use http::{HeaderMap, HeaderName, StatusCode};

use crate::config::access_log::BodyFormat;
use crate::config::header::{HeaderSteps, StringCondition};
use crate::config::route::Redirect;

/// What takes the place of a response: of the entries whose condition holds the first.
#[derive(Debug)]
pub struct CustomResponses(pub Box<[CustomResponse]>);

/// A condition and what follows from it.
#[derive(Debug)]
pub struct CustomResponse {
    /// Which responses it is for.
    pub condition: ResponseCondition,
    /// What takes their place.
    pub instead: Instead,
}

/// A condition on a response.
#[derive(Debug)]
pub enum ResponseCondition {
    /// All of these.
    All(Box<[Self]>),
    /// Any of these.
    Any(Box<[Self]>),
    /// On its status, in digits.
    Status(StringCondition),
    /// On whether the proxy itself has made it, `true` or `false`.
    Local(StringCondition),
    /// On a field; without one it doesn't hold.
    Header(HeaderName, StringCondition),
}

/// What takes the place of a response.
#[derive(Debug)]
pub enum Instead {
    /// An answer of the proxy.
    Answer {
        /// Its status; unset: that of the response.
        status: Option<StatusCode>,
        /// Its content; unset: none.
        body: Option<BodyFormat>,
        /// Edits of its fields.
        headers: HeaderSteps,
    },
    /// What another request gets.
    Elsewhere {
        /// The status of what it gets, where that is success; unset: its own.
        status: Option<StatusCode>,
        /// Where that request goes, which is one for the same otherwise.
        location: Box<Redirect>,
    },
}

/// What conditions look at.
#[derive(Clone, Copy, Debug)]
pub struct ResponseView<'a> {
    /// The status.
    pub status: StatusCode,
    /// The fields.
    pub fields: &'a HeaderMap,
    /// The proxy itself has made it.
    pub is_local: bool,
}

impl ResponseCondition {
    /// Whether it holds.
    pub fn holds(&self, response: &ResponseView<'_>) -> bool {
        match self {
            Self::All(all) => all.iter().all(|one| one.holds(response)),
            Self::Any(any) => any.iter().any(|one| one.holds(response)),
            Self::Status(condition) => condition.matches(response.status.as_str()),
            Self::Local(condition) => condition.matches(if response.is_local { "true" } else { "false" }),
            Self::Header(name, condition) => {
                let lines = response.fields.get_all(name).iter();
                let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
                !lines.is_empty() && condition.matches(&lines.join(","))
            }
        }
    }
}

impl CustomResponses {
    /// Whether what takes the place of a response may tell what has become of the request.
    pub fn tell_course(&self) -> bool {
        self.0.iter().any(|one| match &one.instead {
            Instead::Answer { body, .. } => body.as_ref().is_some_and(|body| body.tells_course),
            Instead::Elsewhere { .. } => false,
        })
    }

    /// What takes the place of a response, if anything does.
    pub fn find(&self, response: &ResponseView<'_>) -> Option<&Instead> {
        let found = self.0.iter().find(|one| one.condition.holds(response));
        found.map(|one| &one.instead)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn conditions_look_at_status_source_and_fields() {
        let exact = |text: &str| StringCondition::Exact(text.into());
        let name = HeaderName::from_static("x-a");
        let condition = ResponseCondition::All(
            [
                ResponseCondition::Any([ResponseCondition::Status(exact("404"))].into()),
                ResponseCondition::Local(exact("false")),
                ResponseCondition::Header(name.clone(), exact("1,2")),
            ]
            .into(),
        );
        let mut fields = HeaderMap::new();
        let holds = |status, is_local, fields: &HeaderMap| {
            let status = StatusCode::from_u16(status).expect("a status");
            condition.holds(&ResponseView {
                status,
                fields,
                is_local,
            })
        };
        assert!(!holds(404, false, &fields));
        fields.append(&name, HeaderValue::from_static("1"));
        assert!(!holds(404, false, &fields));
        fields.append(&name, HeaderValue::from_static("2"));
        assert!(holds(404, false, &fields));
        assert!(!holds(404, true, &fields) && !holds(405, false, &fields));
    }
}
