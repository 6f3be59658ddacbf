//! The module in a layer of an image: the file `plugin.wasm` of an archive, as images for proxies have it.

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use std::{
    io::{self, Read},
    path::Path,
};

/// The file that is the module.
const FILE: &str = "plugin.wasm";
/// What data begins with that gzip has packed (RFC 1952 §2.3.1).
const PACKED: &[u8] = &[0x1f, 0x8b];

/// The module of a layer. Nothing is unpacked beyond `most` bytes.
pub(super) fn module(layer: &[u8], most: usize) -> Result<Bytes, String> {
    let bound = u64::try_from(most).unwrap_or(u64::MAX);
    match layer.starts_with(PACKED) {
        true => find(MultiGzDecoder::new(layer).take(bound)),
        false => find(layer.take(bound)),
    }
}

fn find(archive: impl Read) -> Result<Bytes, String> {
    let broken = |error: io::Error| format!("its layer can't be unpacked: {error}");
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let is_module = {
            let path = entry.path().map_err(broken)?;
            path.strip_prefix("./").unwrap_or(&path) == Path::new(FILE)
        };
        if is_module && entry.header().entry_type().is_file() {
            let size = entry.size();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(broken)?;
            if u64::try_from(bytes.len()).ok() != Some(size) {
                return Err("its module is too large".to_owned());
            }
            return Ok(bytes.into());
        }
    }
    Err(format!("its layer holds no file {FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, *content).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_module_is_found_in_archives_packed_or_not() {
        let both = archive(&[("runtime-config.json", b"{}"), ("./plugin.wasm", b"module")]);
        assert_eq!(&*module(&both, 1 << 20).unwrap(), b"module");
        assert_eq!(&*module(&packed(&both), 1 << 20).unwrap(), b"module");
    }

    #[test]
    fn what_holds_none_or_too_much_is_refused() {
        let error = |layer: &[u8], most| module(layer, most).unwrap_err();
        let other = archive(&[("dir/plugin.wasm", b"module")]);
        assert!(error(&other, 1 << 20).contains("holds no file plugin.wasm"));
        assert!(!error(b"no archive", 1 << 20).is_empty());
        let large = packed(&archive(&[("plugin.wasm", &[0; 1 << 20])]));
        let said = error(&large, 1 << 16);
        assert!(
            said.contains("too large") || said.contains("can't be unpacked"),
            "{said}"
        );
    }
}
