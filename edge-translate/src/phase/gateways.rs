//! Classes and Gateways: whose they are, with which parameters, in which fleet, and what must exist around it.

pub(crate) mod class;
mod cluster_settings;
pub(crate) mod collectors;
pub(crate) mod filter_order;
pub(crate) mod fleet_shape;
pub(crate) mod gateway;
pub(crate) mod geoip;
pub(crate) mod home;
pub(crate) mod infra;
pub(crate) mod infrastructure;
pub(crate) mod patches;
pub(crate) mod proxies;
pub(crate) mod proxy_settings;
pub(crate) mod telemetry;

pub(crate) use cluster_settings::rate_limit_settings;
