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
    /// In the header of this name.
    Header(Arc<str>),
    /// In the query parameter of this name.
    Query(Arc<str>),
    /// In the cookie of this name.
    Cookie(Arc<str>),
}

/// What the backend sees of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySeen {
    /// The key stays in the request.
    #[default]
    Kept,
    /// The proxy takes the key off (`sanitize`).
    Removed,
}

/// Rules of who may do what; the first that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRules {
    /// The rules, in the order in which they are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AccessRule>,
    /// What becomes of requests that no rule matches.
    pub otherwise: Access,
}

/// What becomes of a request: it goes on, or is answered 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// The request goes on.
    Allow,
    /// The request is answered 403.
    Deny,
}

/// A rule of who may do what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// What becomes of requests that match.
    pub access: Access,
    /// Conditions, all of which must hold; a rule without any matches every request.
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
    /// The path, without the query, matches this.
    Path(PathMatch),
    /// The path, without the query, doesn't match this.
    OtherPath(PathMatch),
    /// The header of this name (lower case) has one of these values.
    Header(Arc<str>, Vec<ValueMatcher>),
    /// A claim of a verified token has one of some values.
    Claim(ClaimCondition),
    /// The address of the client is at one of these places, as far as databases tell.
    Place(Vec<GeoConditions>),
    /// The CEL expression is true. One that reads what the request doesn't have is not.
    Expression(Arc<Expression>),
}

/// A range of addresses (CIDR, RFC 4632).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressRange {
    /// An address in it.
    pub address: IpAddr,
    /// Length of the prefix: so many leading bits of an address in the range are those of `address`.
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
    /// Whether the claim is a text, or a list of texts of which one entry must match.
    pub form: ClaimForm,
    /// Values, one of which the claim has.
    pub values: Vec<Arc<str>>,
}

/// The form of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClaimForm {
    /// The claim is one text.
    Text,
    /// The claim is a list of texts.
    List,
}

/// Requests that change something come from the site itself (OWASP: cross-site request forgery); others are answered
/// 403.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteCheck {
    /// Other hosts, with their ports, that requests may come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<ValueMatcher>,
    /// Share of the requests that are only looked at.
    pub shadowed: Fraction,
}
