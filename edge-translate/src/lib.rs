//! The pure translation.
