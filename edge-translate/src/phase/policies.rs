//! Policies: what they are for, what they say, and what becomes of what they cover.
//!
//! | module | answers |
//! |---|---|
//! | `attachment` | who holds a target: the one table of what each kind may be for, selectors and grants, the oldest first |
//! | `policy` | what every policy answers, whatever its kind |
//! | `client` | what a ClientTrafficPolicy says, once for each policy; `listeners/client_traffic` puts it on listeners |
//! | `traffic` | what a BackendTrafficPolicy says, once for each policy, as a number that routes share |
//! | `security` | what a SecurityPolicy says, in the same way |
//! | `extension` | what an EdgeExtensionPolicy says, once for each policy, and what becomes of that where it is used |
//! | `geoip` | whether it can be told where the clients of a listener are |
//! | `custom` | whom policies are for that only extension services know |
//! | `services` | the services that policies ask |
//! | `secret_text` | the texts of Secrets that their filters name |
//! | `text_match` | conditions on texts |
//! | `written` | what a policy says, as it was written |
//! | `merge` | what two policies say together |
//! | `filter_list` | the filters that a policy brings |
//! | `effective` | what is decided for each rule of a route at a listener, by precedence |
//!
//! The next kind of policy is a row in `attachment`, a module that reads it as `traffic` does, its arms in `policy`,
//! and a field of [`Decision`](crate::name::Decision) that `effective` fills. Its status (`statuses/attached`) needs
//! nothing new.

pub(crate) mod attachment;
pub(crate) mod client;
pub(crate) mod custom;
mod derived;
pub(crate) mod effective;
pub(crate) mod extension;
mod filter_list;
pub(crate) mod geoip;
mod merge;
pub(crate) mod policy;
pub(in crate::phase) mod secret_text;
pub(crate) mod security;
mod services;
pub(in crate::phase) mod text_match;
pub(crate) mod traffic;
mod written;

pub(crate) use merge::lay;
