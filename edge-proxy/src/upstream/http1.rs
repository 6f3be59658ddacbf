//! One HTTP/1 connection to a backend, as the pool sees it.
//!
//! The codec's connection with its age and its use. It is driven by the request that uses it: no wake-up between
//! two tasks on the way of a request, and nothing runs for a connection that is idle.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;

use crate::config::protocol::Http1Upstream;
use crate::http1::Trailers;
use crate::http1::buffers::Buffers;
use crate::http1::client::{Client, Passing};
use crate::http1::head::Names;
use crate::message::body::RequestBody;
use crate::transport::Transport;
use crate::upstream::limits::ConnectionGuard;
use crate::upstream::pool::Birth;

/// An HTTP/1 connection.
#[derive(Debug)]
pub(crate) struct Http1Connection {
    /// Speaks HTTP.
    pub(crate) client: Client<RequestBody>,
    /// Our end of it.
    pub(crate) local: Option<SocketAddr>,
    /// When it was opened, and how its host was.
    pub(crate) birth: Birth,
    /// When it was last used.
    pub(crate) idle_since: Instant,
    /// How many requests it has served.
    pub(crate) served: u32,
    guard: ConnectionGuard,
}

impl Http1Connection {
    /// Speaks HTTP/1 on a transport.
    pub(crate) fn new(
        transport: Transport,
        buffers: Rc<Buffers>,
        options: Http1Upstream,
        guard: ConnectionGuard,
        birth: Birth,
    ) -> Box<Self> {
        let passing = Passing {
            trailers: Trailers::by(options.enable_trailers),
            names: match options.keeps_names {
                true => Names::AsWritten,
                false => Names::Lowered,
            },
        };
        Box::new(Self {
            local: transport.local(),
            client: Client::new(transport, buffers, passing),
            birth,
            idle_since: birth.at,
            served: 0,
            guard,
        })
    }

    /// Counts a request, which may be the last that it serves.
    pub(crate) fn count_request(&mut self) {
        self.served = self.served.saturating_add(1);
        if self.is_used_up() {
            self.guard.cells().upstream_cx_max_requests.inc();
        }
    }

    /// Whether it has served as many requests as it may.
    pub(crate) fn is_used_up(&self) -> bool {
        let most = self.guard.cluster().max_requests_per_connection;
        most.is_some_and(|most| self.served >= most)
    }

    /// After a 101, or a CONNECT that was granted: HTTP is over; the byte stream and what was read behind the response.
    pub(crate) fn into_transport(self) -> Option<(Transport, Bytes, ConnectionGuard)> {
        let (transport, early) = self.client.into_transport()?;
        Some((transport, early, self.guard))
    }
}
