//! What documents tell people to run works. Every `edgectl` and `edgegateway certgen|version` line in a `sh` block that
//! needs nothing else is run as written, from the root of the repository, with a home folder of its own. Of every other
//! line, and of every command in a sentence, the programs must know the subcommands and flags.

use anyhow::{Context, Result, ensure};
use e2e::stack::program;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every document of the repository.
fn documents() -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type()?.is_dir() {
                let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
                folders.extend(is_ours.then_some(path));
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Text between backticks in the sentences of a text that begins with one of our programs.
fn mentioned(text: &str) -> Vec<String> {
    let mut inside = false;
    let sentences = text.lines().filter(|line| {
        let is_fence = line.trim().starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    });
    let sentences = sentences.collect::<Vec<_>>().join(" ");
    let spans = sentences.split('`').skip(1).step_by(2);
    let words = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    words
        .filter(|span| PROGRAMS.iter().any(|program| span.starts_with(&format!("{program} "))))
        .collect()
}

/// The beginning of a command that stands for nothing else: the program, its subcommands and flags.
fn known_part(command: &str) -> Vec<&str> {
    let is_plain = |word: &&str| {
        let mut letters = word.chars();
        letters.all(|c| c.is_ascii_alphanumeric() || "-_./:=@".contains(c)) && !word.starts_with("/")
    };
    command.split_whitespace().take_while(is_plain).collect()
}

/// Command lines in the `sh` blocks of a text.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => found.push(line.split("  #").next().unwrap_or_default().trim().to_owned()),
            _ => {}
        }
    }
    found
}

fn is_tested(command: &str) -> bool {
    let one_shot = [
        "edgectl x translate",
        "edgectl version",
        "edgectl completion",
        "edgegateway version",
        "edgegateway certgen",
    ];
    one_shot.iter().any(|start| command.contains(start))
}

const PROGRAMS: [&str; 3] = ["edgectl", "edgegateway", "edge-proxy"];

#[test]
fn commands_in_documents_run() -> Result<()> {
    let edgectl = program("edgectl")?;
    let folder = edgectl.parent().context("a program without folder")?;
    let path = format!("{}:{}", folder.display(), env::var("PATH")?);
    let home = tempfile::tempdir()?;
    let mut count = 0;
    for document in documents()? {
        let text = fs::read_to_string(&document)?;
        for command in commands(&text).iter().filter(|c| is_tested(c)) {
            let output = Command::new("bash")
                .args(["-o", "pipefail", "-c", command])
                .current_dir(root())
                .env("PATH", &path)
                .env("HOME", home.path())
                .output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(
                output.status.success(),
                "{}: `{command}`: {}\n{said}",
                document.display(),
                output.status
            );
            ensure!(
                !output.stdout.is_empty(),
                "{}: `{command}` prints nothing",
                document.display()
            );
            count += 1;
        }
    }
    ensure!(count > 0, "no document has a command to run");
    Ok(())
}

#[test]
fn commands_in_documents_are_known() -> Result<()> {
    let mut count = 0;
    for document in documents()? {
        let text = fs::read_to_string(&document)?;
        let blocks = commands(&text).into_iter().filter(|command| !is_tested(command));
        let blocks = blocks.filter(|command| {
            let program = command.split_whitespace().next().unwrap_or_default();
            PROGRAMS.contains(&program.trim_start_matches("target/release/"))
        });
        for command in blocks.chain(mentioned(&text)) {
            let mut words = known_part(&command).into_iter();
            let name = words
                .next()
                .context("no program")?
                .trim_start_matches("target/release/");
            // Whatever stands before it is looked at first.
            let output = Command::new(program(name)?).args(words).arg("--help").output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            // A sentence names a flag without the value that it takes.
            let is_known = output.status.success() || said.contains("a value is required for");
            ensure!(is_known, "{}: `{command}`: {said}", document.display());
            count += 1;
        }
    }
    ensure!(count > 20, "only {count} commands were found");
    Ok(())
}

