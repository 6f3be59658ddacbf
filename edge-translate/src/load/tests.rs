use proptest::prelude::{Just, Strategy, prop, prop_oneof, proptest};

use super::*;
use crate::api::Kind;

fn load_text(text: &str) -> Loaded {
    load(&Source { name: "f.yaml", text }, &Limits::default())
}

fn lines(loaded: &Loaded) -> Vec<String> {
    loaded.findings.iter().map(ToString::to_string).collect()
}

fn keys(loaded: &Loaded) -> Vec<String> {
    loaded
        .objects
        .iter()
        .map(|loaded| loaded.object.key().to_string())
        .collect()
}

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")
}

#[test]
fn an_object_tells_its_line() {
    let loaded = load_text(&format!(
        "# one\n---\n{}---\n\n# two\n{}",
        namespace("a"),
        namespace("b")
    ));
    assert_eq!(keys(&loaded), ["Namespace/a", "Namespace/b"]);
    assert_eq!(loaded.objects.iter().map(|o| o.line).collect::<Vec<_>>(), [3, 10]);
    assert_eq!(lines(&loaded), [""; 0]);
}

#[test]
fn empty_texts_hold_nothing() {
    for text in [
        "",
        "\n",
        "---\n",
        "# only a comment\n",
        "---\n---\n...\n",
        "\u{feff}",
        "---\r\n# x\r\n",
        "{}",
        "null\n",
    ] {
        let loaded = load_text(text);
        assert!(
            loaded.objects.is_empty() && loaded.findings.is_empty(),
            "{text:?}: {:?}",
            loaded.findings
        );
    }
}

#[test]
fn a_broken_document_costs_no_other() {
    let broken = [
        ("a: [1\n", "f.yaml:"),
        ("\ta: b\n", "f.yaml:6:"),
        ("a: 'open\n", "f.yaml:"),
        ("a: b: c\n", "f.yaml:6:"),
        ("just text\n", "f.yaml:6:1: error: a document must be one resource"),
        ("- 1\n", "f.yaml:6:1: error: a document must be one resource"),
        ("%FOO\n", "f.yaml:"),
    ];
    for (document, message) in broken {
        let loaded = load_text(&format!("{}---\n{document}---\n{}", namespace("a"), namespace("b")));
        assert_eq!(keys(&loaded), ["Namespace/a", "Namespace/b"], "{document}");
        assert_eq!(loaded.findings.len(), 1, "{document}: {:?}", lines(&loaded));
        assert!(
            lines(&loaded)[0].starts_with(message),
            "{document}: {:?}",
            lines(&loaded)
        );
    }
}

#[test]
fn markers_inside_texts_do_not_split() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |\n    ---\n    x\n  b: \"--- y\"\n  ---: z\n";
    let loaded = load_text(text);
    let Some(Object::ConfigMap(map)) = loaded.objects.first().map(|o| &o.object) else {
        panic!("{loaded:?}")
    };
    assert_eq!(map.data.get("a"), Some("---\nx\n"));
    assert_eq!(map.data.get("---"), Some("z"));
}

#[test]
fn wrong_types_name_path_and_place() {
    let text = "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  ports:\n  - port: 80\n  - port: \"81\"\n";
    assert_eq!(
        lines(&load_text(text)),
        [
            "f.yaml:8:11: error: Service/default/s: spec.ports[1].port: found the string \"81\", but this must be a number \
          from 0 to 65535: take the quotes away"
        ]
    );
    let cases = [
        (
            "spec: []",
            "4:7: error: Service/default/s: spec: found a list, but this must be a mapping",
        ),
        (
            "spec: {ports: {}}",
            "4:15: error: Service/default/s: spec.ports: found a mapping, but this must be a list",
        ),
        (
            "spec: {ports: [{port: 99999}]}",
            "spec.ports[0].port: found the number 99999",
        ),
        (
            "spec: {ports: [{name: a}]}",
            "4:16: error: Service/default/s: spec.ports[0]: the field `port` is missing",
        ),
    ];
    for (spec, expected) in cases {
        let loaded = load_text(&format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n{spec}\n"
        ));
        assert!(loaded.objects.is_empty(), "{spec}");
        assert!(lines(&loaded)[0].contains(expected), "{spec}: {:?}", lines(&loaded));
    }
    let loaded = load_text(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s}\naddressType: IPv4\n\
         endpoints: [{addresses: [10.0.0.1], conditions: {ready: 1}}]\n",
    );
    assert!(
        lines(&loaded)[0].contains("but this must be true or false"),
        "{:?}",
        lines(&loaded)
    );
}

