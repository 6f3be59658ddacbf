//! IR to xDS.
