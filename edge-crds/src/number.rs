//! Numbers and amounts of a certain form.

use crate::values::shaped;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

shaped! {
    /// An HTTP status.
    pub struct HttpStatus(i32) = { "type": "integer", "format": "int32", "minimum": 100, "maximum": 599 }
}

shaped! {
    /// A port.
    pub struct PortNumber(i32) = { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535 }
}

/// What an amount may be written as.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// As a number.
    Number(i64),
    /// As a number with a unit.
    Text(String),
}

shaped! {
    /// Bytes, as a number or with a unit, e.g. `64Ki`.
    pub struct ByteQuantity(Amount) = {
        "x-kubernetes-int-or-string": true, "pattern": "^[1-9]+[0-9]*([EPTGMK]i|[EPTGMk])?$"
    }
}

/// A share.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.numerator <= self.denominator", "numerator must be less than or equal to denominator"))]
pub struct Fraction {
    /// How many.
    #[schemars(range(min = 0))]
    pub numerator: i32,
    /// Of how many.
    #[schemars(range(min = 1), extend("default" = 100))]
    pub denominator: Option<i32>,
}
