//! Lists of revoked certificates (RFC 5280 §5).

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, UnixTime};
use webpki::{BorrowedCertRevocationList, CertRevocationList};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use crate::compile::field::{At, Rejection};

/// A list of revoked certificates.
#[derive(Debug)]
pub struct RevocationList {
    list: CertRevocationList<'static>,
    /// Since when it is in force, in seconds since 1970. Until when, webpki knows.
    since: u64,
}

impl RevocationList {
    /// Those of a file of PEM.
    pub(super) fn read(at: &At<'_>, pem: &[u8]) -> Result<Vec<Self>, Rejection> {
        let mut lists = Vec::new();
        for encoded in CertificateRevocationListDer::pem_slice_iter(pem) {
            let encoded = encoded.map_err(|error| at.error(format!("is not PEM: {error}")))?;
            let unusable = |error: String| at.error(format!("holds a list that can't be used: {error}"));
            let list = BorrowedCertRevocationList::from_der(&encoded)
                .and_then(|list| list.to_owned())
                .map_err(|error| unusable(error.to_string()))?;
            let (_, parsed) =
                CertificateRevocationList::from_der(&encoded).map_err(|error| unusable(error.to_string()))?;
            lists.push(Self {
                list: CertRevocationList::Owned(list),
                since: u64::try_from(parsed.last_update().timestamp()).unwrap_or(0),
            });
        }
        // A file that is about to be written: without a list nothing would be asked.
        if lists.is_empty() {
            return Err(at.error("holds no list"));
        }
        Ok(lists)
    }

    /// The list, unless it is one of times to come.
    pub(in crate::compile) fn at(&self, now: UnixTime) -> Option<&CertRevocationList<'static>> {
        (self.since <= now.as_secs()).then_some(&self.list)
    }

    /// The list, whenever it was made.
    pub(in crate::compile) fn any_time(&self) -> &CertRevocationList<'static> {
        &self.list
    }
}
