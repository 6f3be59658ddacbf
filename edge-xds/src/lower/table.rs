//! Route tables as ropes of encoded hosts.

use super::{
    host::{EncodedHost, Encoder, encode_header},
    seek,
};
use crate::snapshot::{Body, Entry, Piece, Section, Source};
use edge_ir::{GuardSet, RouteTable, RouteTableName, VirtualHost};
use std::sync::Arc;

/// The name of a table on the wire: its own, with a digest of the guards that it is for behind, where there are any.
///
/// A proxy ignores what a route says of a filter that its chain doesn't have. Were the name the same, a chain that
/// waits for its end (a new one warms, or its connections drain) would be given routes for guards that it lacks, and be
/// open. So it keeps the table that it has, for nobody takes a table from a listener that uses it, and the new chain
/// asks for another.
pub(crate) fn wire_name(name: &RouteTableName, guards: &GuardSet) -> Arc<str> {
    match guards.is_empty() {
        true => name.clone().into(),
        false => format!("{name}{GUARDED}{guards}").into(),
    }
}

/// What stands between the name of a table and its guards; names of objects don't have it.
const GUARDED: char = '~';

/// The table of a name, behind whichever guards it is now; the name may be that on the wire.
pub(crate) fn table_of_name<'a>(section: &'a Section, name: &str) -> Option<&'a Arc<Entry>> {
    let plain = plain_table_name(name);
    let is_meant = |entry: &&Arc<Entry>| matches!(&entry.source, Source::Table(table) if *table.name == *plain);
    section.get(name).or_else(|| section.entries().iter().find(is_meant))
}

/// The name of a table, of one on the wire.
pub(crate) fn plain_table_name(name: &str) -> &str {
    name.split(GUARDED).next().unwrap_or(name)
}

/// The last list of tables and what became of each.
#[derive(Debug, Default)]
pub(super) struct Tables {
    source: Arc<Vec<Arc<RouteTable>>>,
    tables: Vec<EncodedTable>,
    section: Option<Arc<Section>>,
    encoder: Encoder,
}

/// An encoded table.
#[derive(Debug)]
struct EncodedTable {
    table: Arc<RouteTable>,
    /// In the order of the table.
    hosts: Vec<EncodedHost>,
    entry: Arc<Entry>,
}

impl Tables {
    /// The section of route configurations.
    pub(super) fn lower(&mut self, source: &Arc<Vec<Arc<RouteTable>>>) -> Arc<Section> {
        if let Some(section) = self.section.as_ref().filter(|_| Arc::ptr_eq(source, &self.source)) {
            return Arc::clone(section);
        }
        let mut before = std::mem::take(&mut self.tables).into_iter().peekable();
        let mut tables = Vec::with_capacity(source.len());
        for table in source.iter() {
            let kept = seek(&mut before, &table.name, |before| &before.table.name);
            tables.push(lower_table(&mut self.encoder, table, kept));
        }
        self.encoder.tidy();
        self.source = Arc::clone(source);
        self.tables = tables;
        let section = Section::new(self.tables.iter().map(|table| Arc::clone(&table.entry)).collect());
        let section = match &self.section {
            Some(kept) if same_entries(kept, &section) => Arc::clone(kept),
            _ => Arc::new(section),
        };
        self.section = Some(Arc::clone(&section));
        section
    }
}

