//! Route tables as ropes of encoded hosts.

use super::{
    host::{EncodedHost, Encoder, encode_header, header_again},
    seek,
};
use crate::snapshot::{Body, Entry, Piece, PieceChunk, Rope, Section, Source};
use edge_ir::{Chunk, Executor, GuardSet, RouteTable, RouteTableName, VirtualHost, in_shares};
use rustc_hash::FxHashMap;
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
    /// In the order of the table, one for each chunk of its hosts.
    chunks: Vec<EncodedChunk>,
    entry: Arc<Entry>,
}

/// An encoded chunk of hosts.
#[derive(Debug)]
struct EncodedChunk {
    source: Chunk<Arc<VirtualHost>>,
    hosts: Vec<EncodedHost>,
    pieces: Arc<PieceChunk>,
    /// Length of the longest body that one of its routes answers with.
    longest_body: usize,
}

impl EncodedChunk {
    fn new(source: &Chunk<Arc<VirtualHost>>, hosts: Vec<EncodedHost>) -> Self {
        Self {
            source: Arc::clone(source),
            pieces: Arc::new(PieceChunk::new(hosts.iter().map(|host| Arc::clone(host.piece())))),
            longest_body: hosts.iter().map(EncodedHost::longest_body).max().unwrap_or(0),
            hosts,
        }
    }
}

