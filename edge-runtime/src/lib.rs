//! edge-runtime.
