//! What is refused, and by which name.

use super::*;

/// Everything can be known.
struct Everything;

impl Site for Everything {
    fn place(&mut self, _: Message, _: &FieldName) -> Option<usize> {
        Some(0)
    }

    fn tells(&self, _: Attribute) -> bool {
        true
    }

    fn takes_computed_names(&self) -> bool {
        true
    }

    fn tells_metadata(&self) -> bool {
        true
    }
}

fn compiled(text: &str) -> Result<Expression, Rejection> {
    let at = At::root();
    let tree = parse(&at, text)?;
    expression(&at, &tree, Texts::default(), &mut Everything)
}

#[test]
fn what_cannot_be_told_as_envoy_does_is_refused_by_name() {
    for (text, named) in [
        ("connection.tls_version == 'TLSv1.3'", "connection.tls_version"),
        ("filter_state['a'] == 'b'", "filter_state.a"),
        ("request == request", "request"),
        ("size(request.headers) > 1", "request.headers"),
        ("request[request.path] == 'a'", "must be constants"),
        ("nobody.knows == 1", "nobody"),
        ("nobody(1)", "function nobody"),
        ("string(1) == '1'", "function string"),
        ("'A'.lowerAscii() == 'a'", "function lowerAscii"),
        ("type(1) == type(2)", "function type"),
        (
            "timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') == 1",
            "function getHours",
        ),
        ("[1].exists(n, n == 1)", "no loops"),
        ("request.path.matches(request.query)", "must be a constant"),
        ("request.path.matches('(')", "regular expression"),
        ("1 +", "not an expression"),
        (&"a".repeat(5000), "longer than"),
        (&format!("{}1 == 1", "1 + ".repeat(70)), "nested deeper"),
    ] {
        let rejection = compiled(text).unwrap_err().to_string();
        assert!(rejection.contains(named), "{text}: {rejection}");
    }
    for text in [
        "request.size > 1",
        "request.headers[request.path] == 'a'",
        "metadata.filter_metadata.a.b == 1",
    ] {
        assert!(compiled(text).is_ok(), "{text}");
    }
}
