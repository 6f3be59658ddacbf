//! The server against a scripted client.
