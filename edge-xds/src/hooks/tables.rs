//! Route tables: services are asked about their routes and virtual hosts, and a table is put together of what they say.

use super::{
    Answer, Hook, Question, QuestionKey, Round, Stand, is_unchanged,
    single::CachedAnswer,
    split::{self, DOMAINS, Field, HOSTS, NAME, ROUTE_MATCH, ROUTE_METADATA, ROUTE_NAME, ROUTES},
};
use crate::{
    lower::plain_table_name,
    quarantine::origins_of,
    snapshot::{Body, Entry, Piece, ResourceType, Section, Source},
    wire::{put_bytes, put_message, put_str, put_varint},
};
use bytes::Bytes;
use edge_ir::{Origin, Origins, Route, VirtualHost};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// `Route.direct_response`, `DirectResponseAction.status`; `RouteMatch.prefix`.
const DIRECT_RESPONSE: u32 = 7;
const STATUS: u32 = 1;
const PREFIX: u32 = 1;

/// What became of each table and host, by their names without what is for proxies only.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<Arc<str>, Table>,
}

#[derive(Debug, Default)]
struct Table {
    cached: Option<CachedAnswer>,
    hosts: BTreeMap<Box<str>, Host>,
}

#[derive(Debug, Default)]
struct Host {
    kept: Option<KeptHost>,
    /// The latest of which all was answered.
    good: Option<Arc<Piece>>,
    /// The latest answer for each route, by its name.
    routes: BTreeMap<Box<str>, Bytes>,
}

#[derive(Debug)]
struct KeptHost {
    base: Arc<Piece>,
    result: Arc<Piece>,
    keys: Vec<QuestionKey>,
}

/// A host while its parts are asked about.
struct Work<'a> {
    fields: &'a [Field],
    hostnames: Box<[Box<str>]>,
    name: Arc<str>,
    /// The IR behind it, where it is known.
    host: Option<&'a Arc<VirtualHost>>,
    origins: &'a Origins,
    keys: Vec<QuestionKey>,
    /// All has been answered.
    is_settled: bool,
    /// The host as it was has to stay.
    must_stay: bool,
    /// Something hasn't been answered at all.
    is_pending: bool,
}

impl Tables {
    /// Tables whose hosts and routes are good as they are.
    pub(super) fn over(served: &Section) -> Self {
        let tables = served.entries().iter().map(|entry| {
            let (_, pieces) = cut(entry).unwrap_or_else(|| (Arc::new(Piece::new(Bytes::new())), Vec::new()));
            let hosts = pieces.iter().filter_map(|piece| {
                let (name, fields) = opened(piece)?;
                let host = Host {
                    kept: None,
                    good: Some(Arc::clone(piece)),
                    routes: routes_of(&fields),
                };
                Some((name, host))
            });
            let table = Table {
                cached: None,
                hosts: hosts.collect(),
            };
            (plain_name(entry), table)
        });
        Self {
            tables: tables.collect(),
        }
    }

    /// Nothing of what was answered is known to hold still.
    pub(super) fn ask_again(&mut self) {
        for table in self.tables.values_mut() {
            table.cached = None;
            table.hosts.values_mut().for_each(|host| host.kept = None);
        }
    }

    /// All tables as they are served.
    pub(super) fn apply(&mut self, round: &mut Round<'_>, base: &Section) -> Vec<Arc<Entry>> {
        let mut before = std::mem::take(&mut self.tables);
        let mut entries = Vec::with_capacity(base.entries().len());
        for entry in base.entries() {
            let plain = plain_name(entry);
            let mut table = before.remove(&plain).unwrap_or_default();
            entries.push(table.apply(round, entry));
            self.tables.insert(plain, table);
        }
        entries
    }
}

impl Table {
    fn apply(&mut self, round: &mut Round<'_>, entry: &Arc<Entry>) -> Arc<Entry> {
        if let Some(cached) = self.cached.as_ref().filter(|cached| is_unchanged(&cached.base, entry)) {
            round.reuse(&cached.keys);
            return Arc::clone(&cached.result);
        }
        self.cached = None;
        let Some((header, pieces)) = cut(entry) else {
            return Arc::clone(entry);
        };
        let mut hosts = match &entry.source {
            Source::Table(table) if table.hosts.len() == pieces.len() => Some(table.hosts.iter()),
            _ => None,
        };
        let mut before = std::mem::take(&mut self.hosts);
        let (mut keys, mut is_settled) = (Vec::new(), true);
        let mut served = vec![header];
        for piece in &pieces {
            let ir = hosts.as_mut().and_then(Iterator::next);
            let Some((name, fields)) = opened(piece) else { continue };
            let mut host = before.remove(&*name).unwrap_or_default();
            let mut work = Work::new(&fields, &name, ir, &entry.origins);
            served.push(host.apply(round, &mut work, piece));
            is_settled &= work.is_settled;
            keys.append(&mut work.keys);
            self.hosts.insert(name, host);
        }
        let is_other = served[1..].iter().zip(&pieces).any(|(a, b)| !Arc::ptr_eq(a, b));
        let result = match is_other || served.len() != pieces.len() + 1 {
            true => {
                let body = Body::rope(served);
                Arc::new(Entry::new(Arc::clone(&entry.name), body, Arc::clone(&entry.origins)))
            }
            false => Arc::clone(entry),
        };
        if is_settled {
            self.cached = Some(CachedAnswer {
                base: Arc::clone(entry),
                result: Arc::clone(&result),
                keys,
            });
        }
        result
    }
}

