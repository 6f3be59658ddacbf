//! Reading: files, folders and standard input; then loading on every core.

use anyhow::{Context, Result, bail};
use edge_translate::load::{self, Chunk, Limits, Loaded, Source};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    num::NonZero,
    ops::Range,
    path::{Path, PathBuf},
    thread,
};

/// Texts below this size are loaded where they are: starting threads would cost more than it gains.
const WORTH_A_THREAD: usize = 64 * 1024;

/// A text and what messages call it.
#[derive(Clone, Debug)]
pub struct Text {
    /// Path, or `-`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Reads everything that was named. Folders give their `.yaml`, `.yml` and `.json` files in order of path.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Text>> {
    let mut texts = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            io::stdin()
                .read_to_end(&mut bytes)
                .context("standard input can't be read")?;
            texts.push(text("-".to_owned(), bytes)?);
            continue;
        }
        let mut files = BTreeSet::new();
        collect(path, Named::Directly, &mut BTreeSet::new(), &mut files)?;
        for file in files {
            let bytes = fs::read(&file).with_context(|| format!("{} can't be read", file.display()))?;
            texts.push(text(file.display().to_string(), bytes)?);
        }
    }
    Ok(texts)
}

fn text(name: String, bytes: Vec<u8>) -> Result<Text> {
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is no text (UTF-8)"))?;
    Ok(Text { name, text })
}

/// How a path came up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// By the user, who means it whatever its name.
    Directly,
    /// In a folder, where its name must say that it holds resources.
    ByFolder,
}

/// Files below a path. Folders are remembered by their real path, so that symbolic links can't lead in circles.
fn collect(path: &Path, named: Named, seen: &mut BTreeSet<PathBuf>, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dangling link or a circle of links in a folder holds nothing.
        Err(_) if named == Named::ByFolder => return Ok(()),
        Err(error) => bail!("{} can't be read: {error}", path.display()),
    };
    if metadata.is_file() {
        let extension = path.extension().and_then(|e| e.to_str());
        if named == Named::Directly || extension.is_some_and(|e| ["yaml", "yml", "json"].contains(&e)) {
            files.insert(path.to_owned());
        }
    } else if metadata.is_dir() && seen.insert(fs::canonicalize(path)?) {
        for entry in fs::read_dir(path).with_context(|| format!("folder {} can't be read", path.display()))? {
            collect(&entry?.path(), Named::ByFolder, seen, files)?;
        }
    } else if named == Named::Directly && !metadata.is_dir() {
        // A pipe or device, such as `-f <(…)` gives.
        files.insert(path.to_owned());
    }
    Ok(())
}

/// Loads texts, in their order, as one input.
pub fn load(texts: &[Text]) -> Loaded {
    let limits = Limits::default();
    load::merge(texts.iter().map(|text| {
        load_text(
            &Source {
                name: &text.name,
                text: &text.text,
            },
            &limits,
        )
    }))
}

/// Documents are independent, so a large text is loaded by several threads.
fn load_text(source: &Source<'_>, limits: &Limits) -> Loaded {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    if source.text.len() < WORTH_A_THREAD || threads == 1 {
        return load::load(source, limits);
    }
    let chunks = match load::checked_split(source, limits) {
        Ok(chunks) => chunks,
        // Too large: `load` says so in its own words.
        Err(_) => return load::load(source, limits),
    };
    let parts = thread::scope(|scope| {
        let workers: Vec<_> = shares(&chunks, threads)
            .map(|share| {
                let chunks = &chunks[share];
                scope.spawn(move || load_chunks(source, chunks, limits))
            })
            .collect();
        workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect::<Result<Vec<_>, _>>()
    });
    // A worker that stopped in the middle lost its part; loading again in this thread shows why.
    parts.map_or_else(|_| load::load(source, limits), concat)
}

fn load_chunks(source: &Source<'_>, chunks: &[Chunk], limits: &Limits) -> Loaded {
    concat(chunks.iter().map(|chunk| load::load_chunk(source, chunk, limits)))
}

/// Puts parts behind each other; duplicates are looked for once, when everything is there.
fn concat(parts: impl IntoIterator<Item = Loaded>) -> Loaded {
    let mut whole = Loaded::default();
    for part in parts {
        whole.objects.extend(part.objects);
        whole.findings.extend(part.findings);
    }
    whole
}

/// Cuts a list of chunks into runs of about the same number.
fn shares(chunks: &[Chunk], parts: usize) -> impl Iterator<Item = Range<usize>> {
    let size = chunks.len().div_ceil(parts).max(1);
    let total = chunks.len();
    (0..total)
        .step_by(size)
        .map(move |start| start..(start + size).min(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[Text], root: &Path) -> Vec<String> {
        let short = |t: &Text| Path::new(&t.name).strip_prefix(root).unwrap().display().to_string();
        texts.iter().map(short).collect()
    }

    #[test]
    fn a_folder_gives_its_resource_files_in_order_and_links_in_circles_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("sub")).unwrap();
        for name in ["b.yaml", "a.json", "notes.txt", "sub/c.yml"] {
            fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("sub/up")).unwrap();
        std::os::unix::fs::symlink("loop.yaml", root.join("loop.yaml")).unwrap();
        assert_eq!(
            names(&read(&[root.to_owned()]).unwrap(), root),
            ["a.json", "b.yaml", "sub/c.yml"]
        );
    }

    #[test]
    fn a_file_that_is_named_is_read_whatever_its_extension() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        fs::write(&file, "kind: x").unwrap();
        assert_eq!(read(&[file]).unwrap()[0].text, "kind: x");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = read(&["/absent/file.yaml".into()]).unwrap_err().to_string();
        assert!(error.contains("/absent/file.yaml"), "{error}");
    }

    #[test]
    fn threads_change_nothing() {
        let document = |i: usize| {
            format!(
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns-{i}\n  labels: {{ pad: {} }}\n",
                "x".repeat(100)
            )
        };
        let many: Vec<String> = (0..1500).map(document).collect();
        let text = many.join("---\n") + "---\nkind: [\n";
        assert!(text.len() > WORTH_A_THREAD);
        let source = Source { name: "f", text: &text };
        let (one, many) = (
            load::load(&source, &Limits::default()),
            load_text(&source, &Limits::default()),
        );
        let keys = |loaded: &Loaded| {
            loaded
                .objects
                .iter()
                .map(|o| (o.object.key(), o.line))
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&one), keys(&many));
        assert_eq!(one.findings, many.findings);
        assert_eq!(one.findings.len(), 1);
    }

    #[test]
    fn shares_cover_everything_once() {
        let chunks = vec![Chunk { range: 0..0, line: 1 }; 7];
        assert_eq!(shares(&chunks, 3).collect::<Vec<_>>(), [0..3, 3..6, 6..7]);
        assert_eq!(shares(&[], 3).count(), 0);
    }
}
