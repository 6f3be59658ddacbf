use proptest::collection::vec;
use proptest::{prop_assert_eq, proptest};
use prost::Message;

use super::*;
use edge_xds::parts::Part;

use crate::compile::{files, prefixed_headers};

fn context() -> Context {
    Context::new(Box::new(files::Disk), prefixed_headers("x-edge").expect("a prefix"), 1)
}

fn message(yaml: &str) -> RouteConfiguration {
    edge_xds::json::from_json(serde_yaml::from_str(yaml).expect("YAML")).expect("a message")
}

/// A host for each number; its routes go to the cluster of that number.
fn table_of(hosts: &[(u8, u8)], extra: &str) -> Bytes {
    let hosts: Vec<String> = hosts
        .iter()
        .map(|(host, cluster)| {
            format!(
                "{{name: h{host}, domains: [h{host}.example.com], routes: [{{match: {{prefix: /}}, route: {{cluster: \
                 c{cluster}}}}}]}}"
            )
        })
        .collect();
    let yaml = format!("{{name: r, virtual_hosts: [{}]{extra}}}", hosts.join(", "));
    message(&yaml).encode_to_vec().into()
}

fn host<'a>(table: &'a CompiledTable, name: &str) -> &'a Arc<VirtualHost> {
    table.table.virtual_host(name).expect("a host")
}

#[test]
fn an_edit_compiles_one_host() {
    let mut context = context();
    let first = received(&mut context, "r", &table_of(&[(1, 1), (2, 2), (3, 3)], ""), None).expect("a table");
    let edited = table_of(&[(1, 1), (2, 9), (3, 3)], "");
    let second = received(&mut context, "r", &edited, Some(&first)).expect("a table");
    for name in ["h1.example.com", "h3.example.com"] {
        assert!(Arc::ptr_eq(host(&first, name), host(&second, name)), "{name}");
    }
    assert!(!Arc::ptr_eq(
        host(&first, "h2.example.com"),
        host(&second, "h2.example.com")
    ));
}

#[test]
fn hosts_that_moved_are_taken_over() {
    let mut context = context();
    let first = received(&mut context, "r", &table_of(&[(1, 1), (2, 2), (3, 3)], ""), None).expect("a table");
    let moved = table_of(&[(3, 3), (4, 4), (1, 1)], "");
    let second = received(&mut context, "r", &moved, Some(&first)).expect("a table");
    for name in ["h1.example.com", "h3.example.com"] {
        assert!(Arc::ptr_eq(host(&first, name), host(&second, name)), "{name}");
    }
    assert!(second.table.virtual_host("h2.example.com").is_none());
}

#[test]
fn what_the_table_says_about_its_hosts_compiles_them_again() {
    let mut context = context();
    let first = received(&mut context, "r", &table_of(&[(1, 1)], ""), None).expect("a table");
    let edits = ", request_headers_to_remove: [x-secret]";
    let second = received(&mut context, "r", &table_of(&[(1, 1)], edits), Some(&first)).expect("a table");
    assert_eq!(host(&first, "h1.example.com").routes[0].request_headers.len(), 0);
    assert_eq!(host(&second, "h1.example.com").routes[0].request_headers.len(), 1);
}

