//! The domains that a virtual host answers for: one, but where it stands for the names of others.

use crate::Domain;
use serde::{Deserialize, Serialize};
use std::{ops::Deref, slice, sync::Arc};

/// Domains of a virtual host, each once, at least one. In the fields of the host it is `domain` or `domains`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Domains {
    /// The hostname that its routes are for.
    #[serde(rename = "domain")]
    One(Domain),
    /// Names that are answered alike, sorted. They may be thousands, in each of thousands of tables.
    #[serde(rename = "domains")]
    Many(Arc<[Domain]>),
}

impl Deref for Domains {
    type Target = [Domain];
    fn deref(&self) -> &[Domain] {
        match self {
            Self::One(domain) => slice::from_ref(domain),
            Self::Many(domains) => domains,
        }
    }
}

impl From<&str> for Domains {
    fn from(domain: &str) -> Self {
        Self::One(domain.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Domains;

    #[test]
    fn one_is_written_as_one() {
        for (domains, written) in [
            ("a.example".into(), r#"{"domain":"a.example"}"#),
            (
                Domains::Many(["a.example".into(), "*".into()].into()),
                r#"{"domains":["a.example","*"]}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&domains).unwrap(), written);
            assert_eq!(serde_json::from_str::<Domains>(written).unwrap(), domains);
        }
    }
}