#[test]
fn templates_that_were_not_rendered_are_told_as_such() {
    for document in [
        "kind: {{ .Values.kind }}\n",
        "metadata:\n  name: {{ include \"x\" . }}\n",
        "{{- if .Values.on }}\nkind: Service\n{{- end }}\n",
        "spec:\n  ports:\n  {{- range .Values.ports }}\n  - port: {{ . }}\n  {{- end }}\n",
    ] {
        let loaded = load_text(&format!("{}---\n{document}", namespace("a")));
        assert_eq!(keys(&loaded), ["Namespace/a"], "{document}");
        let found = lines(&loaded);
        assert!(
            found.len() == 1 && found[0].contains("error: this looks like a template that was not rendered: "),
            "{document}: {found:?}"
        );
    }
    let quoted = load_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '{{ b }}'}\n");
    assert_eq!(lines(&quoted), [""; 0]);
}

#[test]
fn columns_count_characters() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: {a: \"äö\"}, nmae: x}\n";
    assert_eq!(
        lines(&load_text(text)),
        [
            "f.yaml:3:45: warning: Service/default/s: metadata.nmae: Service has no such field, it is ignored: did you \
          mean `name`?"
        ]
    );
}

#[test]
fn fields_nobody_reads_are_no_news() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: s, uid: x, managedFields: [{}]}\n\
                spec: {sessionAffinity: None}\nstatus: {loadBalancer: {}}\n";
    assert_eq!(lines(&load_text(text)), [""; 0]);
}

#[test]
fn numbers_for_text_are_taken_with_a_warning_and_booleans_are_not() {
    let loaded = load_text("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: 12\n");
    assert_eq!(keys(&loaded), ["Namespace/12"]);
    assert_eq!(
        lines(&loaded),
        ["f.yaml:4:9: warning: Namespace/12: metadata.name: this is read as text: put it in quotes"]
    );
    let loaded = load_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {a: yes}}\n");
    assert_eq!(
        lines(&loaded),
        [
            "f.yaml:3:33: error: Namespace/a: metadata.labels.a: found the boolean true, but this must be a string: put \
          it in quotes"
        ]
    );
}

#[test]
fn every_resource_needs_kind_version_and_name() {
    let cases = [
        ("kind: Service\n", "1:1: error: the field `apiVersion` is missing"),
        ("apiVersion: v1\n", "1:1: error: the field `kind` is missing"),
        ("apiVersion: v1\nkind: 7\n", "2:7: error: kind must be a string"),
        (
            "apiVersion: v1\nkind: Service\n",
            "1:1: error: the field `metadata.name` is missing",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {namespace: a}\n",
            "the field `metadata.name` is missing",
        ),
    ];
    for (text, expected) in cases {
        let loaded = load_text(text);
        assert!(loaded.objects.is_empty(), "{text}");
        assert!(lines(&loaded)[0].contains(expected), "{text}: {:?}", lines(&loaded));
    }
}