impl Tables {
    /// The section of route configurations.
    pub(super) fn lower(&mut self, by: &dyn Executor, source: &Arc<Vec<Arc<RouteTable>>>) -> Arc<Section> {
        if let Some(section) = self.section.as_ref().filter(|_| Arc::ptr_eq(source, &self.source)) {
            return Arc::clone(section);
        }
        let mut before = std::mem::take(&mut self.tables).into_iter().peekable();
        let mut tables = Vec::with_capacity(source.len());
        for table in source.iter() {
            let kept = seek(&mut before, &table.name, |before| &before.table.name);
            tables.push(match kept {
                Some(before) => lower_again(&mut self.encoder, table, before),
                None => lower_first(by, &mut self.encoder, table),
            });
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

/// So many hosts have a chunk, about: so much is worth more than one small piece.
const HOSTS_OF_A_CHUNK: usize = 64;

/// Encodes all hosts.
fn lower_first(by: &dyn Executor, encoder: &mut Encoder, table: &Arc<RouteTable>) -> EncodedTable {
    let encode = |encoder: &mut Encoder, chunks: &[Chunk<Arc<VirtualHost>>]| -> Vec<EncodedChunk> {
        let encoded = chunks.iter().map(|chunk| {
            let hosts = chunk.iter().map(|host| encoder.encode(host, None));
            EncodedChunk::new(chunk, hosts.collect())
        });
        encoded.collect()
    };
    if by.width() < 2 {
        return assembled(table, encode(encoder, table.hosts.chunks()));
    }
    let shares = in_shares(by, table.hosts.chunks(), HOSTS_OF_A_CHUNK, |share| {
        let mut encoder = Encoder::default();
        (encode(&mut encoder, share), encoder)
    });
    let mut chunks = Vec::new();
    for (share, other) in shares {
        chunks.extend(share);
        encoder.learn(other);
    }
    assembled(table, chunks)
}

/// Encodes what differs from the hosts before; keeps the entry if nothing does.
fn lower_again(encoder: &mut Encoder, table: &Arc<RouteTable>, before: EncodedTable) -> EncodedTable {
    if Arc::ptr_eq(&before.table, table) {
        return before;
    }
    let EncodedTable {
        table: old,
        chunks,
        entry,
    } = before;
    // A chunk that is there again isn't looked into: of ten thousand hosts an edit leaves nearly all.
    let (kept, others) = same_chunks(chunks, table.hosts.chunks());
    let mut others = others.into_iter().flat_map(|chunk| chunk.hosts).peekable();
    let mut unchanged = old.hosts.len() == table.hosts.len();
    let chunks = kept.into_iter().zip(table.hosts.chunks()).map(|(kept, source)| {
        kept.unwrap_or_else(|| {
            let hosts = source
                .iter()
                .map(|host| match seek(&mut others, &host.name, |other| &other.host().name) {
                    Some(found) if found.is_for(host) => found,
                    found => {
                        unchanged = false;
                        encoder.encode(host, found.as_ref())
                    }
                });
            EncodedChunk::new(source, hosts.collect())
        })
    });
    let chunks: Vec<EncodedChunk> = chunks.collect();
    if unchanged && (&old.name, &old.guards, &old.origins) == (&table.name, &table.guards, &table.origins) {
        let table = Arc::clone(table);
        return EncodedTable { table, chunks, entry };
    }
    assembled(table, chunks)
}

/// What is there of each chunk of a list, and what is left, in order.
fn same_chunks(
    before: Vec<EncodedChunk>,
    now: &[Chunk<Arc<VirtualHost>>],
) -> (Vec<Option<EncodedChunk>>, Vec<EncodedChunk>) {
    let place = |chunk: &Chunk<Arc<VirtualHost>>| Arc::as_ptr(chunk).cast::<Arc<VirtualHost>>();
    let places: FxHashMap<_, usize> = now.iter().map(place).zip(0..).collect();
    let mut kept: Vec<Option<EncodedChunk>> = now.iter().map(|_| None).collect();
    let mut others = Vec::new();
    for chunk in before {
        match places.get(&place(&chunk.source)).and_then(|n| kept.get_mut(*n)) {
            Some(there) => *there = Some(chunk),
            None => others.push(chunk),
        }
    }
    (kept, others)
}

fn assembled(table: &Arc<RouteTable>, chunks: Vec<EncodedChunk>) -> EncodedTable {
    let longest_body = chunks.iter().map(|chunk| chunk.longest_body).max().unwrap_or(0);
    let header = PieceChunk::new([Arc::new(encode_header(table, longest_body))]);
    let pieces = std::iter::once(Arc::new(header)).chain(chunks.iter().map(|chunk| Arc::clone(&chunk.pieces)));
    let name = wire_name(&table.name, &table.guards);
    let body = Body::Rope(Rope::of_chunks(pieces.collect()));
    let entry = Entry::new(name, body, Arc::clone(&table.origins));
    EncodedTable {
        table: Arc::clone(table),
        chunks,
        entry: Arc::new(entry.made_from(Source::Table(Arc::clone(table)))),
    }
}

/// The entry of a table with some of its hosts replaced, or left out where there is none. The others keep their bytes.
pub(crate) fn replace_hosts(
    entry: &Arc<Entry>,
    replacement: impl Fn(&Arc<VirtualHost>) -> Option<Arc<VirtualHost>>,
) -> Arc<Entry> {
    let (Source::Table(table), Body::Rope(rope)) = (&entry.source, &entry.body) else {
        return Arc::clone(entry);
    };
    let mut encoder = Encoder::default();
    let mut hosts = Vec::with_capacity(table.hosts.len());
    let mut pieces = rope.pieces();
    let mut kept = Vec::with_capacity(rope.count());
    kept.extend(pieces.next().cloned());
    for (host, piece) in table.hosts.iter().zip(pieces) {
        let Some(other) = replacement(host) else { continue };
        kept.push(if Arc::ptr_eq(host, &other) {
            Arc::clone(piece)
        } else {
            Arc::clone(encoder.encode(&other, None).piece())
        });
        hosts.push(other);
    }
    let table = RouteTable {
        hosts: hosts.into(),
        name: table.name.clone(),
        guards: table.guards.clone(),
        origins: Arc::clone(&table.origins),
    };
    let replaced = Entry::new(Arc::clone(&entry.name), Body::rope(kept), Arc::clone(&entry.origins));
    Arc::new(replaced.made_from(Source::Table(Arc::new(table))))
}

/// The same table as it is called behind other guards; none of what isn't made from a table of the fleet.
pub(crate) fn behind_guards(entry: &Entry, guards: &GuardSet) -> Option<Entry> {
    let (Source::Table(table), Body::Rope(rope)) = (&entry.source, &entry.body) else {
        return None;
    };
    let mut pieces = rope.pieces().cloned();
    let table = RouteTable {
        guards: guards.clone(),
        ..RouteTable::clone(table)
    };
    let header = pieces.next()?;
    let header = header_again(&header, &table)?;
    let body = Body::rope(std::iter::once(Arc::new(header)).chain(pieces));
    let renamed = Entry::new(wire_name(&table.name, guards), body, Arc::clone(&entry.origins));
    Some(renamed.made_from(Source::Table(Arc::new(table))))
}

/// A host encoded as it stands in its table.
pub(crate) fn encode_host_alone(host: &Arc<VirtualHost>) -> Arc<Piece> {
    Arc::clone(Encoder::default().encode(host, None).piece())
}
