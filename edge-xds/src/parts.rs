//! A route table by what differs from the version that a proxy has.
//!
//! The protocol knows a route configuration as one resource, which thousands of people may share. A proxy that says
//! so in its node ([`FEATURE`]) is sent what changed in it: runs of virtual hosts that stay as they are, by their place
//! in the version before, and the encoded fields between them. To everything else (versions, acknowledgements,
//! refusals) it is the table as a whole, and that is what any other proxy is sent. (Envoy's own way, VHDS, makes each
//! virtual host a resource, to be refused and kept back apart; and Envoy compiles the whole table for it all the same.)

use crate::{
    lower::seek,
    snapshot::{Body, Entry, Piece, Rope, Source},
};
use bytes::Bytes;
use edge_ir::{RouteTable, VirtualHost};
use prost::Message;
use std::sync::Arc;

/// By this in the node's `client_features` a proxy says that it takes parts.
pub const FEATURE: &str = "edge.gateway.route-table-parts";

/// The type of a resource that is told by parts.
pub const TYPE_URL: &str = "type.googleapis.com/edge.gateway.v1.RouteTableParts";

/// A table, told by what differs.
#[derive(Clone, PartialEq, Message)]
pub struct RouteTableParts {
    /// The version whose hosts are meant.
    #[prost(string, tag = "1")]
    pub base: String,
    /// One behind the other they are the table.
    #[prost(message, repeated, tag = "2")]
    pub parts: Vec<Part>,
}

/// A piece of a table.
#[derive(Clone, PartialEq, Message)]
pub struct Part {
    /// The place of the first virtual host that is as it was.
    #[prost(uint32, tag = "1")]
    pub from: u32,
    /// How many are.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// Encoded fields of a RouteConfiguration that follow these.
    #[prost(bytes = "bytes", tag = "3")]
    pub fields: Bytes,
}

/// What turns one version of a table into another; `None` if they aren't tables in pieces. Costs a comparison of
/// pointers for each chunk that stays at either end, and for each host between those.
pub fn between(base: &Entry, target: &Entry) -> Option<RouteTableParts> {
    let (before, after) = (Pieces::of(base)?, Pieces::of(target)?);
    let same = before.rope.same_ends(after.rope);
    let n_between = |pieces: &Pieces<'_>| pieces.table.hosts.len() - same.ahead - same.behind;
    let (old, new) = (n_between(&before), n_between(&after));
    let mut parts = Parts::new(after.header);
    parts.keep(0, same.ahead);
    let old_hosts = before.hosts().skip(same.ahead).take(old);
    let mut old_hosts = (same.ahead..).zip(old_hosts).peekable();
    for (host, piece) in after.hosts().skip(same.ahead).take(new) {
        match seek(&mut old_hosts, &host.name, |(_, (host, _))| &host.name) {
            Some((place, (_, known))) if Arc::ptr_eq(known, piece) || known == piece => parts.keep(place, 1),
            _ => parts.put(piece),
        }
    }
    parts.keep(same.ahead + old, same.behind);
    Some(RouteTableParts {
        base: base.version_text(),
        parts: parts.end(),
    })
}

/// A table as it was encoded.
struct Pieces<'a> {
    table: &'a RouteTable,
    rope: &'a Rope,
    header: &'a Arc<Piece>,
}

impl<'a> Pieces<'a> {
    fn of(entry: &'a Entry) -> Option<Self> {
        let (Source::Table(table), Body::Rope(rope)) = (&entry.source, &entry.body) else {
            return None;
        };
        let header = rope.pieces().next()?;
        (rope.count() == table.hosts.len() + 1).then_some(Self { table, rope, header })
    }

    fn hosts(&self) -> impl Iterator<Item = (&'a Arc<VirtualHost>, &'a Arc<Piece>)> + use<'a> {
        self.table.hosts.iter().zip(self.rope.pieces().skip(1))
    }
}

/// Parts while they are put together.
struct Parts {
    done: Vec<Part>,
    /// What the last one keeps.
    from: u32,
    count: u32,
    fields: Vec<u8>,
}