#[test]
fn unknown_kinds_are_named() {
    let cases = [
        (
            "example.com/v1",
            "Thing",
            "2:7: warning: kind Thing of example.com/v1 is not known and is left out",
        ),
        (
            "gateway.networking.k8s.io/v1",
            "HttpRoute",
            "2:7: error: HTTPRoute/default/x: kind HttpRoute of gateway.networking.k8s.io/v1 is not known: did you mean kind \
             HTTPRoute of gateway.networking.k8s.io/v1? As it is, it is not taken",
        ),
        (
            "gateway.networking.k8s/v1",
            "Gateway",
            "error: Gateway/default/x: kind Gateway of gateway.networking.k8s/v1 is not known: did you mean kind Gateway of",
        ),
        (
            "gateway.edge/v1alpha1",
            "SecurityPolcy",
            "error: SecurityPolicy/default/x: kind SecurityPolcy",
        ),
        (
            "gateway.networking.k8s.io/v1",
            "HTTPRoutes",
            "error: HTTPRoute/default/x",
        ),
        (
            "networking.k8s.io/v1",
            "HTTPRoute",
            "warning: kind HTTPRoute of networking.k8s.io/v1 is not known and is left out: did you mean kind HTTPRoute of \
             gateway.networking.k8s.io/v1?",
        ),
        ("networking.istio.io/v1", "Gateway", "2:7: warning: kind Gateway of"),
        (
            "gateway.networking.k8s.io/v1",
            "SecurityPolicy",
            "error: SecurityPolicy/default/x: kind SecurityPolicy of gateway.networking.k8s.io/v1 is not known: did you mean kind \
             SecurityPolicy of gateway.edge/v1alpha1?",
        ),
        ("gateway.edge", "SecurityPolicy", "error: SecurityPolicy/default/x: "),
        ("v1", "SecurityPolicy", "error: SecurityPolicy/default/x: "),
        (
            "edge.gateway/v1alpha1",
            "SecurityPolicy",
            "error: SecurityPolicy/default/x: ",
        ),
        (
            "security.gateway.edge/v1",
            "SecurityPolicy",
            "error: SecurityPolicy/default/x: ",
        ),
        (
            "gateway.envoyproxy.io/v1",
            "SecurityPolicy",
            "warning: kind SecurityPolicy of",
        ),
        (
            "gateway.edge/v1alpha1",
            "Policy",
            "2:7: error: kind Policy of gateway.edge/v1alpha1 is not known: check apiVersion and kind",
        ),
        ("v2", "Thing", "error: kind Thing of v2 is not known"),
        ("v1", "Pod", "warning: kind Pod of v1 is not known and is left out"),
        (
            "gateway.networking.x-k8s.io/v1alpha1",
            "XBackendTrafficPolicy",
            "2:7: warning",
        ),
        ("apps/v1", "Deployment", "2:7: warning"),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceExport", "2:7: warning"),
        ("gateway.networking.k8s.io/v1alpha2", "BackendLBPolicy", "2:7: warning"),
        ("gateway.edge/v1alpha1", "EdgeGateway", "--config-path"),
    ];
    for (version, kind, expected) in cases {
        let loaded = load_text(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"));
        assert!(loaded.objects.is_empty());
        assert!(lines(&loaded)[0].contains(expected), "{:?}", lines(&loaded));
    }
}

#[test]
fn unknown_versions_of_known_kinds_are_read() {
    let loaded = load_text("apiVersion: gateway.networking.k8s.io/v9\nkind: HTTPRoute\nmetadata: {name: x}\n");
    assert_eq!(keys(&loaded), ["HTTPRoute/default/x"]);
    assert!(lines(&loaded)[0].contains("1:13: warning: HTTPRoute/default/x: HTTPRoute is not known at version v9"));
}

#[test]
fn lists_are_unpacked() {
    let item = |name: &str| format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}");
    let plain = load_text(&format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}\n- {}\n",
        item("a"),
        item("b")
    ));
    assert_eq!(keys(&plain), ["Namespace/a", "Namespace/b"]);
    assert_eq!(plain.objects[1].line, 5);
    let typed = load_text("apiVersion: v1\nkind: NamespaceList\nitems: [{metadata: {name: a}}, {kind: 3}]\n");
    assert_eq!(keys(&typed), ["Namespace/a"]);
    assert_eq!(typed.findings.len(), 1);
    assert!(load_text("apiVersion: v1\nkind: List\nitems: []\n").findings.is_empty());
}

#[test]
fn json_is_read_too_even_one_after_the_other() {
    let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Namespace\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n\
                {\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"\\u0062\"}}";
    let loaded = load_text(text);
    assert_eq!(keys(&loaded), ["Namespace/a", "Namespace/b"], "{:?}", lines(&loaded));
    assert_eq!(loaded.objects[1].line, 6);
}

#[test]
fn a_bare_delete_character_is_text_between_quotes_only() {
    let named = |name: &str| {
        let label = format!("{{a: {name}}}");
        load_text(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: a, annotations: {label}}}}}"
        ))
    };
    for quoted in ["\"x\u{7f}\"", "'x\u{7f}'"] {
        let loaded = named(quoted);
        assert_eq!(
            (keys(&loaded).len(), lines(&loaded).len()),
            (1, 0),
            "{:?}",
            lines(&loaded)
        );
        let annotations = &loaded.objects[0].object.metadata().annotations;
        assert_eq!(annotations.get("a"), Some("x\u{7f}"));
    }
    assert_eq!(named("x\u{7f}").findings.len(), 1, "plain scalars hold none");
}

#[test]
fn the_later_of_two_stays() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n";
    let loaded = load_text(&format!(
        "{text}{text}apiVersion: v1\nkind: Namespace\nmetadata: {{name: a, labels: {{a: b}}}}\n"
    ));
    assert_eq!(keys(&loaded), ["Namespace/a"]);
    assert_eq!(loaded.objects[0].object.metadata().labels.len(), 1);
    assert_eq!(
        lines(&loaded),
        [
            "f.yaml:1:1: warning: Namespace/a: Namespace/a stands at f.yaml:5 too, and that one is used: remove one of them",
            "f.yaml:5:1: warning: Namespace/a: Namespace/a stands at f.yaml:9 too, and that one is used: remove one of them",
        ]
    );
}

