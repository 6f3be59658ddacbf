//! Who may send a request: users and keys that it must carry, and rules over where it comes from and what it asks for.

use crate::{Expression, Fraction, GeoConditions, PathMatch, SecretBytes, ValueMatcher};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, sync::Arc};

/// Requests carry one of these users with its password (RFC 7617); others are answered 401.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// `user:{SHA}…`, one a line.
    pub users: SecretBytes,
}

/// Requests carry one of these keys; others are answered 401.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyAuth {
    /// Who has which key, sorted by client. No key is there twice.
    pub keys: Vec<ApiKey>,
    /// Where requests carry it; the first place that has one counts.
    pub sources: Vec<KeySource>,
    /// Header that tells the backend the name of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_header: Option<Arc<str>>,
    /// What the backend sees of the key.
    #[serde(default)]
    pub seen: KeySeen,
}

/// A client and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// The client.
    pub client: Arc<str>,
    /// Its key.
    pub key: SecretBytes,
}

/// Where a request carries its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySource {
    /// In a header.
    Header(Arc<str>),
    /// In a query parameter.
    Query(Arc<str>),
    /// In a cookie.
    Cookie(Arc<str>),
}

/// What the backend sees of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySeen {
    /// All.
    #[default]
    Kept,
    /// Nothing: the proxy takes it off.
    Removed,
}

/// Rules of who may do what; the first that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRules {
    /// In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AccessRule>,
    /// What becomes of requests that none matches.
    pub otherwise: Access,
}

/// What becomes of a request: it goes on, or is answered 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// It goes on.
    Allow,
    /// It is refused.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// What becomes of requests that match.
    pub access: Access,
    /// Conditions, all of which must hold; none holds of every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<AccessCondition>,
}

/// A condition on a request and who sent it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AccessCondition {
    /// The address of the client, as the listener knows it, is in one of these ranges.
    Client(Vec<AddressRange>),
    /// The method is one of these.
    Method(Vec<Arc<str>>),
    /// The path, without the query.
    Path(PathMatch),
    /// The path is another.
    OtherPath(PathMatch),
    /// A header of this name (lower case) has one of these values.
    Header(Arc<str>, Vec<ValueMatcher>),
    /// A claim of a token has one of these values.
    Claim(ClaimCondition),
    /// The address of the client is at one of these places, as far as databases tell.
    Place(Vec<GeoConditions>),
    /// This is true. What can't be told, for something that it reads isn't there, isn't.
    Expression(Arc<Expression>),
}

/// A range of addresses (CIDR, RFC 4632).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressRange {
    /// An address in it.
    pub address: IpAddr,
    /// Bits that count.
    pub bits: u8,
}

impl AddressRange {
    /// Whether an address is in it, to the letter: none of IPv4 is in a range of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.leading_zeros() >= self.bits.into()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.leading_zeros() >= self.bits.into()
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// A condition on a claim of a verified token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimCondition {
    /// The provider that verified it.
    pub provider: Arc<str>,
    /// The claim, level by level.
    pub path: Vec<Arc<str>>,
    /// Whether it is one text or a list of which an entry counts.
    pub form: ClaimForm,
    /// Values, one of which it has.
    pub values: Vec<Arc<str>>,
}

/// The form of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClaimForm {
    /// One text.
    Text,
    /// A list of texts.
    List,
}

/// Requests that change something come from the site itself (OWASP: cross-site request forgery); others are answered 403.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteCheck {
    /// Other hosts, with their ports, that requests may come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<ValueMatcher>,
    /// Share of the requests that are only looked at.
    pub shadowed: Fraction,
}
