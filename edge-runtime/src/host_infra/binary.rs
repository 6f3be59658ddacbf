//! Finding the proxy's binary.

use super::BINARY_FIELD;
use crate::error::describe;
use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The name of our own proxy's binary.
const NAME: &str = "edge-proxy";

/// The binary to start: the configured one, else ours beside the controller's, else ours on the search path.
pub(super) fn find(configured: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = configured {
        return check(path).map(|()| path.to_owned());
    }
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join(NAME)));
    let search = env::var_os("PATH").unwrap_or_default();
    let candidates = beside
        .into_iter()
        .chain(env::split_paths(&search).map(|folder| folder.join(NAME)));
    candidates.into_iter().find(|path| check(path).is_ok()).ok_or_else(|| {
        format!(
            "no {NAME} binary stands beside edgegateway or on the search path; build it with \
             `cargo build -p {NAME}` or name one in {BINARY_FIELD}"
        )
    })
}

fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let meta = fs::metadata(path)
        .map_err(|error| format!("proxy binary {shown}: {}; correct {BINARY_FIELD}", describe(&error)))?;
    if !meta.is_file() {
        return Err(format!("proxy binary {shown} is no file; correct {BINARY_FIELD}"));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(format!(
            "proxy binary {shown} is not executable; run `chmod +x {shown}` or correct {BINARY_FIELD}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_binary_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy");
        assert!(
            find(Some(&path))
                .unwrap_err()
                .contains("it doesn't exist; correct provider.custom")
        );
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(
            find(Some(&path))
                .unwrap_err()
                .contains("is not executable; run `chmod +x")
        );
        assert!(find(Some(folder.path())).unwrap_err().contains("is no file"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(Some(&path)), Ok(path));
    }
}