#[test]
fn plain_scalars_mean_what_kubectl_says() {
    use crate::load::node::Data::{Bool, Float, Int, Null, Text, UInt};
    let cases = [
        ("yes", Bool(true)),
        ("off", Bool(false)),
        ("Y", Bool(true)),
        ("0777", Int(511)),
        ("0o17", Int(15)),
        ("0x1F", Int(31)),
        ("0b11", Int(3)),
        ("-0x10", Int(-16)),
        // There is one zero.
        ("-0000", Int(0)),
        ("1_000", Int(1000)),
        ("08", Int(8)),
        ("+5", Int(5)),
        ("1e3", Int(1000)),
        ("1.5", Float(1.5)),
        ("18446744073709551615", UInt(u64::MAX)),
        ("-9223372036854775808", Int(i64::MIN)),
        ("~", Null),
        ("", Null),
        ("null", Null),
        ("nulls", Text("nulls".into())),
        ("10.0.0.1", Text("10.0.0.1".into())),
        ("2024-01-01", Text("2024-01-01".into())),
        ("1h", Text("1h".into())),
        ("-", Text("-".into())),
        (".", Text(".".into())),
        ("0x", Text("0x".into())),
        ("::1", Text("::1".into())),
    ];
    for (text, expected) in cases {
        assert_eq!(scalar::resolve(text.into()), expected, "{text}");
    }
}

#[test]
fn aliases_merges_and_tags_are_resolved() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: &l {a: x, b: w}}\n\
                data:\n  <<: *l\n  b: z\n  c: !!str 5\n";
    let loaded = load_text(text);
    let Some(Object::ConfigMap(map)) = loaded.objects.first().map(|o| &o.object) else {
        panic!("{loaded:?}")
    };
    let data: Vec<_> = map.data.iter().collect();
    assert_eq!(data, [("a", "x"), ("b", "z"), ("c", "5")]);
    assert_eq!(lines(&loaded), [""; 0]);
}

#[test]
fn repeated_keys_are_an_error() {
    let loaded = load_text("apiVersion: v1\nkind: Namespace\nkind: Service\nmetadata: {name: a}\n");
    assert_eq!(
        lines(&loaded),
        ["f.yaml:3:1: error: the key `kind` stands here twice: keep one of them"]
    );
}

#[test]
fn bombs_are_refused_before_they_grow() {
    let mut laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in ["ab", "bc", "cd", "de", "ef", "fg", "gh"]
        .iter()
        .map(|pair| pair.split_at(1))
    {
        let aliases = vec![format!("*{from}"); 10].join(", ");
        laughs.push_str(&format!("{to}: &{to} [{aliases}]\n"));
    }
    let many = format!("a: &a x\nb: [{}]\n", vec!["*a"; 2000].join(", "));
    let cases = [
        (laughs, "too many"),
        (many, "too many aliases"),
        ("[".repeat(5000), "f.yaml:1:"),
        (format!("a: {}{}\n", "[".repeat(100), "]".repeat(100)), "f.yaml:1:"),
        (
            format!(
                "a:\n{}",
                (1..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>()
            ),
            "f.yaml:",
        ),
        ("a: &a [*a]\n".to_owned(), "f.yaml:1:8"),
    ];
    for (text, expected) in cases {
        let loaded = load_text(&text);
        assert!(loaded.objects.is_empty());
        assert_eq!(loaded.findings.len(), 1, "{:?}", lines(&loaded));
        assert!(lines(&loaded)[0].contains(expected), "{:?}", lines(&loaded));
    }
}

#[test]
fn a_text_that_is_too_large_gets_one_message() {
    let limits = Limits {
        bytes: 100,
        documents: 2,
        ..Limits::default()
    };
    let long = load(
        &Source {
            name: "f",
            text: &"x".repeat(101),
        },
        &limits,
    );
    assert_eq!(
        lines(&long),
        ["f:1:1: error: the file has 101 bytes, more than the 100 that are read: split it into smaller files"]
    );
    let many = load(
        &Source {
            name: "f",
            text: "a: 1\n---\nb: 1\n---\nc: 1\n",
        },
        &limits,
    );
    assert_eq!(
        lines(&many),
        ["f:4:1: error: the file has more than 2 documents: split it into smaller files"]
    );
}

#[test]
fn chunks_load_apart_as_together() {
    let text = format!(
        "{}---\nbroken: [\n---\n{}---\n{}",
        namespace("a"),
        namespace("b"),
        namespace("a")
    );
    let source = Source {
        name: "f.yaml",
        text: &text,
    };
    let whole = load(&source, &Limits::default());
    let parts = merge(
        split(&text)
            .iter()
            .map(|chunk| load_chunk(&source, chunk, &Limits::default())),
    );
    assert_eq!(keys(&whole), keys(&parts));
    assert_eq!(whole.findings, parts.findings);
    assert_eq!(keys(&whole), ["Namespace/b", "Namespace/a"]);
}

#[test]
fn the_written_form_is_kept_on_request() {
    let source = Source {
        name: "f",
        text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nextra: {b: 1}\n",
    };
    let loaded = load(
        &source,
        &Limits {
            raw: Raw::Keep,
            ..Limits::default()
        },
    );
    assert_eq!(loaded.objects[0].raw.as_ref().unwrap()["extra"]["b"], 1);
    assert!(load(&source, &Limits::default()).objects[0].raw.is_none());
}

#[test]
fn a_broken_object_still_tells_which_it_is() {
    let loaded = load_text(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r, namespace: web}\nspec: 1\n",
    );
    assert_eq!(
        loaded.findings[0].object,
        Some(ObjectKey::new(Kind::HttpRoute, "web", "r"))
    );
    assert_eq!(loaded.findings[0].severity, Severity::Error);
}

