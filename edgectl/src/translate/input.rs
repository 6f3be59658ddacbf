//! Reading: files, folders and standard input; then loading on every core.

use anyhow::{Context, Result, ensure};
use edge_ir::{Executor, in_shares};
use edge_threads::Cores;
use edge_translate::load::{self, Chunk, Limits, LoadFinding, Loaded, Severity, Source};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::PathBuf,
};

/// How many small pieces of work (`edge_ir::Executor`) reading a document is.
const DOCUMENT: usize = 8;

/// A text and what messages call it.
#[derive(Clone, Debug)]
pub struct Text {
    /// Path, or `-`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl Text {
    fn source(&self) -> Source<'_> {
        Source {
            name: &self.name,
            text: &self.text,
        }
    }
}

/// What was named, read.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The texts, in order of path.
    pub texts: Vec<Text>,
    /// What can't be read, or is no text.
    pub problems: Vec<LoadFinding>,
}

/// Reads everything that was named. A folder gives what the controller would read of it.
pub fn read(paths: &[PathBuf]) -> Result<Input> {
    let mut texts = BTreeMap::new();
    let mut roots = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        if name == "-" {
            ensure!(
                !texts.contains_key(path),
                "standard input is named twice, and can be read once"
            );
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
    let mut problems = listing.problems;
    for path in listing.files.into_keys() {
        match fs::read(&path) {
            Ok(bytes) => drop(texts.insert(path, bytes)),
            Err(error) => {
                let problem = format!("it can't be read: {}", edge_files::describe(&error));
                problems.insert(path, problem);
            }
        }
    }
    let mut input = Input::default();
    for (path, bytes) in texts {
        match edge_files::text(bytes) {
            Ok(text) => input.texts.push(Text {
                name: path.display().to_string(),
                text,
            }),
            Err(problem) => drop(problems.insert(path, problem)),
        }
    }
    let problem = |(path, message): (PathBuf, String)| LoadFinding {
        severity: Severity::Error,
        file: path.display().to_string().into(),
        line: 1,
        column: 1,
        object: None,
        message,
    };
    input.problems = problems.into_iter().map(problem).collect();
    Ok(input)
}

fn all_of(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Loads texts, in their order, as one input.
pub fn load(texts: &[Text], limits: &Limits) -> Loaded {
    load_by(&Cores::available(), texts, limits)
}

/// The same by somebody who runs what can be split: documents are independent, in one large text or in many small ones.
fn load_by(by: &dyn Executor, texts: &[Text], limits: &Limits) -> Loaded {
    let sources: Vec<Source<'_>> = texts.iter().map(Text::source).collect();
    let cut: Vec<_> = sources
        .iter()
        .map(|source| load::checked_split(source, limits))
        .collect();
    let documents: Vec<(usize, &Chunk)> = (0..)
        .zip(&cut)
        .flat_map(|(n, chunks)| chunks.iter().flatten().map(move |chunk| (n, chunk)))
        .collect();
    let shares = in_shares(by, &documents, DOCUMENT, |share| -> Vec<(usize, Loaded)> {
        let of_texts = share.chunk_by(|(a, _), (b, _)| a == b);
        let loaded = of_texts.map(|part| {
            let n = part[0].0;
            let chunks = part.iter().map(|(_, chunk)| *chunk);
            (n, load::load_chunks(&sources[n], chunks, limits))
        });
        loaded.collect()
    });
    let mut parts: Vec<Vec<Loaded>> = cut.iter().map(|_| Vec::new()).collect();
    for (n, part) in shares.into_iter().flatten() {
        parts[n].push(part);
    }
    let whole = parts.into_iter().zip(cut).map(|(parts, cut)| {
        let too_large = cut.err().map(|finding| Loaded::refused("", *finding));
        load::merge(parts.into_iter().chain(too_large))
    });
    load::merge_files(whole)
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
    fn a_file_that_is_no_text_costs_no_other() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), b"a: \xff").unwrap();
        fs::write(folder.path().join("b.yaml"), "kind: x").unwrap();
        let input = read(&[folder.path().to_owned()]).unwrap();
        assert_eq!(names(&input, folder.path()), ["b.yaml"]);
        let problem = input.problems[0].to_string();
        let expected = "a.yaml:1:1: error: it is no UTF-8 text (byte 3); save it as UTF-8";
        assert!(problem.ends_with(expected), "{problem}");
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

    /// Says that it has threads, and begins at the end.
    #[derive(Debug)]
    struct Backwards;

    impl Executor for Backwards {
        fn width(&self) -> usize {
            3
        }

        fn run(&self, count: usize, job: &(dyn Fn(usize) + Sync)) {
            assert!(count > 1);
            (0..count).rev().for_each(job);
        }
    }

    #[test]
    fn who_loads_changes_nothing() {
        let document = |i: usize| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: ns-{i} }}\n");
        let text = |name: usize, documents: std::ops::Range<usize>| Text {
            name: format!("f{name:03}"),
            text: documents.map(document).collect::<Vec<_>>().join("---\n") + "---\nkind: [\n",
        };
        let mut texts: Vec<Text> = (0..400).map(|n| text(n, n..n + 2)).collect();
        texts.push(text(400, 500..2000));
        let limits = Limits {
            documents: 1000,
            ..Limits::default()
        };
        for limits in [Limits::default(), limits] {
            let alone = load::merge_files(texts.iter().map(|text| load::load(&text.source(), &limits)));
            let shared = load_by(&Backwards, &texts, &limits);
            let said = |loaded: &Loaded| {
                let objects = loaded.objects.iter();
                objects
                    .map(|o| (o.object.key(), o.file.clone(), o.line))
                    .collect::<Vec<_>>()
            };
            assert_eq!(said(&alone), said(&shared));
            assert_eq!(alone.findings, shared.findings);
            assert!(alone.objects.len() >= 401 && alone.findings.len() > 799);
        }
    }
}
