//! Which fields of messages are kept for logs and spans.

use http::HeaderName;

use crate::config::header::HeaderCondition;

/// Fields of messages that are kept for the logs, by the places that formats and filters know them by.
#[derive(Debug, Default)]
pub struct CapturedFields {
    /// Of requests.
    pub request: Vec<HeaderName>,
    /// Of responses.
    pub response: Vec<HeaderName>,
    /// Of the trailers of responses.
    pub trailers: Vec<HeaderName>,
    /// Questions about requests; their answers are kept as bits.
    pub conditions: Vec<HeaderCondition>,
    /// Fields that expressions want with all their values.
    pub whole: WholeFields,
}

/// Fields that are kept with all their values.
#[derive(Debug, Default)]
pub struct WholeFields {
    /// Of requests.
    pub request: Vec<HeaderName>,
    /// Of responses.
    pub response: Vec<HeaderName>,
    /// Of the trailers of responses.
    pub trailers: Vec<HeaderName>,
}

impl CapturedFields {
    /// The places of the fields of a call.
    pub fn of_call(&mut self) -> CallFields {
        const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
        CallFields {
            content_type: place(&mut self.request, http::header::CONTENT_TYPE),
            response: place(&mut self.response, GRPC_STATUS),
            trailers: place(&mut self.trailers, GRPC_STATUS),
        }
    }

    /// Nothing is.
    pub const NOTHING: &Self = &Self {
        request: Vec::new(),
        response: Vec::new(),
        trailers: Vec::new(),
        conditions: Vec::new(),
        whole: WholeFields {
            request: Vec::new(),
            response: Vec::new(),
            trailers: Vec::new(),
        },
    };

    /// The place of a field of requests.
    pub fn of_request(&mut self, name: HeaderName) -> usize {
        place(&mut self.request, name)
    }
}

/// The place of a name in a list, where it is put if it isn't there.
pub fn place(names: &mut Vec<HeaderName>, name: HeaderName) -> usize {
    let known = names.iter().position(|known| *known == name);
    known.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Where the fields of a call are: places in the lists of [`CapturedFields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFields {
    /// `content-type` of the request.
    pub content_type: usize,
    /// `grpc-status` of the response.
    pub response: usize,
    /// The same behind it.
    pub trailers: usize,
}
