//! The kinds whose statuses can be shown, and what they may be called on the command line.

/// Where a kind keeps its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// In the status itself, and it belongs to no namespace.
    Class,
    /// In the status itself.
    Gateway,
    /// For each parent.
    Route,
    /// For each ancestor.
    Policy,
}

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As it stands in objects.
    pub name: &'static str,
    /// What else it may be called.
    short: &'static [&'static str],
    /// Where it keeps its conditions.
    pub family: Family,
}

impl Kind {
    /// Its API group.
    pub fn group(&self) -> &'static str {
        let known = edge_translate::api::Kind::ALL
            .iter()
            .find(|known| known.as_str() == self.name);
        known.map_or("", |known| known.group())
    }

    /// Whether its objects belong to namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.family != Family::Class
    }

    /// The column that says for whom a condition holds.
    pub fn reference_column(&self) -> Option<&'static str> {
        match self.family {
            Family::Class | Family::Gateway => None,
            Family::Route => Some("PARENT"),
            Family::Policy => Some("ANCESTOR REFERENCE"),
        }
    }
}

/// In the order in which they are shown.
pub static KINDS: [Kind; 13] = [
    kind("GatewayClass", &["gc"], Family::Class),
    kind("Gateway", &["gtw"], Family::Gateway),
    kind("HTTPRoute", &[], Family::Route),
    kind("GRPCRoute", &[], Family::Route),
    kind("TLSRoute", &[], Family::Route),
    kind("TCPRoute", &[], Family::Route),
    kind("UDPRoute", &[], Family::Route),
    kind("BackendTLSPolicy", &["btlspolicy"], Family::Policy),
    kind("BackendTrafficPolicy", &["btp"], Family::Policy),
    kind("ClientTrafficPolicy", &["ctp"], Family::Policy),
    kind("EdgePatchPolicy", &["epp", "EnvoyPatchPolicy"], Family::Policy),
    kind("EdgeExtensionPolicy", &["eep"], Family::Policy),
    kind("SecurityPolicy", &["sp"], Family::Policy),
];

const fn kind(name: &'static str, short: &'static [&'static str], family: Family) -> Kind {
    Kind { name, short, family }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every kind.
    All,
    /// Every kind of route.
    Routes,
    /// Every kind of policy.
    Policies,
    /// One kind.
    One(&'static Kind),
}

impl Selection {
    /// The kinds, in the order in which they are shown.
    pub fn kinds(self) -> Vec<&'static Kind> {
        let of = |family| KINDS.iter().filter(|kind| kind.family == family).collect();
        match self {
            Self::All => KINDS.iter().collect(),
            Self::Routes => of(Family::Route),
            Self::Policies => of(Family::Policy),
            Self::One(kind) => vec![kind],
        }
    }
}

/// Reads what was asked for; case doesn't matter.
pub fn select(text: &str) -> Result<Selection, String> {
    let is = |name: &str| name.eq_ignore_ascii_case(text);
    for (name, selection) in [
        ("all", Selection::All),
        ("xRoute", Selection::Routes),
        ("xPolicy", Selection::Policies),
    ] {
        if is(name) {
            return Ok(selection);
        }
    }
    let found = KINDS
        .iter()
        .find(|kind| is(kind.name) || kind.short.iter().any(|short| is(short)));
    found.map(Selection::One).ok_or_else(|| {
        let names: Vec<String> = KINDS.iter().map(names).collect();
        format!("there are all, xRoute, xPolicy, {}", names.join(", "))
    })
}

fn names(kind: &Kind) -> String {
    match kind.short.first() {
        Some(short) => format!("{} ({short})", kind.name),
        None => kind.name.to_owned(),
    }
}
