//! Files of access logs, and lines on their way into them.
//!
//! A worker gathers lines ([`buffers`]) and hands them over in batches to a thread that writes them ([`writer`]).
//! What a line says is for [`crate::access_log`].
//! Deliberately absent: any wait of a worker for a file. What the writer can't take is dropped and counted.

pub(crate) mod buffers;
pub mod writer;
