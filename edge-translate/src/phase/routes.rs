//! Routes: where they attach, what their rules do, which hosts and backends follow.

pub(crate) mod attach;
pub(crate) mod bound;
pub(crate) mod credential;
mod filters;
pub(crate) mod host;
mod load_reports;
pub(crate) mod overlap;
mod route_names;
pub(crate) mod rules;
mod stat_name;
pub(crate) mod uses;

pub(in crate::phase) use rules::{check_expression, check_path, is_token, origin};
