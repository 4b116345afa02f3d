//! All of a directory, as it is: owners, modes, times, extended attributes, devices and sockets. For a layer these say as much as the bytes do: a file that was
//! removed is a device, and a directory that hides what is below has an attribute.
//!
//! `cp` does that, and shares blocks where the file system can.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use base::io_error;

use crate::back::{BackError, Result};

/// What was copied.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copied {
    /// How much it takes, if nothing of it is shared.
    pub bytes: u64,
    /// Whether something went away while it was copied.
    pub some_went: bool,
}

/// Copies a directory, or a file, with at most so many bytes. What is at `to` goes first.
pub fn copy_whole(from: &Path, to: &Path, most: u64) -> Result<Copied> {
    let refused = |said: String| BackError::Refused {
        action: "the copy of the files",
        container: from.display().to_string(),
        said,
    };
    let bytes = size(from)?;
    if bytes > most {
        return Err(refused(format!(
            "they have {bytes} bytes, more than the {most} that are copied for a branch"
        )));
    }
    match fs::symlink_metadata(to) {
        Ok(there) if there.is_dir() => empty(to)?,
        Ok(_) => fs::remove_file(to).map_err(io_error("remove", to))?,
        Err(_) => {}
    }
    let mut cp = Command::new("cp");
    cp.args(["--archive", "--reflink=auto", "--one-file-system", "--no-target-directory", "--"]);
    let done = cp.arg(from).arg(to).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let done = done.map_err(io_error("run `cp` for", from))?;
    let said = String::from_utf8_lossy(&done.stderr);
    // Whoever works there removes what they made.
    let is_gone = |line: &str| line.ends_with("No such file or directory");
    let some_went = !done.status.success();
    if some_went && (said.is_empty() || !said.lines().all(is_gone)) {
        return Err(refused(said.lines().next().unwrap_or("cp gave no reason").to_owned()));
    }
    Ok(Copied { bytes, some_went })
}

/// Removes what is in a directory, and leaves it.
fn empty(directory: &Path) -> Result<()> {
    let failed = || io_error("empty", directory);
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let is_directory = entry.file_type().map_err(failed())?.is_dir();
        let path = entry.path();
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed())?;
    }
    Ok(())
}

/// What it takes on disk. What goes away meanwhile takes nothing.
fn size(from: &Path) -> Result<u64> {
    let first = fs::symlink_metadata(from).map_err(io_error("look at", from))?;
    let (mut bytes, mut unvisited) = (0_u64, vec![from.to_owned()]);
    while let Some(path) = unvisited.pop() {
        let Ok(seen) = fs::symlink_metadata(&path) else { continue };
        if seen.dev() != first.dev() {
            continue;
        }
        bytes = bytes.saturating_add(seen.blocks().saturating_mul(512));
        if seen.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            unvisited.extend(entries.map(|entry| entry.path()));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn everything_comes_as_it_is_and_what_was_there_goes() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("deep/er/file"), vec![7_u8; 10_000]).unwrap();
        fs::set_permissions(from.join("deep"), fs::Permissions::from_mode(0o1711)).unwrap();
        symlink("/nowhere", from.join("link")).unwrap();
        let _listener = UnixListener::bind(from.join("socket")).unwrap();
        fs::create_dir_all(to.join("old")).unwrap();
        fs::write(to.join("old/file"), "x").unwrap();
        let copied = copy_whole(&from, &to, 1 << 20).unwrap();
        assert!(copied.bytes >= 10_000 && !copied.some_went, "{copied:?}");
        assert_eq!(fs::read(to.join("deep/er/file")).unwrap().len(), 10_000);
        assert_eq!(fs::metadata(to.join("deep")).unwrap().permissions().mode() & 0o7777, 0o1711);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert!(to.join("socket").exists() && !to.join("old").exists());
        let error = copy_whole(&from, &to, 5000).unwrap_err();
        assert!(error.to_string().contains("more than the 5000"), "{error}");
        assert!(to.join("deep").exists(), "nothing goes before it is known that the rest comes");
        copy_whole(&home.path().join("none"), &to, 1 << 20).unwrap_err();
    }
}
