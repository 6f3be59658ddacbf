//! Why TLS with a backend failed, in words that say what to look at.
//!
//! A reason for each kind of failure, small enough to travel in a [`Fault`](crate::fault::Fault), and a log that
//! names each reason once a minute for a cluster, however many requests meet it. Access logs tell the reason; what
//! exactly was wrong (names, times) is in the log only. Clients are told nothing of it, as by Envoy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use rustls::{AlertDescription, CertificateError, Error};

/// Between two lines of log about the same.
const SILENCE_SECONDS: u64 = 60;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why TLS with a backend failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum TlsFailure {
            $($(#[$doc])* $name,)*
        }

        impl TlsFailure {
            const ALL: &[Self] = &[$(Self::$name),*];

            /// The reason alone.
            fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Why there is no connection, for logs, in the form of Envoy's.
            pub(crate) fn transport_failure(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("TLS_error: ", $text),)*
                }
            }
        }
    };
}

reasons! {
    /// No chain to an authority that the cluster trusts.
    Untrusted = "certificate is not signed by a trusted authority",
    /// The names or digests that the cluster demands are not the certificate's.
    WrongName = "certificate is not valid for the expected name",
    /// Its time is over.
    Expired = "certificate has expired",
    /// Its time has not come.
    NotYetValid = "certificate is not valid yet",
    /// On a revocation list.
    Revoked = "certificate is revoked",
    /// Anything else about the certificate.
    BadCertificate = "certificate is not accepted",
    /// The backend wants a certificate, or another one.
    ClientCertificate = "backend does not accept the client certificate, or requires one",
    /// The backend serves another name.
    UnknownServerName = "backend does not serve this server name",
    /// No common version, suite, group or protocol.
    NothingInCommon = "no TLS version, cipher suite or protocol in common",
    /// What it says is not TLS.
    NotTls = "backend does not speak TLS on this port",
    /// It hung up.
    Closed = "backend closed the connection during the handshake",
    /// The rest.
    Other = "handshake failed",
}

impl TlsFailure {
    /// The reason in an error of a handshake.
    pub(crate) fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(Error::InvalidCertificate(error)) => Self::of_certificate(error),
            Some(Error::AlertReceived(alert)) => Self::of_alert(*alert),
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::NothingInCommon,
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(_) => Self::Other,
            None if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
            {
                Self::Closed
            }
            None => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        use CertificateError as C;
        match error {
            C::UnknownIssuer => Self::Untrusted,
            // The second is what our verifier says of digests.
            C::NotValidForName | C::NotValidForNameContext { .. } | C::ApplicationVerificationFailure => {
                Self::WrongName
            }
            C::Expired | C::ExpiredContext { .. } => Self::Expired,
            C::NotValidYet | C::NotValidYetContext { .. } => Self::NotYetValid,
            C::Revoked => Self::Revoked,
            _ => Self::BadCertificate,
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        use AlertDescription as A;
        match alert {
            A::CertificateRequired
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied => Self::ClientCertificate,
            A::UnrecognisedName => Self::UnknownServerName,
            A::HandshakeFailure
            | A::ProtocolVersion
            | A::InsufficientSecurity
            | A::NoApplicationProtocol
            | A::UnsupportedExtension => Self::NothingInCommon,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for TlsFailure {}

/// When each reason was last logged for a cluster, in seconds since 1970.
#[derive(Debug, Default)]
pub struct TlsReports([AtomicU64; TlsFailure::ALL.len()]);

impl TlsReports {
    /// Whether a line is due; the next is not for a while.
    pub(crate) fn is_due(&self, failure: TlsFailure) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.is_due_at(failure, now.map_or(SILENCE_SECONDS, |since| since.as_secs()))
    }

    fn is_due_at(&self, failure: TlsFailure, now: u64) -> bool {
        let Some(last) = self.0.get(failure as usize) else {
            return false;
        };
        let before = last.load(Ordering::Relaxed);
        let due = before == 0 || now.saturating_sub(before) >= SILENCE_SECONDS;
        // Of several workers one writes the line.
        due && last
            .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_handshakes_have_reasons() {
        let of = |error: Error| TlsFailure::of(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::NotValidForName)),
            TlsFailure::WrongName
        );
        assert_eq!(
            of(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            TlsFailure::Untrusted
        );
        assert_eq!(
            of(Error::AlertReceived(AlertDescription::CertificateRequired)),
            TlsFailure::ClientCertificate
        );
        assert_eq!(
            of(Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
            TlsFailure::NotTls
        );
        assert_eq!(TlsFailure::of(&io::ErrorKind::UnexpectedEof.into()), TlsFailure::Closed);
        assert_eq!(TlsFailure::of(&io::ErrorKind::Other.into()), TlsFailure::Other);
    }

    #[test]
    fn a_reason_is_logged_once_a_minute() {
        let reports = TlsReports::default();
        assert!(reports.is_due_at(TlsFailure::Expired, 1000));
        assert!(!reports.is_due_at(TlsFailure::Expired, 1059));
        assert!(reports.is_due_at(TlsFailure::Untrusted, 1059));
        assert!(reports.is_due_at(TlsFailure::Expired, 1060));
    }
}