#[test]
fn a_domain_in_two_hosts_is_refused_with_both_names() {
    let error = received(&mut context(), "r", &table_of(&[(1, 1), (1, 2)], ""), None).expect_err("two of a name");
    let text = r#"virtual host "h1": domains[0]: domain "h1.example.com" is also in virtual host "h1""#;
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_message_that_ends_early_is_refused() {
    let whole = table_of(&[(1, 1), (2, 2)], ", ignore_port_in_host_matching: true");
    let mut refused = 0;
    for end in 0..whole.len() {
        if let Err(error) = received(&mut context(), "", &whole.slice(..end), None) {
            let text = error.to_string();
            assert!(text.contains("decode") || text.starts_with("name: "), "{text}");
            refused += 1;
        }
    }
    // A cut between two fields leaves a message that is shorter and whole.
    assert!(refused > whole.len() - 10, "{refused} of {}", whole.len());
}

#[test]
fn another_name_is_refused() {
    let error = received(&mut context(), "other", &table_of(&[], ""), None).expect_err("another name");
    assert_eq!(error.to_string(), "name: \"r\" was sent as \"other\"");
}

/// The fields of some hosts, without the table's own.
fn fields_of(hosts: &[(u8, u8)]) -> Bytes {
    let mut message = RouteConfiguration::decode(table_of(hosts, "")).expect("a message");
    message.name.clear();
    message.encode_to_vec().into()
}

fn parts(list: &[(u32, u32, Bytes)]) -> RouteTableParts {
    let part = |(from, count, fields): &(u32, u32, Bytes)| Part {
        from: *from,
        count: *count,
        fields: fields.clone(),
    };
    RouteTableParts {
        base: "1".to_owned(),
        parts: list.iter().map(part).collect(),
    }
}

#[test]
fn what_stays_is_taken_over_and_what_differs_is_compiled() {
    let mut context = context();
    let first = table_of(&[(1, 1), (2, 2), (3, 3)], "");
    let first = received(&mut context, "r", &first, None).expect("a table");
    let told = parts(&[
        (0, 0, table_of(&[], "")),
        (0, 1, fields_of(&[(4, 4)])),
        (2, 1, Bytes::new()),
    ]);
    let second = changed(&mut context, "r", &told, Some(&first)).expect("a table");
    for name in ["h1.example.com", "h3.example.com"] {
        assert!(Arc::ptr_eq(host(&first, name), host(&second, name)), "{name}");
    }
    assert!(second.table.virtual_host("h2.example.com").is_none());
    assert!(second.table.virtual_host("h4.example.com").is_some());
    assert_eq!(second.body(), table_of(&[(1, 1), (4, 4), (3, 3)], ""));
}

#[test]
fn parts_that_make_no_table_are_refused() {
    let mut context = context();
    let first = received(&mut context, "r", &table_of(&[(1, 1), (2, 2)], ""), None).expect("a table");
    let head = || (0, 0, table_of(&[], ""));
    for (told, reason) in [
        (
            vec![head(), (1, 2, Bytes::new())],
            "keeps 2 virtual hosts from 1 on of 2",
        ),
        (
            vec![head(), (u32::MAX, u32::MAX, Bytes::new())],
            "keeps 4294967295 virtual hosts",
        ),
        (
            vec![head(), (0, 2, fields_of(&[(2, 9)]))],
            "is also in virtual host \"h2\"",
        ),
        (
            vec![head(), (0, 2, Bytes::new()), (0, 1, Bytes::new())],
            "is also in virtual host \"h1\"",
        ),
        (
            vec![head(), (0, 1, Bytes::from_static(b"\x12\x7f"))],
            "can't be decoded",
        ),
    ] {
        let error = changed(&mut context, "r", &parts(&told), Some(&first))
            .expect_err("no table")
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(
        changed(&mut context, "r", &parts(&[(0, 1, Bytes::new())]), None).is_err(),
        "nothing to keep"
    );
}

proptest! {
    /// A table by a chain of edits serves what a table from scratch serves.
    #[test]
    fn a_chain_of_edits_ends_where_a_new_table_begins(
        versions in vec(vec((0_u8..6, 0_u8..4), 0..6), 1..6),
    ) {
        let mut context = context();
        let mut held: Option<CompiledTable> = None;
        for hosts in &versions {
            let mut hosts = hosts.clone();
            hosts.sort_by_key(|(host, _)| *host);
            hosts.dedup_by_key(|(host, _)| *host);
            let body = table_of(&hosts, "");
            let next = received(&mut context, "r", &body, held.as_ref()).expect("a table");
            prop_assert_eq!(next.body(), body.to_vec());
            let scratch = inline(&mut context, &At::root(), &RouteConfiguration::decode(body).expect("a message"));
            let scratch = scratch.expect("a table");
            for number in 0..6 {
                let name = format!("h{number}.example.com");
                let action = |table: &RouteTable| table.virtual_host(&name).map(|host| format!("{:?}", host.routes));
                prop_assert_eq!(action(&next.table), action(&scratch));
            }
            held = Some(next);
        }
    }
}

/// Every culprit is named by the names that its owner knows, each in a line.
#[test]
fn all_that_is_wrong_with_a_table_is_told() {
    let bad = r#"{name: r, virtual_hosts: [
      {name: shop, domains: [shop.example], routes: [
        {name: good, match: {prefix: /}, route: {cluster: a}},
        {name: httproute/a/b/rule/0, match: {path_separated_prefix: shop}, route: {cluster: a}},
        {name: 'a "quoted" name', match: {safe_regex: {regex: "(a"}}, route: {cluster: a}},
        {match: {prefix: /}, route: {cluster: a, hash_policy: [{terminal: true}]}}]},
      {name: plain, domains: [plain.example], routes: [{match: {prefix: /}, route: {cluster: a}}]},
      {name: empty, domains: []},
      {domains: [other.example], routes: [{name: no-match, route: {cluster: a}}]}]}"#;
    let body = message(bad).encode_to_vec().into();
    let error = received(&mut context(), "r", &body, None).expect_err("a bad table");
    let lines = [
        r#"virtual host "shop": route "httproute/a/b/rule/0": match.path_separated_prefix: must begin with "/": "shop""#,
        r#"virtual host "shop": route "a \"quoted\" name": match.safe_regex.regex: is not a regular expression: unclosed group"#,
        r#"virtual host "shop": routes[3].route.hash_policy[0]: a policy is required"#,
        r#"virtual host "empty": domains: must name at least one domain"#,
        r#"route "no-match": virtual_hosts[3].routes[0].match: is required"#,
    ];
    assert_eq!(error.to_string(), lines.join("\n"));
}

#[test]
fn many_culprits_are_counted() {
    let hosts: Vec<String> = (0..30).map(|n| format!("{{name: h{n}, domains: []}}")).collect();
    let body = message(&format!("{{name: r, virtual_hosts: [{}]}}", hosts.join(", ")))
        .encode_to_vec()
        .into();
    let error = received(&mut context(), "r", &body, None)
        .expect_err("a bad table")
        .to_string();
    assert_eq!(error.lines().count(), 21);
    assert!(error.ends_with("\nand 10 more"), "{error}");
}
