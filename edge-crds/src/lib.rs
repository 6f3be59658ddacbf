//! CustomResourceDefinitions of `gateway.edge`: descriptions, defaults, bounds, enums, CEL rules, printer columns.
//!
//! `cargo xtask gen` writes them as files, which the chart and `edgectl x install` carry.
