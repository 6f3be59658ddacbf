//! Listeners that share a certificate: each one's table answers the names of all others, and costs one host for them.

use crate::rig::{Rig, hosts};
use edge_ir::{Domain, VirtualHost};
use serde_json::json;
use std::sync::Arc;

const CERTIFICATE: &str = include_str!("../data/wildcard-ec.crt");
const KEY: &str = include_str!("../data/wildcard-ec.key");

/// A Gateway with listeners for `s<n>.example.com`.
fn gateway(n: usize) -> String {
    let listeners = (0..n).map(|n| {
        json!({"name": format!("l{n}"), "protocol": "HTTPS", "port": 443,
            "hostname": format!("s{n}.example.com"), "tls": {"certificateRefs": [{"name": "c"}]}})
    });
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"},
        "spec": {"gatewayClassName": "edge", "listeners": listeners.collect::<Vec<_>>()}})
    .to_string()
}

fn world(n: usize) -> Rig {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"},
        "stringData": {"tls.crt": CERTIFICATE, "tls.key": KEY}});
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: g}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301}}]}]
";
    Rig::new(&format!("\n{secret}\n---\n{}\n---{route}", gateway(n)))
}

/// Hosts of listeners' own names, and those of the names of others.
fn own_and_others(rig: &Rig) -> (Vec<Arc<VirtualHost>>, Vec<Arc<VirtualHost>>) {
    hosts(rig.fleet())
        .into_iter()
        .partition(|host| host.own_name() != edge_ir::ELSEWHERE)
}

#[test]
fn a_table_has_one_host_for_the_names_of_all_other_listeners() {
    let rig = world(20);
    let (own, others) = own_and_others(&rig);
    assert_eq!((own.len(), others.len()), (20, 20));
    let names = |without: &str| -> Vec<Domain> {
        let all = own.iter().flat_map(|host| host.domains.iter());
        let mut names: Vec<Domain> = all.filter(|name| name.as_str() != without).cloned().collect();
        names.sort();
        names
    };
    for (n, host) in own.iter().enumerate() {
        let others = others.iter().find(|other| other.listener() == host.listener());
        assert_eq!(*others.unwrap().domains, *names(&host.domains[0]), "{n}");
    }
}

#[test]
fn a_listener_that_comes_changes_no_host_but_those_for_the_names_of_others() {
    let mut rig = world(20);
    let (before, others_before) = own_and_others(&rig);
    rig.put(&gateway(21));
    let (after, others) = own_and_others(&rig);
    let stayed = after
        .iter()
        .filter(|host| before.iter().any(|was| Arc::ptr_eq(was, host)));
    assert_eq!((stayed.count(), after.len()), (20, 21));
    assert_eq!(others.len(), others_before.len() + 1);
    assert!(others.iter().all(|host| host.domains.len() == 20));
    rig.put(&gateway(1));
    let (own, others) = own_and_others(&rig);
    assert_eq!((own.len(), others.len()), (1, 0), "alone it needs none");
}
