//! edge-proxy.
