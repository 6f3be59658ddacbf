//! Policies: what they cover, and what becomes of what they cover.

pub(crate) mod effective;
