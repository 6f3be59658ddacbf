//! Two programs that do no more than use the crates of the core, as others may:
//!
//! * `check-yaml PATH…` judges the resources of a repository as the controller would, for a check before they land.
//! * `follow` is a controller of its own: it is told of changes, as a watch of an API server tells them, and says what
//!   becomes of each: statuses that changed, and resources that proxies are sent anew.
//!
//! `cargo run -p embedding --bin check-yaml golden/match/path-regex`, say. What both have in common is nothing, so
//! there is nothing here.