#[test]
fn commands_are_found_in_sentences() {
    let text = "Say `edgectl x\nstatus all`, not `edgectl`.\n```sh\n`edgectl a`\n```\n`--flag` `edge-proxy -c FILE|-`";
    assert_eq!(mentioned(text), ["edgectl x status all", "edge-proxy -c FILE|-"]);
    assert_eq!(known_part("edge-proxy -c FILE|-"), ["edge-proxy", "-c"]);
}

/// Flags and commands in what `--help` prints.
fn offered(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start);
    let first = lines.filter(|line| line.starts_with('-'));
    let words = first.flat_map(|line| line.split([' ', ',', '=']).take(3));
    words.filter(|word| word.starts_with("--")).collect()
}

/// A page with a table of a command's flags has each of them.
#[test]
fn tables_of_flags_are_whole() -> Result<()> {
    for (page, command) in [("docs/translate.md", &["edgectl", "x", "translate"][..])] {
        let text = fs::read_to_string(root().join(page))?;
        let (_, table) = text
            .split_once("| flag |")
            .with_context(|| format!("{page} has no table"))?;
        let (table, _) = table.split_once("\n\n").unwrap_or((table, ""));
        let help = Command::new(program(command[0])?)
            .args(&command[1..])
            .arg("--help")
            .output()?;
        let help = String::from_utf8(help.stdout)?;
        let flags = offered(&help);
        ensure!(flags.len() > 2, "no flags in {help}");
        // Of --from there is one value, and --help is everybody's.
        for flag in flags.into_iter().filter(|flag| !["--from", "--help"].contains(flag)) {
            ensure!(table.contains(&format!("`{flag}`")), "the table of {page} lacks {flag}");
        }
    }
    Ok(())
}

/// Packages take manual pages from the programs themselves, so each page says what `--help` does.
#[test]
fn manual_pages_say_what_the_programs_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, order) in [
        ("edgectl", "manual"),
        ("edgegateway", "manual"),
        ("edge-proxy", "--manual"),
    ] {
        let written = Command::new(program(name)?).arg(order).arg(folder.path()).output()?;
        ensure!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    }
    for (page, command) in [
        ("edgectl-x-translate", &["edgectl", "x", "translate"][..]),
        ("edgectl-x-status", &["edgectl", "x", "status"]),
        ("edgegateway-server", &["edgegateway", "server"]),
        ("edge-proxy", &["edge-proxy"]),
    ] {
        let path = folder.path().join(page).with_extension("1");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        // In the page's language a hyphen that isn't one of the text's stands behind a backslash.
        let text = text.replace("\\-", "-");
        let help = Command::new(program(command[0])?)
            .args(&command[1..])
            .arg("--help")
            .output()?;
        let help = String::from_utf8(help.stdout)?;
        let flags = offered(&help);
        ensure!(flags.len() > 2, "no flags in {help}");
        for flag in flags {
            ensure!(text.contains(flag), "{page} lacks {flag}");
        }
        ensure!(!text.contains("hot restart"), "{page} has what --help hides");
    }
    Ok(())
}

/// `certgen` stands in the midst of sentences, not in blocks.
#[test]
fn certificates_are_made_and_renewed_as_documented() -> Result<()> {
    let text = fs::read_to_string(root().join("docs/standalone.md"))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let home = tempfile::tempdir()?;
    let certificate = home.path().join(".config/edge-gateway/certs/edge/tls.crt");
    let mut made = Vec::new();
    for command in ["certgen --local", "certgen --local --overwrite"] {
        ensure!(
            text.contains(&format!("`edgegateway {command}`")),
            "`{command}` isn't documented"
        );
        let output = Command::new(program("edgegateway")?)
            .args(command.split(' '))
            .env("HOME", home.path())
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        made.push(fs::read_to_string(&certificate).with_context(|| certificate.display().to_string())?);
    }
    ensure!(made[0] != made[1], "the same certificate");
    Ok(())
}

#[test]
fn commands_are_found_in_blocks_only() {
    let text = "edgectl a\n```sh\nedgectl b   # and why\n```\n```yaml\nedgectl c\n```\n";
    assert_eq!(commands(text), ["edgectl b"]);
}
