//! Ids of requests.

/// `x-request-id` settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Make one when the request has none (and replace an external one unless preserved).
    pub generate: bool,
    /// Keep the one that an edge request brings.
    pub preserve_external: bool,
    /// Also put it on the response.
    pub in_response: bool,
    /// What it has to do with traces.
    pub traces: TracesInIds,
}

/// What ids of requests have to do with traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracesInIds {
    /// One of their digits tells whether a request is traced, and why.
    pub packs_reason: bool,
    /// They decide which requests are; without, all.
    pub decide: bool,
}

impl Default for TracesInIds {
    fn default() -> Self {
        Self {
            packs_reason: true,
            decide: true,
        }
    }
}
