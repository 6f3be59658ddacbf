//! TLS settings that several gateway.edge kinds share.

use crate::api::shape::tls_settings;
use crate::api::text::open_enum;

open_enum! {
    /// A TLS version.
    pub enum TlsVersion {
        Auto = "Auto",
        V1_0 = "1.0",
        V1_1 = "1.1",
        V1_2 = "1.2",
        V1_3 = "1.3",
    }
}

open_enum! {
    /// A protocol offered by ALPN.
    pub enum AlpnProtocol {
        Http10 = "http/1.0",
        Http11 = "http/1.1",
        H2 = "h2",
    }
}

open_enum! {
    /// A client fingerprint.
    pub enum TlsFingerprint {
        Ja3 = "JA3",
        Ja4 = "JA4",
    }
}

tls_settings! {
    /// TLS defaults towards every backend, with the client certificate.
    pub struct BackendTlsConfig {
    }
}
