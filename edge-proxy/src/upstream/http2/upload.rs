//! The content of a request on its way into a stream.
//!
//! It is driven by whoever waits for the response; most content has gone before the response comes. What is left
//! then goes by a task of its own, so that neither side of a conversation waits for the other to be read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header;
use http_body::Body as _;

use crate::http2::{poll_window, remove_connection_fields};
use crate::message::body::RequestBody;

/// How an upload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything is queued, or the stream takes no more: what became of it the response says.
    Over,
    /// The content broke off, and with it the stream.
    Broken,
}

/// Content, and where it goes.
#[derive(Debug)]
pub(super) struct Upload {
    stream: SendStream<Bytes>,
    body: RequestBody,
    /// What has no window yet.
    piece: Bytes,
}

impl Upload {
    /// Nothing has gone yet.
    pub(super) fn new(stream: SendStream<Bytes>, body: RequestBody) -> Self {
        Self {
            stream,
            body,
            piece: Bytes::new(),
        }
    }

    /// Sends what there is and has room.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            while !self.piece.is_empty() {
                let Some(window) = ready!(poll_window(&mut self.stream, self.piece.len(), cx)) else {
                    return Poll::Ready(End::Over);
                };
                let now = self.piece.split_to(window.min(self.piece.len()));
                let last = self.piece.is_empty() && self.body.is_end_stream();
                if self.stream.send_data(now, last).is_err() || last {
                    return Poll::Ready(End::Over);
                }
            }
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(End::Over);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(frame) => {
                        if let Ok(mut trailers) = frame.into_trailers() {
                            remove_connection_fields(&mut trailers);
                            trailers.remove(header::TE);
                            if self.stream.send_trailers(trailers).is_err() {
                                // What can't be said must not look complete. (Nothing happens to a closed stream.)
                                self.stream.send_reset(Reason::INTERNAL_ERROR);
                            }
                            return Poll::Ready(End::Over);
                        }
                    }
                },
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(End::Over);
                }
                Some(Err(_)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(End::Broken);
                }
            }
        }
    }
}