/// The name of a table without what is for proxies only: the guards that it is behind.
fn plain_name(entry: &Entry) -> Arc<str> {
    match &entry.source {
        Source::Table(table) => table.name.clone().into(),
        _ => plain_table_name(&entry.name).into(),
    }
}

/// The routes of a host by their names.
fn routes_of(host: &[Field]) -> BTreeMap<Box<str>, Bytes> {
    let routes = host.iter().filter(|field| field.number == ROUTES);
    let named = routes.filter_map(|field| {
        let fields = split::fields(&field.value)?;
        Some((split::text(&fields, ROUTE_NAME)?.into(), field.value.clone()))
    });
    named.collect()
}

/// A table as its header and its hosts, each as a field.
fn cut(entry: &Entry) -> Option<(Arc<Piece>, Vec<Arc<Piece>>)> {
    if let (Body::Rope(rope), Source::Table(_)) = (&entry.body, &entry.source) {
        let mut pieces = rope.pieces().cloned();
        return Some((pieces.next()?, pieces.collect()));
    }
    let (mut header, mut hosts) = (Vec::new(), Vec::new());
    for field in split::fields(&entry.body.contiguous())? {
        match field.number {
            HOSTS => hosts.push(Arc::new(Piece::new(field.whole))),
            _ => header.extend_from_slice(&field.whole),
        }
    }
    Some((Arc::new(Piece::new(header.into())), hosts))
}

/// The name and the fields of a host.
fn opened(piece: &Piece) -> Option<(Box<str>, Vec<Field>)> {
    let framed = split::fields(&piece.contiguous())?;
    let fields = split::fields(&framed.first()?.value)?;
    let name = split::text(&fields, NAME)?.into();
    Some((name, fields))
}

impl<'a> Work<'a> {
    fn new(fields: &'a [Field], name: &str, host: Option<&'a Arc<VirtualHost>>, origins: &'a Origins) -> Self {
        let domains = fields.iter().filter(|field| field.number == DOMAINS);
        let hostnames = domains.filter_map(|field| Some(std::str::from_utf8(&field.value).ok()?.into()));
        Self {
            fields,
            hostnames: hostnames.collect(),
            name: name.into(),
            host,
            origins,
            keys: Vec::new(),
            is_settled: true,
            must_stay: false,
            is_pending: false,
        }
    }

    fn ask_of_route(&mut self, round: &mut Round<'_>, name: &str, resource: &Bytes) -> Stand {
        let question = Question::One {
            hook: Hook::Route,
            resource: resource.clone(),
            hostnames: self.hostnames.clone(),
            custom: round.shown.beside_route(name),
        };
        self.ask(round, question)
    }

    fn ask(&mut self, round: &mut Round<'_>, question: Question) -> Stand {
        let stand = round.ask(question);
        match &stand {
            Stand::Taken(_, key) => self.keys.push(*key),
            Stand::Pending => (self.is_settled, self.is_pending) = (false, true),
            Stand::Open(_) | Stand::Held(_) => self.is_settled = false,
        }
        stand
    }

