//! Statuses: what we say about an object, independent of what others say and of the clock.
//!
//! A [`Status`] holds only our own entries and condition types. [`merge`] lays it over what the object carries,
//! keeping the words of others and moving transition times only where a status turned.

use crate::{
    api::{Kind, ParentReference},
    phase::statuses,
};
use serde::Serialize;
use std::{borrow::Cow, sync::Arc};

mod merge;
mod problems;
#[cfg(test)]
mod tests;

pub use merge::merge;
pub use problems::{Problem, is_bad_news};

/// Whether we say anything about objects of a kind.
pub fn has_status(kind: Kind) -> bool {
    statuses::has_status(kind)
}

/// What we say about one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Generation of the object that this is about.
    pub observed_generation: i64,
    /// The statements, in the shape of the object's kind.
    pub body: StatusBody,
}

impl Status {
    /// There is nothing to say of an object any more: our entries go. None for kinds whose status has no entries; what
    /// stands on the object itself belongs to whoever it is for now.
    pub fn silence(kind: Kind, controller: &Arc<str>) -> Option<Self> {
        let controller_name = Arc::clone(controller);
        let body = match kind {
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
                StatusBody::Parents {
                    controller_name,
                    parents: Vec::new(),
                }
            }
            Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::Backend => return None,
            _ => StatusBody::Ancestors {
                controller_name,
                ancestors: Vec::new(),
            },
        };
        Some(Self {
            observed_generation: 0,
            body,
        })
    }
}

/// The shapes of status.
#[derive(Clone, Debug, PartialEq)]
pub enum StatusBody {
    /// `conditions` on the object itself: Backend.
    Conditions(Vec<Condition>),
    /// A GatewayClass.
    Class(ClassStatus),
    /// A Gateway.
    Gateway(GatewayStatus),
    /// A ListenerSet.
    ListenerSet(ListenerSetStatus),
    /// `parents`: routes.
    Parents {
        /// The controller name that marks our entries.
        controller_name: Arc<str>,
        /// One entry a parentRef that leads to us.
        parents: Vec<ParentStatus>,
    },
    /// Nothing is written into the object, because it leads to nothing of ours: why, a sentence each.
    Unattached(Vec<String>),
    /// `ancestors`: policies and EdgeProxy.
    Ancestors {
        /// The controller name that marks our entries.
        controller_name: Arc<str>,
        /// One entry a Gateway or class that it affects.
        ancestors: Vec<ParentStatus>,
    },
}

/// Status of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassStatus {
    /// On the class itself.
    pub conditions: Vec<Condition>,
    /// Features of the Gateway API that its Gateways have, sorted.
    pub features: Vec<&'static str>,
}

/// Status of a Gateway. Addresses and `Programmed` need infrastructure and are added by who knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayStatus {
    /// On the Gateway itself.
    pub conditions: Vec<Condition>,
    /// One entry a listener, in spec order.
    pub listeners: Vec<ListenerStatus>,
    /// Accepted ListenerSets.
    pub attached_listener_sets: u32,
    /// Its class, which stays while somebody is of it. No part of what is written either.
    pub class: Arc<str>,
    /// Addresses that it asks for. They are no part of what is written; who adds those that it has judges by them.
    pub asked: Vec<Arc<str>>,
}

/// Status of a ListenerSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListenerSetStatus {
    /// On the ListenerSet itself.
    pub conditions: Vec<Condition>,
    /// One entry a listener, in spec order; none while its Gateway doesn't take it.
    pub listeners: Vec<ListenerStatus>,
}

/// Status of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerStatus {
    /// The listener's name.
    pub name: Arc<str>,
    /// Route kinds it takes, all of group `gateway.networking.k8s.io`.
    pub supported_kinds: Vec<Arc<str>>,
    /// Accepted routes.
    pub attached_routes: u32,
    /// Conditions, in a fixed order.
    pub conditions: Vec<Condition>,
}

/// What we say about a route under one parent, or a policy under one ancestor.
#[derive(Clone, Debug, PartialEq)]
pub struct ParentStatus {
    /// The reference exactly as the route wrote it (defaults filled in), or the ancestor.
    pub parent: Arc<ParentReference>,
    /// Conditions, in a fixed order.
    pub conditions: Vec<Condition>,
}

/// One statement. When it was first true is not known here: see [`merge`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// e.g. `Accepted`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether it holds.
    pub status: Truth,
    /// A word for machines; several are joined by commas.
    pub reason: Cow<'static, str>,
    /// A sentence for people.
    pub message: Cow<'static, str>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It doesn't.
    False,
}

/// Longest message that the API accepts, in bytes.
const MESSAGE_LIMIT: usize = 32768;
/// What a message that was too long ends with.
const TRUNCATED: &str = " (message truncated).";

impl Condition {
    /// A condition that holds.
    pub fn yes(
        kind: &'static str,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind,
            status: Truth::True,
            reason: reason.into(),
            message: fit(message.into()),
        }
    }

    /// A condition that doesn't hold.
    pub fn no(kind: &'static str, reason: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            status: Truth::False,
            reason: reason.into(),
            message: fit(message.into()),
        }
    }
}

/// Cuts a message to what the API accepts, at a character boundary.
fn fit(message: Cow<'static, str>) -> Cow<'static, str> {
    if message.len() <= MESSAGE_LIMIT {
        return message;
    }
    let mut end = MESSAGE_LIMIT - TRUNCATED.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{TRUNCATED}", &message[..end]).into()
}

/// Turns the text of an error into the style of condition messages: a capital in front, a full stop behind.
pub fn sentence(error: &str) -> String {
    let begins_with_name = error.split(' ').next().is_some_and(|word| word.contains('/'));
    if begins_with_name {
        return ended(error);
    }
    let mut chars = error.chars();
    let mut text: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    text.push_str(chars.as_str());
    ended(text)
}

/// An error as the end of a sentence that began with other words.
pub fn ended(error: impl Into<String>) -> String {
    let mut text = error.into();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}
