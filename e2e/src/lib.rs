//! What end-to-end tests and measurements share: programs under test, a small HTTP client, a load generator, worlds.
//!
//! The tests stand in `tests/`; `cargo xtask test --tier e2e` builds the programs and runs them.

pub mod collector;
pub mod golden;
pub mod held;
pub mod http;
pub mod lab;
pub mod load;
pub mod mmdb;
pub mod ports;
pub mod process;
pub mod stack;
pub mod tls;
pub mod traffic;
pub mod usage;
pub mod world;

/// Makes two tests of each scenario, a function of the caller's module from a [`stack::DataPlane`] to a result: one a
/// data plane.
#[macro_export]
macro_rules! with_each_data_plane {
    ($($scenario:ident,)+) => {
        mod edge_proxy {
            $(#[test] fn $scenario() -> anyhow::Result<()> { super::$scenario(&$crate::stack::DataPlane::EdgeProxy) })+
        }
        mod envoy {
            $(#[test] fn $scenario() -> anyhow::Result<()> { super::$scenario(&$crate::stack::DataPlane::envoy()?) })+
        }
    };
}

/// Makes a test of each scenario, for what stock Envoy alone serves yet.
#[macro_export]
macro_rules! with_envoy {
    ($($scenario:ident,)+) => {
        mod stock {
            $(#[test] fn $scenario() -> anyhow::Result<()> { super::$scenario(&$crate::stack::DataPlane::envoy()?) })+
        }
    };
}
