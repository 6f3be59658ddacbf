//! What is kept back of tables, by example.

use super::{
    Quarantine, Snapshot, Stream,
    client::{Client, Refuses, Says},
    nack, only, sample, sent,
};
use crate::{lower::Lowering, quarantine::Form};
use edge_ir::{DirectResponse, RouteAction};
use prost::Message;

/// A table of hosts with one rule each; those that are named are refused by proxies.
fn snapshot(hosts: usize, bad: &[usize]) -> Snapshot {
    let host = |n: usize| {
        let name = format!("r{n:04}");
        let rule = match bad.contains(&n) {
            true => sample::route_with(
                &name,
                "/",
                RouteAction::Respond(DirectResponse { status: 99, body: None }),
            ),
            false => sample::route(&name, "/", "c1"),
        };
        sample::host(&format!("h{n:04}.example"), vec![rule])
    };
    Lowering::new().lower(&sample::fleet((0..hosts).map(host).collect(), &["c1"]))
}

fn settled(snapshot: Snapshot, client: Client) -> (Stream, Client) {
    let mut stream = Stream::new(snapshot, Quarantine::default());
    let mut client = client;
    client.connect(&mut stream);
    client.run(&mut stream);
    assert!(stream.is_settled());
    (stream, client)
}

#[test]
fn the_culprit_of_an_edit_is_found_with_one_more_response() {
    let (mut stream, mut client) = settled(snapshot(100, &[]), Client::default());
    let before = client.read;
    let edited = snapshot(100, &[42]);
    client.receive(stream.on_snapshot(&edited, client.now));
    client.run(&mut stream);
    assert_eq!(client.read - before, 2, "the edit, and the edit without the rule");
    let [held] = client.quarantined.as_slice() else {
        panic!("{:?}", client.quarantined)
    };
    assert_eq!(
        (&*held.host, held.form),
        ("default/gw/http/h0042_example", Form::Closed)
    );
    assert_eq!(held.origins[0].to_string(), "HTTPRoute/default/r0042/rule/0");
    assert!(client.rejected.is_empty(), "the table is not what is rejected");
}

#[test]
fn a_proxy_that_starts_finds_the_culprits_itself() {
    for refuses in [Refuses::TheResponse, Refuses::TheResource] {
        let client = Client::new(refuses, Says::Nothing);
        let (_, client) = settled(snapshot(256, &[7, 200]), client);
        assert_eq!(client.quarantined.len(), 2);
        assert!(client.read < 60, "{}", client.read);
        assert_eq!(client.table().unwrap().virtual_hosts.len(), 256);
    }
}

#[test]
fn a_proxy_that_says_where_costs_one_more_response() {
    let (_, quiet) = settled(snapshot(256, &[]), Client::default());
    let client = Client::new(Refuses::TheResponse, Says::Place);
    let (_, client) = settled(snapshot(256, &[7]), client);
    assert_eq!(client.read - quiet.read, 1);
}

#[test]
fn others_in_the_table_go_on_being_updated() {
    let (mut stream, mut client) = settled(snapshot(10, &[3]), Client::default());
    let hold = client.quarantined.clone();
    client.receive(stream.on_snapshot(&snapshot(11, &[3]), client.now));
    client.run(&mut stream);
    assert_eq!(client.table().unwrap().virtual_hosts.len(), 11);
    assert_eq!(client.quarantined, hold, "what is known is not found again");
}

#[test]
fn a_culprit_that_changes_is_let_out() {
    let (mut stream, mut client) = settled(snapshot(10, &[3]), Client::default());
    let good = snapshot(10, &[]);
    client.receive(stream.on_snapshot(&good, client.now));
    client.run(&mut stream);
    client.assert_holds(&good);
}

#[test]
fn a_running_proxy_with_an_unknown_table_keeps_it() {
    let (_, mut client) = settled(snapshot(10, &[]), Client::default());
    // The controller starts anew with a table that is partly bad.
    let bad = snapshot(12, &[3, 5]);
    let mut stream = Stream::new(bad.clone(), Quarantine::default());
    client.connect(&mut stream);
    client.run(&mut stream);
    assert_eq!(
        client.table().unwrap().virtual_hosts.len(),
        10,
        "no rule was closed for a trial"
    );
    assert_eq!(client.rejected.len(), 1, "{:?}", client.rejected);
    // Somebody else finds out.
    let (_, other) = settled(bad.clone(), Client::default());
    let mut quarantine = Quarantine::default();
    other.quarantined.iter().for_each(|held| quarantine.hold(held.clone()));
    client.receive(stream.on_quarantine(&quarantine, client.now));
    client.run(&mut stream);
    client.assert_holds(&quarantine.apply(&bad));
    assert!(client.rejected.is_empty(), "{:?}", client.rejected);
}

#[test]
fn an_edit_that_is_taken_back_during_a_trial_ends_it() {
    let good = snapshot(10, &[]);
    let (mut stream, client) = settled(good.clone(), Client::default());
    let edited = only(stream.on_snapshot(&snapshot(10, &[3]), client.now));
    let trial = only(stream.on_request(&nack(&edited, "no"), client.now));
    assert!(sent(stream.on_snapshot(&good, client.now)).is_empty());
    assert!(sent(stream.on_request(&nack(&trial, "no"), client.now)).is_empty());
    assert!(stream.is_settled(), "it has the good version");
}

#[test]
fn a_proxy_that_comes_back_in_the_middle_of_a_trial_has_what_is_tried() {
    let bad = snapshot(4, &[2]);
    let client = || Client::new(Refuses::TheResponse, Says::Place);
    let (_, mut client) = settled(bad.clone(), client());
    // The controller forgets what it has found out.
    let mut stream = Stream::new(bad, Quarantine::default());
    client.quarantined.clear();
    client.connect(&mut stream);
    client.run(&mut stream);
    assert!(stream.is_settled());
    assert_eq!(client.quarantined.len(), 1);
}

#[test]
fn who_takes_parts_is_told_what_differs() {
    for (refuses, limit) in [(Refuses::TheResource, 1000), (Refuses::TheResponse, usize::MAX)] {
        let (mut stream, client) = settled(snapshot(300, &[]), Client::new(refuses, Says::Nothing));
        let edited = snapshot(301, &[]);
        let response = only(stream.on_snapshot(&edited, client.now));
        let size = response.to_message().encoded_len();
        assert_eq!(response.bases.len(), usize::from(limit < usize::MAX));
        assert!((size > 20_000) == (limit == usize::MAX) && size < limit, "{size}");
    }
}

#[test]
fn a_table_that_is_wanted_again_is_sent_whole() {
    let (mut stream, client) = settled(snapshot(3, &[]), Client::new(Refuses::TheResource, Says::Nothing));
    let name = [super::client::TABLE];
    let gone = super::DeltaDiscoveryRequest {
        resource_names_unsubscribe: name.map(str::to_owned).into(),
        ..super::request(super::ResourceType::Routes)
    };
    let difference = only(stream.on_snapshot(&snapshot(4, &[]), client.now));
    assert_eq!(difference.bases.len(), 1);
    // It doesn't want the table any more when it reads this, and takes note of it all the same.
    assert!(sent(stream.on_request(&gone, client.now)).is_empty());
    assert!(sent(stream.on_request(&super::ack(&difference), client.now)).is_empty());
    let again = only(stream.on_request(&super::subscribe(super::ResourceType::Routes, &name), client.now));
    assert_eq!((again.resources.len(), again.bases.len()), (1, 0));
}
