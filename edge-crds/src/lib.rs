//! CustomResourceDefinitions of `gateway.edge`: descriptions, defaults, bounds, enums, CEL rules, printer columns.
//!
//! `cargo xtask gen` writes them as files, which the chart and `edgectl x install` carry. The types are the shape that
//! a cluster checks and completes; what a resource means is read by those of `edge-translate`, which are open where
//! these are strict, know no cluster and keep only what is read. A test holds the fields of both together.

#![allow(
    unreachable_pub,
    reason = "KubeSchema copies each type, with its `pub`, into a function"
)]

pub mod backend;
pub mod backend_traffic;
pub mod client_traffic;
pub mod cluster_settings;
pub mod definition;
pub mod edge_proxy;
pub mod extension;
pub mod free;
pub mod health_check;
pub mod load_balancer;
pub mod number;
pub mod patch;
pub mod reference;
pub mod route_filter;
mod rule;
pub mod security;
pub mod shape;
pub mod status;
pub mod target;
pub mod text;
pub mod tls;
pub mod tracing;
mod values;