    /// The objects of a route, by its name on the wire, which has the host behind it; of one that isn't known those of
    /// the table.
    fn origins_of_route(&self, name: &str) -> Origins {
        let is_meant = |route: &&Arc<Route>| {
            let rest = name.strip_prefix(&*route.name.to_string());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = self
            .host
            .and_then(|host| Some((host, host.routes.iter().find(is_meant)?)));
        match found {
            Some((host, route)) => origins_of(host, &route.name.rule()),
            None => Arc::clone(self.origins),
        }
    }

    /// The objects of the host and of all its routes.
    fn origins_of_host(&self) -> Origins {
        let Some(host) = self.host else {
            return Arc::clone(self.origins);
        };
        let routes = host.routes.iter().flat_map(|route| route.effect.origins.iter());
        let all: BTreeSet<Origin> = host.origins.iter().chain(routes).cloned().collect();
        all.into_iter().collect()
    }
}

impl Host {
    fn apply(&mut self, round: &mut Round<'_>, work: &mut Work<'_>, piece: &Arc<Piece>) -> Arc<Piece> {
        let is_same = |kept: &&KeptHost| Arc::ptr_eq(&kept.base, piece) || kept.base == *piece;
        if let Some(kept) = self.kept.as_ref().filter(is_same) {
            round.reuse(&kept.keys);
            work.keys.extend(&kept.keys);
            return Arc::clone(&kept.result);
        }
        self.kept = None;
        let mut routes = BTreeMap::new();
        let message = self.with_routes(round, work, &mut routes);
        let whole = match work.is_pending || work.must_stay {
            true => None,
            false => Self::asked(round, work, &message),
        };
        let Some(whole) = whole else {
            self.routes.append(&mut routes);
            return match &self.good {
                Some(good) => Arc::clone(good),
                None => framed(closed_host(work.fields).into()),
            };
        };
        let result = framed(whole);
        let result = if *result == **piece { Arc::clone(piece) } else { result };
        if work.is_settled {
            self.good = Some(Arc::clone(&result));
            self.routes = routes;
            self.kept = Some(KeptHost {
                base: Arc::clone(piece),
                result: Arc::clone(&result),
                keys: work.keys.clone(),
            });
        } else {
            self.routes.append(&mut routes);
        }
        result
    }

    /// The host with what services make of its routes, and the answers among them.
    fn with_routes(
        &self,
        round: &mut Round<'_>,
        work: &mut Work<'_>,
        answers: &mut BTreeMap<Box<str>, Bytes>,
    ) -> Bytes {
        let mut message = Vec::new();
        for field in work.fields {
            if field.number != ROUTES || !round.hooks.hooks.contains(&Hook::Route) {
                message.extend_from_slice(&field.whole);
                continue;
            }
            let fields = split::fields(&field.value).unwrap_or_default();
            let name = split::text(&fields, ROUTE_NAME).unwrap_or_default();
            let route = match work.ask_of_route(round, name, &field.value) {
                Stand::Taken(Answer::One(bytes), _) => {
                    answers.insert(name.into(), bytes.clone());
                    bytes
                }
                Stand::Open(Answer::One(bytes)) => bytes,
                Stand::Held(problem) => {
                    round.hold(ResourceType::Routes, &name.into(), work.origins_of_route(name), problem);
                    self.instead_of(name, &fields, work)
                }
                Stand::Pending | Stand::Taken(..) | Stand::Open(_) => self.instead_of(name, &fields, work),
            };
            put_bytes(&mut message, ROUTES, &route);
        }
        message.into()
    }

    /// What is served in the place of a route.
    fn instead_of(&self, name: &str, fields: &[Field], work: &mut Work<'_>) -> Bytes {
        let Some(good) = self.routes.get(name) else {
            return closed_route(fields).into();
        };
        let before = split::fields(good).unwrap_or_default();
        if split::last(&before, ROUTE_MATCH) != split::last(fields, ROUTE_MATCH) {
            work.must_stay = self.good.is_some();
            return closed_route(fields).into();
        }
        good.clone()
    }

    /// What services make of the host; none while they fail.
    fn asked(round: &mut Round<'_>, work: &mut Work<'_>, message: &Bytes) -> Option<Bytes> {
        if !round.hooks.hooks.contains(&Hook::VirtualHost) {
            return Some(message.clone());
        }
        let question = Question::One {
            hook: Hook::VirtualHost,
            resource: message.clone(),
            hostnames: Box::default(),
            custom: None,
        };
        match work.ask(round, question) {
            Stand::Taken(Answer::One(bytes), _) | Stand::Open(Answer::One(bytes)) => Some(bytes),
            Stand::Held(problem) => {
                round.hold(ResourceType::Routes, &work.name, work.origins_of_host(), problem);
                None
            }
            Stand::Pending | Stand::Taken(..) | Stand::Open(_) => None,
        }
    }
}

fn framed(message: Bytes) -> Arc<Piece> {
    let mut out = Vec::with_capacity(message.len() + 8);
    put_bytes(&mut out, HOSTS, &message);
    Arc::new(Piece::new(out.into()))
}

/// A route that matches the same and answers 500.
fn closed_route(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        if [ROUTE_MATCH, ROUTE_METADATA, ROUTE_NAME].contains(&field.number) {
            out.extend_from_slice(&field.whole);
        }
    }
    put_internal_error(&mut out);
    out
}

/// A host of the same domains that answers 500.
fn closed_host(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields.iter().filter(|field| [NAME, DOMAINS].contains(&field.number)) {
        out.extend_from_slice(&field.whole);
    }
    put_message(&mut out, ROUTES, |out| {
        put_message(out, ROUTE_MATCH, |out| put_str(out, PREFIX, "/"));
        put_internal_error(out);
    });
    out
}

fn put_internal_error(out: &mut Vec<u8>) {
    put_message(out, DIRECT_RESPONSE, |out| put_varint(out, STATUS, 500u64));
}
