//! Golden cases under edits of their policies: what breaks a policy opens nothing that it protects and moves nobody
//! else's routes ([`broken`]), and a policy that comes and goes leaves nothing behind ([`chains`]).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

mod breakage;
mod broken;
mod case;
mod chains;
