//! Databases that tell where addresses are, in MaxMind's format: a search tree over the bits of addresses, the data
//! that its leaves lead to, and a description of both. <https://maxmind.github.io/MaxMind-DB/>

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::net::IpAddr;

/// What stands between the tree and the data.
const SEPARATOR: [u8; 16] = [0; 16];
/// What stands before the description.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// Bits of an IPv6 address; IPv4 has its place at `::/96`.
const BITS: u32 = 128;

/// A database in the making.
pub struct Database {
    kind: &'static str,
    nodes: Vec<[Branch; 2]>,
    data: Vec<u8>,
}

/// What one more bit leads to.
#[derive(Clone, Copy)]
enum Branch {
    Nothing,
    Node(u32),
    Data(u32),
}

impl Database {
    /// One that knows of no network, of a type such as `GeoLite2-City`.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            nodes: vec![[Branch::Nothing; 2]],
            data: Vec::new(),
        }
    }

    /// Tells something of a network that isn't within another one.
    pub fn with(mut self, network: &str, told: &Value) -> Result<Self> {
        let (address, bits) = network.split_once('/').context("a network has a number of bits")?;
        let bits: u32 = bits.parse()?;
        let (address, length) = match address.parse()? {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)), bits + BITS - 32),
            IpAddr::V6(v6) => (u128::from(v6), bits),
        };
        let leaf = Branch::Data(u32::try_from(self.data.len())?);
        put(&mut self.data, told)?;
        let mut node = 0;
        for depth in 0..length {
            let bit = usize::from(address >> (BITS - 1 - depth) & 1 == 1);
            let branch = self.nodes[node][bit];
            node = match branch {
                _ if depth + 1 == length => {
                    self.nodes[node][bit] = leaf;
                    break;
                }
                Branch::Node(next) => next as usize,
                Branch::Nothing | Branch::Data(_) => {
                    let next = self.nodes.len();
                    self.nodes.push([Branch::Nothing; 2]);
                    self.nodes[node][bit] = Branch::Node(u32::try_from(next)?);
                    next
                }
            };
        }
        Ok(self)
    }

    /// The file.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let count = u32::try_from(self.nodes.len())?;
        let mut file = Vec::new();
        for branch in self.nodes.iter().flatten() {
            let record = match branch {
                Branch::Nothing => count,
                Branch::Node(node) => *node,
                Branch::Data(at) => count + u32::try_from(SEPARATOR.len())? + at,
            };
            // Records of 24 bits.
            file.extend_from_slice(&record.to_be_bytes()[1..]);
        }
        file.extend_from_slice(&SEPARATOR);
        file.extend_from_slice(&self.data);
        file.extend_from_slice(MARKER);
        self.describe(count, &mut file)?;
        Ok(file)
    }

    fn describe(&self, count: u32, out: &mut Vec<u8>) -> Result<()> {
        control(out, Type::Map, 9)?;
        let texts = [
            ("database_type", json!(self.kind)),
            ("description", json!({ "en": "for tests" })),
            ("languages", json!(["en"])),
            ("node_count", json!(count)),
        ];
        for (key, value) in texts {
            put(out, &key.into())?;
            put(out, &value)?;
        }
        let numbers = [
            ("binary_format_major_version", Type::Unsigned16, 2_u64),
            ("binary_format_minor_version", Type::Unsigned16, 0),
            ("build_epoch", Type::Unsigned64, 1),
            ("ip_version", Type::Unsigned16, 6),
            ("record_size", Type::Unsigned16, 24),
        ];
        for (key, kind, number) in numbers {
            put(out, &key.into())?;
            unsigned(out, kind, number)?;
        }
        Ok(())
    }
}

/// Types of values, by their numbers.
#[derive(Clone, Copy)]
enum Type {
    Text = 2,
    Unsigned16 = 5,
    Unsigned32 = 6,
    Map = 7,
    Unsigned64 = 9,
    List = 11,
    Bool = 14,
}

/// Writes what a value is and how long.
fn control(out: &mut Vec<u8>, kind: Type, size: usize) -> Result<()> {
    /// Lengths from here on have a byte of their own.
    const LONG: u8 = 29;
    let size = u8::try_from(size)?;
    let short = size.min(LONG);
    match kind as u8 {
        // The number of a type beyond seven follows.
        extended @ 8.. => out.extend_from_slice(&[short, extended - 7]),
        plain => out.push(plain << 5 | short),
    }
    out.extend((size >= LONG).then(|| size - LONG));
    Ok(())
}

fn unsigned(out: &mut Vec<u8>, kind: Type, number: u64) -> Result<()> {
    let bytes = number.to_be_bytes();
    let used = bytes.iter().skip_while(|byte| **byte == 0).count();
    control(out, kind, used)?;
    out.extend_from_slice(&bytes[bytes.len() - used..]);
    Ok(())
}

fn put(out: &mut Vec<u8>, value: &Value) -> Result<()> {
    match value {
        // A truth is its own length.
        Value::Bool(is_so) => control(out, Type::Bool, usize::from(*is_so)),
        Value::Number(number) => {
            let number = number.as_u64().context("numbers are whole and not below zero")?;
            unsigned(out, Type::Unsigned32, u32::try_from(number)?.into())
        }
        Value::String(text) => {
            control(out, Type::Text, text.len())?;
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Value::Array(list) => {
            control(out, Type::List, list.len())?;
            list.iter().try_for_each(|entry| put(out, entry))
        }
        Value::Object(map) => {
            control(out, Type::Map, map.len())?;
            map.iter().try_for_each(|(key, value)| {
                put(out, &key.as_str().into())?;
                put(out, value)
            })
        }
        Value::Null => bail!("the format has no null"),
    }
}
