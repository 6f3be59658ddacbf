//! What of the Gateway API this version honours, in the words of its conformance suite.
//!
//! A name stands here when the behaviour holds with both data planes; who adds a behaviour adds its name. Addresses
//! that are asked for and what appears on objects around a fleet are things of a cluster.

use crate::settings::Platform;

/// A feature, and where it is to be had.
struct Feature {
    name: &'static str,
    /// The one platform that has it; none if each has.
    only: Option<Platform>,
}

const fn everywhere(name: &'static str) -> Feature {
    Feature { name, only: None }
}

const fn cluster(name: &'static str) -> Feature {
    Feature {
        name,
        only: Some(Platform::Cluster),
    }
}

/// All features, sorted by name.
const FEATURES: &[Feature] = &[
    everywhere("BackendTLSPolicy"),
    everywhere("BackendTLSPolicySANValidation"),
    everywhere("ClusterTrustBundle"),
    everywhere("GRPCRoute"),
    everywhere("GRPCRouteNamedRouteRule"),
    everywhere("GRPCRouteRequestHeaderModifier"),
    everywhere("Gateway"),
    cluster("GatewayAddressEmpty"),
    everywhere("GatewayBackendClientCertificate"),
    everywhere("GatewayFrontendClientCertificateValidation"),
    everywhere("GatewayFrontendClientCertificateValidationInsecureFallback"),
    everywhere("GatewayHTTPListenerIsolation"),
    everywhere("GatewayHTTPSListenerDetectMisdirectedRequests"),
    cluster("GatewayInfrastructure"),
    everywhere("GatewayPort8080"),
    everywhere("GatewayRouteHostnameIntersectionPrecedence"),
    cluster("GatewayStaticAddresses"),
    everywhere("HTTPRoute"),
    everywhere("HTTPRoute303RedirectStatusCode"),
    everywhere("HTTPRoute307RedirectStatusCode"),
    everywhere("HTTPRoute308RedirectStatusCode"),
    everywhere("HTTPRouteBackendProtocolH2C"),
    everywhere("HTTPRouteBackendProtocolWebSocket"),
    everywhere("HTTPRouteBackendRequestHeaderModification"),
    everywhere("HTTPRouteBackendTimeout"),
    everywhere("HTTPRouteBackendURLRewrite"),
    everywhere("HTTPRouteCORS"),
    everywhere("HTTPRouteDestinationPortMatching"),
    everywhere("HTTPRouteHostRewrite"),
    everywhere("HTTPRouteMethodMatching"),
    everywhere("HTTPRouteNamedRouteRule"),
    everywhere("HTTPRouteParentRefPort"),
    everywhere("HTTPRoutePathRedirect"),
    everywhere("HTTPRoutePathRewrite"),
    everywhere("HTTPRoutePortRedirect"),
    everywhere("HTTPRouteQueryParamMatching"),
    everywhere("HTTPRouteRequestMirror"),
    everywhere("HTTPRouteRequestMultipleMirrors"),
    everywhere("HTTPRouteRequestPercentageMirror"),
    everywhere("HTTPRouteRequestTimeout"),
    everywhere("HTTPRouteResponseHeaderModification"),
    everywhere("HTTPRouteRetryCodes"),
    everywhere("HTTPRouteRetryConnectionError"),
    everywhere("HTTPRouteSchemeRedirect"),
    everywhere("ListenerSet"),
    everywhere("ReferenceGrant"),
    everywhere("TCPRoute"),
    everywhere("TLSRoute"),
    everywhere("TLSRouteModeMixed"),
    everywhere("TLSRouteModeTerminate"),
    everywhere("UDPRoute"),
];

/// What is supported on a platform, sorted (GatewayClass `status.supportedFeatures`: at most 64).
pub(super) fn supported(platform: Platform) -> Vec<&'static str> {
    let here = FEATURES.iter().filter(|f| f.only.is_none_or(|only| only == platform));
    here.map(|feature| feature.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_one_that_the_api_takes() {
        let all = supported(Platform::Cluster);
        assert!(all.is_sorted_by(|a, b| a < b), "sorted, and no name twice");
        assert!(all.len() <= 64);
        assert!(supported(Platform::Host).len() < all.len());
    }
}
