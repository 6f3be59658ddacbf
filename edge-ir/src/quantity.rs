//! Amounts of resources as Kubernetes writes them, such as `512Mi`.

use crate::ClusterSettings;
use serde_json::Value;

impl ClusterSettings {
    /// The most memory that a fleet's proxies may take, in bytes, if there is a limit.
    pub fn memory_limit(&self) -> Option<u64> {
        let resources = self.workload.container.resources.as_ref()?;
        match resources.get("limits")?.get("memory")? {
            Value::String(text) => bytes(text),
            Value::Number(number) => number.as_u64(),
            _ => None,
        }
        .filter(|bytes| *bytes > 0)
    }
}

/// Suffixes and what they multiply by: powers of two, then of ten.
const UNITS: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// A quantity in whole units; what is below one is cut off.
fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(suffix, _)| text.ends_with(suffix));
    let (number, unit) = match unit {
        Some((suffix, unit)) => (text.strip_suffix(suffix)?, *unit),
        None => match text.strip_suffix('m') {
            Some(thousandths) => return Some(decimal(thousandths)? as u64 / 1000),
            None => (text, 1),
        },
    };
    match number.parse::<u64>() {
        Ok(number) => number.checked_mul(unit),
        // Fractions and powers of ten (`1.5Gi`, `1e9`) are exact enough for a share of them.
        Err(_) => Some((decimal(number)? * unit as f64) as u64),
    }
}

fn decimal(text: &str) -> Option<f64> {
    text.parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn quantities_are_read_as_the_cluster_reads_them() {
        for (text, wanted) in [
            ("1Gi", Some(1 << 30)),
            ("512Mi", Some(512 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("1000000", Some(1_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("2G", Some(2_000_000_000)),
            ("1500m", Some(1)),
            ("much", None),
            ("-1", None),
            ("99999999Ei", None),
        ] {
            assert_eq!(bytes(text), wanted, "{text}");
        }
    }
}
