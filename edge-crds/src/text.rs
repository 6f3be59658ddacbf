//! Texts of a certain form, each with its bounds in one place.

use crate::values::{shaped, values};

shaped! {
    /// A duration as Gateway API writes it (GEP-2257), e.g. `1h30m`.
    pub struct DurationText(String) = { "type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$" }
}

shaped! {
    /// A range of addresses.
    pub struct Cidr(String) = { "type": "string", "maxLength": 49, "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$" }
}

shaped! {
    /// Where scripts come from (RFC 6454): `*`, or a scheme and a host that may begin with `*.`.
    pub struct Origin(String) = {
        "type": "string", "minLength": 1, "maxLength": 253, "pattern": r"^(\*|[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s]+)$"
    }
}

shaped! {
    /// A scope of a token.
    pub struct JwtScope(String) = { "type": "string", "minLength": 1, "maxLength": 253 }
}

shaped! {
    /// An expression in CEL.
    pub struct CelExpression(String) = { "type": "string", "minLength": 1, "maxLength": 4096 }
}

shaped! {
    /// Bytes in base64 (RFC 4648 §4).
    pub struct Base64(String) = { "type": "string", "format": "byte" }
}

shaped! {
    /// An API group; empty is core.
    pub struct Group(String) = {
        "type": "string", "maxLength": 253,
        "pattern": r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    }
}

shaped! {
    /// The name of a kind.
    pub struct KindName(String) = {
        "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"
    }
}

shaped! {
    /// The name of an object.
    pub struct ObjectName(String) = { "type": "string", "minLength": 1, "maxLength": 253 }
}

shaped! {
    /// The name of a namespace.
    pub struct NamespaceName(String) = {
        "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
    }
}

shaped! {
    /// The name of a listener, a rule or a port.
    pub struct SectionName(String) = {
        "type": "string", "minLength": 1, "maxLength": 253,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    }
}

shaped! {
    /// A host name without a wildcard.
    pub struct PreciseHostname(String) = {
        "type": "string", "minLength": 1, "maxLength": 253,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    }
}

shaped! {
    /// The name of a header, a token of RFC 9110 §5.6.2.
    pub struct HttpHeaderName(String) = {
        "type": "string", "minLength": 1, "maxLength": 256, "pattern": r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$"
    }
}

values! {
    /// A method of a request.
    pub enum HttpMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Connect = "CONNECT",
        Options = "OPTIONS",
        Trace = "TRACE",
        Patch = "PATCH",
    }
}

values! {
    /// How a path is compared.
    pub enum PathMatchType {
        Exact = "Exact",
        PathPrefix = "PathPrefix",
        RegularExpression = "RegularExpression",
    }
}

values! {
    /// Trust anchors that exist already.
    pub enum WellKnownCaCertificates {
        System = "System",
    }
}
