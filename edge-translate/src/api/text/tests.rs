use std::time::Duration;

use super::*;
use crate::api::MatchType;

#[test]
fn a_fraction_is_taken_where_it_is_asked_for() {
    for (text, millis) in [
        ("0.2s", 200),
        ("1.5h", 5_400_000),
        ("0.50s", 500),
        ("2.5ms", 2),
        ("1h30m", 5_400_000),
    ] {
        let read = DurationText::from(text).parse_with_fraction();
        assert_eq!(read, Ok(Duration::from_millis(millis)), "{text:?}");
    }
    for text in ["", ".5s", "1.s", "1.5", "1.5d", "1.5s1m", "-1.5s", "1.123456s", "1..5s"] {
        assert!(DurationText::from(text).parse_with_fraction().is_err(), "{text:?}");
    }
}

#[test]
fn durations_follow_the_grammar() {
    let good = [
        ("0s", 0),
        ("10ms", 10),
        ("1s", 1000),
        ("1m", 60_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("1h1m1s1ms", 3_661_001),
        ("1s1s", 2000),
        ("99999h", 359_996_400_000),
    ];
    for (text, millis) in good {
        assert_eq!(
            DurationText::from(text).parse(),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    for text in [
        "",
        "1",
        "s",
        "1.5s",
        "-1s",
        "100000s",
        "1s1s1s1s1s",
        "1us",
        "1 s",
        "1d",
        "1S",
    ] {
        assert!(DurationText::from(text).parse().is_err(), "{text:?}");
    }
}

#[test]
fn quantities_follow_the_cluster() {
    let good = [
        ("0", 0),
        ("32768", 32_768),
        ("1k", 1000),
        ("64Ki", 65_536),
        ("1.5Ki", 1536),
        ("1M", 1_000_000),
        ("1Gi", 1 << 30),
        ("1E", 1_000_000_000_000_000_000),
        ("500m", 1),
        ("1500m", 2),
    ];
    for (text, amount) in good {
        assert_eq!(Quantity::from(text).parse(), Ok(amount), "{text}");
    }
    for text in ["", "Ki", "1K", "1KiB", "-1", ".", "1.2.3", "32Ei", "1e3x"] {
        assert!(Quantity::from(text).parse().is_err(), "{text:?}");
    }
}

#[test]
fn hostnames_are_exact_or_wildcard() {
    assert_eq!(
        Hostname::parse("www.example.com"),
        Ok(Hostname::Exact("www.example.com"))
    );
    assert_eq!(Hostname::parse("*.example.com"), Ok(Hostname::Wildcard("example.com")));
    assert_eq!(Hostname::parse("a"), Ok(Hostname::Exact("a")));
    for text in [
        "",
        "*",
        "*.",
        "www.*.com",
        "*.*.com",
        "Www.example.com",
        "a..b",
        "-a",
        "a-",
        ".a",
        "a.",
        "a_b",
    ] {
        assert!(Hostname::parse(text).is_err(), "{text:?}");
    }
    assert!(Hostname::parse(&"a.".repeat(126)).is_err());
    assert!(Hostname::parse(&format!("{}a", "a.".repeat(126))).is_ok());
}

#[test]
fn section_names_are_dns_subdomains() {
    for text in ["http", "a.b", "x-1", "1"] {
        assert_eq!(check_section_name(text), Ok(()), "{text}");
    }
    for text in ["", "A", "a_b", "-a", &"a".repeat(254)] {
        assert!(check_section_name(text).is_err(), "{text}");
    }
}

#[test]
fn open_enums_keep_what_they_do_not_know() {
    assert_eq!(MatchType::default(), MatchType::Exact);
    assert_eq!(MatchType::from("RegularExpression"), MatchType::RegularExpression);
    let odd: MatchType = serde_json::from_str("\"Fuzzy\"").unwrap();
    assert_eq!(odd, MatchType::Other("Fuzzy".into()));
    assert_eq!(serde_json::to_string(&odd).unwrap(), "\"Fuzzy\"");
    assert_eq!(MatchType::KNOWN, ["Exact", "RegularExpression"]);
}

#[test]
fn symbols_of_common_words_cost_no_allocation() {
    let places = |word: &str| [Symbol::from(word), Symbol::from(word)].map(|symbol| symbol.as_ptr());
    let [first, second] = places("gateway.networking.k8s.io");
    assert_eq!(first, second, "a common word is allocated");
    assert_eq!(Symbol::from("Strange"), "Strange");
}

#[test]
fn quantities_and_ports_may_be_numbers_or_text() {
    assert_eq!(serde_json::from_str::<Quantity>("32768").unwrap().as_str(), "32768");
    assert_eq!(serde_json::from_str::<Quantity>("\"1Mi\"").unwrap().as_str(), "1Mi");
    assert_eq!(serde_json::from_str::<IntOrText>("80").unwrap(), IntOrText::Int(80));
    assert_eq!(
        serde_json::from_str::<IntOrText>("\"http\"").unwrap(),
        IntOrText::Text("http".into())
    );
}
