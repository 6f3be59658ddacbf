use super::*;

#[test]
fn timestamps_are_seconds_since_the_epoch() {
    let good = [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("2000-02-29T12:00:00Z", 951_825_600),
        ("2024-01-01T00:00:00Z", 1_704_067_200),
        ("2024-01-01T01:00:00+01:00", 1_704_067_200),
        ("2023-12-31T23:00:00-01:00", 1_704_067_200),
        ("2024-01-01T00:00:00.999Z", 1_704_067_200),
    ];
    for (text, seconds) in good {
        assert_eq!(Timestamp::parse(text), Some(Timestamp(seconds)), "{text}");
    }
    let bad = [
        "",
        "2024",
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00+1:00",
        "2024-01-01T00:00:00Zx",
        "yyyy-01-01T00:00:00Z",
    ];
    for text in bad {
        assert_eq!(Timestamp::parse(text), None, "{text}");
    }
}

#[test]
fn timestamps_print_as_they_are_read() {
    for seconds in [
        -86_401,
        -1,
        0,
        951_782_399,
        951_782_400,
        951_868_800,
        1_704_067_200,
        4_102_444_799,
    ] {
        let text = Timestamp(seconds).to_string();
        assert_eq!(Timestamp::parse(&text), Some(Timestamp(seconds)), "{text}");
    }
    assert_eq!(Timestamp(1_704_067_200).to_string(), "2024-01-01T00:00:00Z");
}

fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelSelector {
    let values = values.iter().map(|v| (*v).into()).collect();
    let requirement = LabelRequirement {
        key: key.into(),
        operator,
        values,
    };
    LabelSelector {
        match_labels: StringMap::new(),
        match_expressions: Box::new([requirement]),
    }
}

#[test]
fn selectors_match_as_in_the_cluster() {
    let labels = StringMap::from([("env".into(), "prod".into())]);
    assert_eq!(LabelSelector::default().matches(&labels), Some(true));
    let by_label = |value: &str| LabelSelector {
        match_labels: StringMap::from([("env".into(), value.into())]),
        match_expressions: Box::default(),
    };
    assert_eq!(by_label("prod").matches(&labels), Some(true));
    assert_eq!(by_label("test").matches(&labels), Some(false));
    let cases = [
        (requirement("env", LabelOperator::In, &["prod", "test"]), Some(true)),
        (requirement("env", LabelOperator::In, &["test"]), Some(false)),
        (requirement("env", LabelOperator::NotIn, &["test"]), Some(true)),
        // A label that isn't there is not in any set.
        (requirement("zone", LabelOperator::NotIn, &["a"]), Some(true)),
        (requirement("env", LabelOperator::Exists, &[]), Some(true)),
        (requirement("env", LabelOperator::DoesNotExist, &[]), Some(false)),
        (requirement("env", LabelOperator::Other("Near".into()), &[]), None),
    ];
    for (selector, expected) in cases {
        assert_eq!(selector.matches(&labels), expected, "{selector:?}");
    }
}

#[test]
fn selectors_by_what_no_label_can_be_have_a_fault() {
    use LabelOperator as Op;
    let long = "a".repeat(64);
    for selector in [
        requirement("env", Op::Other("Near".into()), &["a"]),
        requirement("env", Op::In, &[]),
        requirement("env", Op::NotIn, &[]),
        requirement("env", Op::Exists, &["a"]),
        requirement("env", Op::DoesNotExist, &["a"]),
        requirement("env", Op::NotIn, &["a", "b c"]),
        requirement("env", Op::In, &[&long]),
        requirement("-env", Op::DoesNotExist, &[]),
        requirement("A.b/env", Op::Exists, &[]),
        requirement(&long, Op::Exists, &[]),
        requirement("", Op::Exists, &[]),
    ] {
        assert!(selector.fault().is_some(), "{selector:?}");
    }
    for selector in [
        LabelSelector::default(),
        requirement("example.com/Env_1", Op::In, &["", "A.b-c"]),
        requirement("env", Op::NotIn, &["a"]),
        requirement("env", Op::Exists, &[]),
    ] {
        assert_eq!(selector.fault(), None, "{selector:?}");
    }
    let by_label = |key: &str, value: &str| LabelSelector {
        match_labels: StringMap::from([(key.into(), value.into())]),
        match_expressions: Box::default(),
    };
    assert!(by_label("env", "a b").fault().is_some());
    assert!(by_label("a b", "env").fault().is_some());
    assert_eq!(by_label("env", "").fault(), None);
}
