//! The command line of Edge Gateway, as a library: the binary is a thin shell, and tests call the same functions.
//!
//! [`cli`] holds the commands as data (clap), one module a command below it does the work. A new command is a variant
//! there and a module here. Absent on purpose: rules of translation. Whatever a command says about resources comes
//! from `edge-translate` and `edge-xds`, which the controller runs too.

pub mod cli;
pub mod cluster;
pub mod collect;
pub mod config;
pub mod dashboard;
pub mod echo;
pub mod install;
pub mod kinds;
pub mod stats;
pub mod status;
pub mod translate;
pub mod validate;
pub mod version;
