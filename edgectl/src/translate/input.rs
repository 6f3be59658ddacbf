//! Reading: files, folders and standard input; then loading on every core.

use anyhow::{Context, Result};
use edge_translate::load::{self, Chunk, Limits, LoadFinding, Loaded, Severity, Source};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    num::NonZero,
    ops::Range,
    path::PathBuf,
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

/// What was named, read.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The texts, in order of path.
    pub texts: Vec<Text>,
    /// What lies in a folder and can't be read.
    pub problems: Vec<LoadFinding>,
}

/// Reads everything that was named. A folder gives what the controller would read of it.
pub fn read(paths: &[PathBuf]) -> Result<Input> {
    let mut texts = BTreeMap::new();
    let mut roots = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        if name == "-" {
            texts.insert(
                path.clone(),
                all_of(&mut io::stdin()).context("standard input can't be read")?,
            );
            continue;
        }
        let meta = fs::metadata(path).with_context(|| format!("{name} can't be read"))?;
        if meta.is_file() || meta.is_dir() {
            roots.push(path.clone());
        } else {
            // A pipe or device, such as `-f <(…)` gives.
            let bytes = fs::File::open(path).and_then(|mut file| all_of(&mut file));
            texts.insert(path.clone(), bytes.with_context(|| format!("{name} can't be read"))?);
        }
    }
    let listing = edge_files::list(&roots);
    for path in listing.files.into_keys() {
        let bytes = fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
        texts.insert(path, bytes);
    }
    let texts = texts
        .into_iter()
        .map(|(path, bytes)| text(path.display().to_string(), bytes));
    let problem = |(path, message): (PathBuf, String)| LoadFinding {
        severity: Severity::Error,
        file: path.display().to_string().into(),
        line: 1,
        column: 1,
        object: None,
        message,
    };
    Ok(Input {
        texts: texts.collect::<Result<_>>()?,
        problems: listing.problems.into_iter().map(problem).collect(),
    })
}

fn all_of(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(name: String, bytes: Vec<u8>) -> Result<Text> {
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is no text (UTF-8)"))?;
    Ok(Text { name, text })
}

/// Loads texts, in their order, as one input.
pub fn load(texts: &[Text], limits: &Limits) -> Loaded {
    load::merge_files(texts.iter().map(|text| {
        let source = Source {
            name: &text.name,
            text: &text.text,
        };
        load::merge([load_text(&source, limits)])
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
    use std::path::Path;

    fn names(input: &Input, root: &Path) -> Vec<String> {
        let short = |t: &Text| Path::new(&t.name).strip_prefix(root).unwrap().display().to_string();
        input.texts.iter().map(short).collect()
    }

    #[test]
    fn a_folder_gives_what_the_controller_reads_of_it() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        fs::create_dir(root.join("..v1")).unwrap();
        for name in [
            "b.YML",
            "a.json",
            "notes.txt",
            "sub/c.yml",
            ".d.yaml",
            "sub/.hidden/e.yaml",
            "..v1/f.yaml",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/f.yaml", root.join("f.yaml")).unwrap();
        symlink(root, root.join("sub/up")).unwrap();
        symlink("loop.yaml", root.join("loop.yaml")).unwrap();
        symlink("nowhere", root.join("broken.yaml")).unwrap();
        let input = read(&[root.to_owned()]).unwrap();
        assert_eq!(names(&input, root), ["a.json", "b.YML", "f.yaml", "sub/c.yml"]);
        let listing = edge_files::list(&[root.to_owned()]);
        assert_eq!(input.problems.len(), 3, "{:?}", input.problems);
        assert!(input.problems.iter().map(|p| &p.message).eq(listing.problems.values()));
    }

    #[test]
    fn of_an_object_in_two_files_the_first_path_is_in_force() {
        let folder = tempfile::tempdir().unwrap();
        for (name, port) in [("b.yaml", 2), ("a.yaml", 1)] {
            let text =
                format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{ports: [{{port: {port}}}]}}\n");
            fs::write(folder.path().join(name), text).unwrap();
        }
        let paths = ["b.yaml", "a.yaml"].map(|name| folder.path().join(name));
        let loaded = load(&read(&paths).unwrap().texts, &Limits::default());
        assert_eq!(loaded.objects.len(), 1);
        assert!(loaded.objects[0].file.ends_with("a.yaml"));
        let finding = loaded.findings[0].to_string();
        assert!(
            finding.contains("b.yaml:1:1: warning: Service/default/s: it stands at "),
            "{finding}"
        );
        assert!(finding.contains("a.yaml:1 too, and that one is in force"), "{finding}");
    }

    #[test]
    fn a_file_that_is_named_is_read_whatever_its_extension() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        fs::write(&file, "kind: x").unwrap();
        assert_eq!(read(&[file]).unwrap().texts[0].text, "kind: x");
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
                "x".repeat(60)
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
