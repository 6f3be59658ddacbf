//! What went wrong with a request, in Envoy's words.

/// What went wrong with a request, as Envoy's response flags, in the order in which it became known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// A bit for each.
    set: u32,
    /// Their places in the list of names and 1, five bits each; the first one lowest. More than fit go untold.
    order: u64,
}

/// How many flags are told.
const TOLD: u32 = 12;

impl Flags {
    /// Short and long names.
    const NAMES: [(&'static str, &'static str); 30] = [
        ("LH", "FailedLocalHealthCheck"),
        ("UH", "NoHealthyUpstream"),
        ("UT", "UpstreamRequestTimeout"),
        ("LR", "LocalReset"),
        ("UR", "UpstreamRemoteReset"),
        ("UF", "UpstreamConnectionFailure"),
        ("UC", "UpstreamConnectionTermination"),
        ("UO", "UpstreamOverflow"),
        ("NR", "NoRouteFound"),
        ("DI", "DelayInjected"),
        ("FI", "FaultInjected"),
        ("RL", "RateLimited"),
        ("UAEX", "UnauthorizedExternalService"),
        ("RLSE", "RateLimitServiceError"),
        ("DC", "DownstreamConnectionTermination"),
        ("URX", "UpstreamRetryLimitExceeded"),
        ("SI", "StreamIdleTimeout"),
        ("IH", "InvalidEnvoyRequestHeaders"),
        ("DPE", "DownstreamProtocolError"),
        ("UMSDR", "UpstreamMaxStreamDurationReached"),
        ("RFCF", "ResponseFromCacheFilter"),
        ("NFCF", "NoFilterConfigFound"),
        ("DT", "DurationTimeout"),
        ("UPE", "UpstreamProtocolError"),
        ("NC", "NoClusterFound"),
        ("OM", "OverloadManagerTerminated"),
        ("DF", "DnsResolutionFailed"),
        ("DO", "DropOverload"),
        ("DR", "DownstreamRemoteReset"),
        ("UDO", "UnconditionalDropOverload"),
    ];

    /// The flag with this short name.
    pub fn named(short: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|(name, _)| *name == short)?;
        let mut flags = Self::default();
        flags.put(at);
        Some(flags)
    }

    fn put(&mut self, at: usize) {
        let told = self.set.count_ones();
        if self.set & (1 << at) == 0 && told < TOLD {
            self.order |= (at as u64 + 1) << (5 * told);
        }
        self.set |= 1 << at;
    }

    /// These and those.
    pub fn add(&mut self, others: Self) {
        others.places().for_each(|at| self.put(at));
        self.set |= others.set;
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.set == 0
    }

    /// Whether any of these is there too.
    pub fn meets(self, others: Self) -> bool {
        self.set & others.set != 0
    }

    fn places(self) -> impl Iterator<Item = usize> {
        let all = (0..TOLD).map(move |told| (self.order >> (5 * told)) as usize & 31);
        all.take_while(|place| *place > 0).map(|place| place - 1)
    }

    /// The names of those that are set, short and long.
    pub fn names(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.places().filter_map(|at| Self::NAMES.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_in_the_order_in_which_they_came() {
        let mut flags = Flags::default();
        for name in ["URX", "UF", "URX", "UDO", "LH"] {
            flags.add(Flags::named(name).unwrap());
        }
        let names: Vec<_> = flags.names().map(|(short, _)| short).collect();
        assert_eq!(names, ["URX", "UF", "UDO", "LH"]);
        assert!(flags.meets(Flags::named("LH").unwrap()) && !flags.meets(Flags::named("UT").unwrap()));
    }

    #[test]
    fn a_filter_may_name_them_all_but_a_record_has_few() {
        let mut all = Flags::default();
        for (name, _) in Flags::NAMES {
            all.add(Flags::named(name).unwrap());
        }
        let is_in = |(name, _): &(&str, &str)| all.meets(Flags::named(name).unwrap());
        assert!(Flags::NAMES.iter().all(is_in));
        assert_eq!(all.names().count(), TOLD as usize);
    }
}