#[test]
fn objects_that_name_no_namespace_get_the_one_asked_for() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n";
    let limits = Limits {
        namespace: "edge".into(),
        ..Limits::default()
    };
    assert_eq!(
        keys(&load(&Source { name: "f", text }, &limits)),
        ["Service/edge/s", "Namespace/b"]
    );
}

#[test]
fn windows_line_ends_change_nothing() {
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c # x\ndata:\n  a: |\n    one\n\n    two\n  b: \"q\"\n";
    let (unix, windows) = (load_text(text), load_text(&text.replace('\n', "\r\n")));
    assert_eq!(unix.objects[0].object, windows.objects[0].object);
    assert!(windows.findings.is_empty());
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,4}",
        "[ \\t\\r\\n:#,&*!|>?%@`'\"{}\\[\\]<-]{1,3}",
        Just("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n".to_owned()),
        Just("\n---\n".to_owned()),
        Just("\n  - a: ".to_owned()),
        Just("\"\\ud83d\\ude00\\x41\\".to_owned()),
        Just("\u{feff}ü: |\n  ö\n".to_owned()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Loading is total: any text gives objects and findings, and every finding points into the text.
    #[test]
    fn any_text_loads(text in any_text()) {
        let loaded = load_text(&text);
        let lines = text.bytes().filter(|b| *b == b'\n').count() + 1;
        for finding in &loaded.findings {
            proptest::prop_assert!((1..=lines).contains(&finding.line), "{finding}");
            proptest::prop_assert!(finding.column >= 1 && !finding.message.is_empty());
        }
    }
}

#[test]
fn any_document_may_begin_with_a_byte_order_mark() {
    let (a, b, c) = (namespace("a"), namespace("b"), namespace("c"));
    let loaded = load_text(&format!("\u{feff}{a}---\n\u{feff}# note\n{b}---\n\u{feff}---\n{c}"));
    assert_eq!(keys(&loaded), ["Namespace/a", "Namespace/b", "Namespace/c"]);
    assert_eq!(loaded.objects.iter().map(|o| o.line).collect::<Vec<_>>(), [1, 7, 13]);
}

#[test]
fn a_carriage_return_alone_hides_nothing() {
    let hidden = namespace("a").replace('\n', "\r");
    let inside = namespace("a").replace("  name", "  # note\r  name");
    for text in [format!("# note\r{hidden}"), hidden, inside] {
        let loaded = load_text(&text);
        assert!(keys(&loaded).is_empty(), "{text:?}");
        assert!(
            lines(&loaded)[0].contains("a carriage return alone ends this line"),
            "{text:?}"
        );
    }
    let loaded = load_text(&namespace("a").replace('\n', "\r\n"));
    assert_eq!((keys(&loaded).len(), lines(&loaded).len()), (1, 0));
}

#[test]
fn a_finding_is_a_line() {
    let loaded = load_text("apiVersion: v1\nkind: Namespace\nmetadata: { name: \"a\\e[31m\\n::error::x\" }\n");
    let line = &lines(&loaded)[0];
    assert!(
        line.contains(r"a\u{1b}[31m\n::error::x") && !line.contains(char::is_control),
        "{line:?}"
    );
}
