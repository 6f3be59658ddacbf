//! The pure translation.
pub mod api;