impl Parts {
    fn new(header: &Piece) -> Self {
        Self {
            done: Vec::new(),
            from: 0,
            count: 0,
            fields: header.bytes().to_vec(),
        }
    }

    fn put(&mut self, piece: &Piece) {
        piece.copy_to(&mut self.fields);
    }

    fn keep(&mut self, place: usize, count: usize) {
        // A table of more hosts than that can't be sent at all.
        let [place, count] = [place, count].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if count == 0 {
            return;
        }
        if !self.fields.is_empty() || self.from + self.count != place {
            self.next();
            self.from = place;
        }
        self.count += count;
    }

    fn next(&mut self) {
        self.done.push(Part {
            from: self.from,
            count: std::mem::take(&mut self.count),
            fields: std::mem::take(&mut self.fields).into(),
        });
    }

    fn end(mut self) -> Vec<Part> {
        self.next();
        self.done
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        lower::Lowering,
        sample,
        snapshot::{ResourceType, Snapshot},
    };
    use proptest::prelude::*;

    /// The bytes of a table from the version before and its parts, as a proxy puts them together.
    pub(crate) fn put_together(base: &Entry, parts: &RouteTableParts) -> Bytes {
        assert_eq!(parts.base, base.version_text());
        let hosts: Vec<_> = Pieces::of(base)
            .unwrap()
            .hosts()
            .map(|(_, piece)| piece.bytes())
            .collect();
        let mut out = Vec::new();
        for part in &parts.parts {
            let from = part.from as usize;
            for host in &hosts[from..from + part.count as usize] {
                out.extend_from_slice(host);
            }
            out.extend_from_slice(&part.fields);
        }
        out.into()
    }

    /// A table of hosts, each with a route to the cluster of a number.
    fn fleet(hosts: &[(u16, u8)]) -> edge_ir::Fleet {
        let host = |(n, cluster): &(u16, u8)| {
            let name = format!("r{n:04}");
            sample::host(
                &format!("h{n:04}.example"),
                vec![sample::route(&name, "/", &format!("c{cluster}"))],
            )
        };
        sample::fleet(hosts.iter().map(host).collect(), &["c0", "c1"])
    }

    fn table(snapshot: &Snapshot) -> &Arc<Entry> {
        &snapshot.section(ResourceType::Routes).entries()[0]
    }

    #[test]
    fn an_edit_costs_what_it_touches() {
        let mut hosts: Vec<(u16, u8)> = (0..1000).map(|n| (n, 0)).collect();
        let mut lowering = Lowering::new();
        let before = lowering.lower(&fleet(&hosts));
        hosts[500].1 = 1;
        hosts.remove(100);
        let after = lowering.lower(&fleet(&hosts));
        let parts = between(table(&before), table(&after)).unwrap();
        let runs: Vec<(u32, u32)> = parts.parts.iter().map(|part| (part.from, part.count)).collect();
        assert_eq!(runs, [(0, 0), (0, 100), (101, 399), (501, 499)]);
        assert!(parts.encoded_len() < 1000, "{}", parts.encoded_len());
        assert!(table(&after).body.len() > 100_000);
    }

    proptest! {
        /// Whatever changes, what is put together is the table.
        #[test]
        fn parts_make_the_table(
            before in prop::collection::btree_map(0..12u16, 0..2u8, 0..10),
            after in prop::collection::btree_map(0..12u16, 0..2u8, 0..10),
        ) {
            let lower = |hosts: std::collections::BTreeMap<u16, u8>| {
                Lowering::new().lower(&fleet(&hosts.into_iter().collect::<Vec<_>>()))
            };
            let (before, after) = (lower(before), lower(after));
            let (before, after) = (table(&before), table(&after));
            let parts = between(before, after).unwrap();
            let read = RouteTableParts::decode(parts.encode_to_vec().as_slice()).unwrap();
            prop_assert_eq!(put_together(before, &read), after.body.contiguous());
        }
    }
}
