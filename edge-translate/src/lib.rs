//! The pure translation.
pub mod api;
pub mod load;