fn same_entries(a: &Section, b: &Section) -> bool {
    a.entries().len() == b.entries().len() && a.entries().iter().zip(b.entries()).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Encodes what differs from the hosts before; keeps the entry if nothing does.
fn lower_table(encoder: &mut Encoder, table: &Arc<RouteTable>, before: Option<EncodedTable>) -> EncodedTable {
    let Some(before) = before else {
        let encoded = |host| encoder.encode(host, None);
        let hosts: Vec<_> = table.hosts.iter().map(encoded).collect();
        return assembled(table, hosts);
    };
    if Arc::ptr_eq(&before.table, table) {
        return before;
    }
    let EncodedTable {
        table: old,
        mut hosts,
        entry,
    } = before;
    // What is the same at both ends stays where it is and isn't looked at: of ten thousand hosts an edit leaves nearly all.
    let same = same_ends(&old.hosts, &table.hosts);
    let behind = hosts.split_off(old.hosts.len() - same.behind);
    let between = hosts.split_off(same.ahead);
    let others = &table.hosts[same.ahead..table.hosts.len() - same.behind];
    let mut unchanged = between.len() == others.len();
    let mut kept = between.into_iter().peekable();
    for host in others {
        let found = seek(&mut kept, &host.name, |kept| &kept.host().name);
        hosts.push(match found {
            Some(found) if found.is_for(host) => found,
            found => {
                unchanged = false;
                encoder.encode(host, found.as_ref())
            }
        });
    }
    hosts.extend(behind);
    if unchanged && (&old.name, &old.guards, &old.origins) == (&table.name, &table.guards, &table.origins) {
        let table = Arc::clone(table);
        return EncodedTable { table, hosts, entry };
    }
    assembled(table, hosts)
}

/// How many elements two lists share at both ends.
struct SameEnds {
    ahead: usize,
    behind: usize,
}

fn same_ends<T>(a: &[Arc<T>], b: &[Arc<T>]) -> SameEnds {
    let is_same = |(a, b): &(&Arc<T>, &Arc<T>)| Arc::ptr_eq(a, b);
    let ahead = a.iter().zip(b).take_while(is_same).count();
    let (a, b) = (&a[ahead..], &b[ahead..]);
    let behind = a.iter().rev().zip(b.iter().rev()).take_while(is_same).count();
    SameEnds { ahead, behind }
}

fn assembled(table: &Arc<RouteTable>, hosts: Vec<EncodedHost>) -> EncodedTable {
    let longest_body = hosts.iter().map(EncodedHost::longest_body).max().unwrap_or(0);
    let header: Arc<Piece> = Arc::new(encode_header(table, longest_body));
    let pieces = std::iter::once(header)
        .chain(hosts.iter().map(|host| Arc::clone(host.piece())))
        .collect();
    let name = wire_name(&table.name, &table.guards);
    let entry = Entry::new(name, Body::rope(pieces), Arc::clone(&table.origins));
    EncodedTable {
        table: Arc::clone(table),
        hosts,
        entry: Arc::new(entry.made_from(Source::Table(Arc::clone(table)))),
    }
}

/// The entry of a table with some of its hosts replaced, or left out where there is none. The others keep their bytes.
pub(crate) fn replace_hosts(
    entry: &Arc<Entry>,
    replacement: impl Fn(&Arc<VirtualHost>) -> Option<Arc<VirtualHost>>,
) -> Arc<Entry> {
    let (Source::Table(table), Body::Rope { pieces, .. }) = (&entry.source, &entry.body) else {
        return Arc::clone(entry);
    };
    let mut encoder = Encoder::default();
    let mut hosts = Vec::with_capacity(table.hosts.len());
    let mut kept = Vec::with_capacity(pieces.len());
    kept.extend(pieces.first().cloned());
    for (host, piece) in table.hosts.iter().zip(pieces.iter().skip(1)) {
        let Some(other) = replacement(host) else { continue };
        kept.push(if Arc::ptr_eq(host, &other) {
            Arc::clone(piece)
        } else {
            Arc::clone(encoder.encode(&other, None).piece())
        });
        hosts.push(other);
    }
    let table = RouteTable {
        hosts: Arc::new(hosts),
        name: table.name.clone(),
        guards: table.guards.clone(),
        origins: Arc::clone(&table.origins),
    };
    let replaced = Entry::new(
        Arc::clone(&entry.name),
        Body::rope(kept.into()),
        Arc::clone(&entry.origins),
    );
    Arc::new(replaced.made_from(Source::Table(Arc::new(table))))
}

/// A host encoded as it stands in its table.
pub(crate) fn encode_host_alone(host: &Arc<VirtualHost>) -> Arc<Piece> {
    Arc::clone(Encoder::default().encode(host, None).piece())
}
