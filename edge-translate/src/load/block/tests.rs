use proptest::prelude::{Just, Strategy, prop, prop_oneof, proptest};

use super::*;
use crate::load::general;

/// What the two readers make of a text.
fn both(text: &str) -> (Option<Vec<Node<'_>>>, Option<Vec<Node<'_>>>) {
    let limits = Limits::default();
    (read(text, 0, &limits), general::read(text, 0, &limits).ok())
}

fn bare(nodes: &[Node<'_>]) -> Vec<String> {
    nodes.iter().map(|node| node.to_value().to_string()).collect()
}

#[test]
fn the_common_forms_are_read_here() {
    let texts = [
        "a: b\n",
        "---\na: b\n",
        "# c\n\na: b # d\n# e\n",
        "a:\n  b: 1\n  c:\n  - x\n  - y: 1\n    z: 2\n  -\n    w: 3\n  - - 1\n    - 2\nd:\n- 1\n",
        "a:\nb:\n",
        "- a\n- b: c\n-\n- d\n",
        "\"a b\": 'it''s'\n",
        "a: \"x\\n\\u00e9\\t\\\"\" # c\n",
        "a: {b: 1, c: [x, y, {d: e}], \"f\":2,}\nb: []\n",
        "a: [\n  1,\n  2 # c\n]\nb: 1\n",
        "a: |\n  one\n   two\n\n  three\n\n\nb: 1\n",
        "a: |-\n  one\nb: |+\n  two\n\n",
        "a: http://x:80/#f\nb: a#b\nc: -x\n",
        "a: b\r\nc:\r\n- d\r\n",
        "8080: x\non: y\n",
        "x",
    ];
    for text in texts {
        let (fast, general) = both(text);
        assert_eq!(fast.as_deref().map(bare), general.as_deref().map(bare), "{text:?}");
        assert!(fast.is_some(), "{text:?}");
    }
}

#[test]
fn everything_else_is_left_to_the_general_reader() {
    let texts = [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: >\n  folded\n",
        "a: one\n  two\n",
        "a: \"one\n  two\"\n",
        "a: |2\n    x\n",
        "? a\n: b\n",
        "<<: {a: b}\n",
        "a: b: c\n",
        "a: 1\na: 2\n",
        "a:\n  b: 1\n c: 2\n",
        "a: 'x' y\n",
        "\ta: b\n",
        "a: [1\n",
        "a: b\n- c\n",
    ];
    for text in texts {
        assert_eq!(both(text).0, None, "{text:?}");
    }
}

#[test]
fn places_are_the_same_in_both_readers() {
    let text = "a: b\nc:\n  - d: [e, {f: g}]\n    'h': \"i\"\n";
    let (fast, general) = both(text);
    assert_eq!(fast, general);
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9.~+-][a-zA-Z0-9._ :#/@,-]{0,6}",
        "\"([a-z :#{}\\[\\],]|\\\\n|\\\\\"){0,6}\"",
        "'([a-z :#{}\"]|''){0,6}'",
        Just("yes".to_owned()),
        Just("0777".to_owned()),
        Just(String::new()),
        Just("{}".to_owned()),
        Just("[a, 'b']".to_owned()),
        Just("{a: 1, \"b\":2}".to_owned()),
        Just("|".to_owned()),
        Just("|-".to_owned()),
    ]
}

/// Lines of a text that is often valid and sometimes not.
fn document() -> impl Strategy<Value = String> {
    let line = (
        0_usize..4,
        prop_oneof![Just(""), Just("- "), Just("- - ")],
        "([a-d]: ?)?",
        scalar(),
        "( #[a-z ]{0,3})?",
    );
    prop::collection::vec(line, 0..8).prop_map(|lines| {
        lines
            .into_iter()
            .map(|(depth, dash, key, value, comment)| format!("{}{dash}{key}{value}{comment}\n", "  ".repeat(depth)))
            .collect()
    })
}

proptest! {
    /// Whatever this reader accepts, the general one accepts with the same result; JSON texts one after the other and a
    /// bare DEL between quotes are what only this reader knows.
    #[test]
    fn never_reads_differently(text in document()) {
        let (fast, general) = both(&text);
        if let Some(fast) = fast && fast.len() < 2 {
            let general = general.map(|nodes| bare(&nodes));
            proptest::prop_assert_eq!(Some(bare(&fast)), general);
        }
    }
}
