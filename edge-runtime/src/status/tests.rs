//! The document, from what its parts know.
