//! Policies for such a world: one of each kind on its Gateway, on each route and on each route's rule `canary`.

use super::Version;
use std::fmt::Write;

/// What policies are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The Gateway: all routes.
    Gateway,
    /// One of the routes.
    Route(usize),
    /// The rule `canary` of one of them.
    Rule(usize),
}

impl Where {
    /// A name for policies there, and their namespace.
    fn name(self) -> (String, String) {
        let namespace = |route: usize| format!("ns-{}", route / 10);
        match self {
            Self::Gateway => ("all".into(), "infra".into()),
            Self::Route(route) => (format!("route-{route}"), namespace(route)),
            Self::Rule(route) => (format!("rule-{route}"), namespace(route)),
        }
    }

    fn target(self) -> String {
        let of_route = |route: usize| format!("group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-{route}");
        match self {
            Self::Gateway => "group: gateway.networking.k8s.io, kind: Gateway, name: gw".into(),
            Self::Route(route) => of_route(route),
            Self::Rule(route) => format!("{}, sectionName: canary", of_route(route)),
        }
    }

    /// A number that differs from place to place, so that no two policies say the same.
    fn number(self) -> usize {
        match self {
            Self::Gateway => 1,
            Self::Route(route) => 2 + 2 * route,
            Self::Rule(route) => 3 + 2 * route,
        }
    }
}

/// Where a world has policies of each kind, and what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On the Gateway alone.
    Gateway,
    /// And on each route and each rule `canary`: all of a kind say the same, as teams do who copy them.
    Alike,
    /// There, and no two say the same.
    Unlike,
}

/// A policy of each kind wherever there are some; of clients' traffic on the Gateway alone.
pub fn policies(routes: usize, spread: Spread) -> String {
    let mut text = String::new();
    let places = (0..routes).flat_map(|route| [Where::Route(route), Where::Rule(route)]);
    let places = places.take(if spread == Spread::Gateway { 0 } else { usize::MAX });
    for place in [Where::Gateway].into_iter().chain(places) {
        let said = match spread {
            Spread::Alike => Where::Gateway,
            Spread::Gateway | Spread::Unlike => place,
        };
        push(&mut text, "BackendTrafficPolicy", place, &traffic(said, Version::First));
        push(&mut text, "SecurityPolicy", place, &security(said));
        push(&mut text, "EdgeExtensionPolicy", place, &extension(said));
    }
    let client = "  timeout: { http: { requestReceivedTimeout: 9s } }\n  path: { disableMergeSlashes: true }\n";
    push(&mut text, "ClientTrafficPolicy", Where::Gateway, client);
    text
}

/// A BackendTrafficPolicy in one of two versions: writing the other one is an edit.
pub fn policy(place: Where, version: Version) -> String {
    let mut text = String::new();
    push(&mut text, "BackendTrafficPolicy", place, &traffic(place, version));
    text
}

fn traffic(place: Where, version: Version) -> String {
    let seconds = match version {
        Version::First => 7,
        Version::Second => 8,
    };
    let number = 1_000 + place.number();
    format!(
        "  timeout: {{ http: {{ requestTimeout: {seconds}s }} }}\n  retry: {{ numRetries: 3 }}\n  \
         circuitBreaker: {{ maxConnections: {number} }}\n"
    )
}

/// A BackendTrafficPolicy and a SecurityPolicy on each route that all say the same, as teams do who copy them.
pub fn alike(routes: usize) -> String {
    let mut text = String::new();
    for place in (0..routes).map(Where::Route) {
        push(&mut text, "BackendTrafficPolicy", place, ALIKE_TRAFFIC);
        push(&mut text, "SecurityPolicy", place, ALIKE_SECURITY);
    }
    text
}

const ALIKE_TRAFFIC: &str = "  timeout:
    http:
      requestTimeout: 5s
  retry:
    numRetries: 3
    retryOn:
      triggers:
      - connect-failure
  loadBalancer:
    type: RoundRobin
  circuitBreaker:
    maxConnections: 1000
";

const ALIKE_SECURITY: &str = "  cors:
    allowOrigins:
    - https://www.example.com
    allowMethods:
    - GET
    - POST
    maxAge: 10m
  authorization:
    defaultAction: Deny
    rules:
    - action: Allow
      principal:
        clientCIDRs:
        - 10.0.0.0/8
";

fn security(place: Where) -> String {
    let third = place.number() % 250;
    format!(
        "  cors: {{ allowOrigins: ['https://o{}.example.com'], allowMethods: [GET] }}\n  authorization:\n    \
         defaultAction: Deny\n    rules: [{{ action: Allow, principal: {{ clientCIDRs: [10.0.{third}.0/24] }} }}]\n",
        place.number()
    )
}

fn extension(place: Where) -> String {
    format!(
        "  lua: [{{ type: Inline, inline: \"function envoy_on_response(h) h:headers():add('x-n', '{}') end\" }}]\n",
        place.number()
    )
}

fn push(text: &mut String, kind: &str, place: Where, spec: &str) {
    let (name, namespace) = place.name();
    // Writing to a String can't fail.
    let _ = write!(
        text,
        "---\napiVersion: gateway.edge/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  \
         targetRefs: [{{ {} }}]\n{spec}",
        place.target()
    );
}
