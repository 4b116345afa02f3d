//! Whether a tree that stands by still has the files open that a restore would open now.
//!
//! It has opened them when it was made. Since then the living session, or anybody, may have put another file under the same name; a
//! restore of this moment would open that one. So every file that the tree has open, maps or stands in must have the name that
//! it had, and that name must lead to this very file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::proc;
use sandbox::process;

/// What the kernel writes behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";
/// What every box has for itself: nobody outside can have changed it. Also where memory without a file is shown.
const OF_THE_BOX: [&[u8]; 6] = [b"/dev/", b"/run/", b"/proc/", b"/memfd:", b"/SYSV", b"/anon_hugepage"];
/// But this part of it is the session's directory.
const NOT_OF_THE_BOX: &[u8] = b"/run/infinijup-box/";

/// Says what is wrong with the files of the tree below `root`, which may have those of `known` open.
pub(super) fn check(root: i32, known: &BTreeSet<PathBuf>) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("its files cannot be looked at: {error}");
    let tree = process::tree(root).map_err(|error| cannot(&error))?;
    if tree.iter().all(|one| one.is_zombie()) {
        return Err("it is gone".to_owned());
    }
    for pid in tree.iter().filter(|one| !one.is_zombie()).map(|one| one.pid) {
        let gone = || format!("process {pid} of it is gone");
        let open = proc::descriptors(pid).map_err(|error| cannot(&error))?.ok_or_else(gone)?;
        for (fd, path) in open {
            check_one(&path, known)?;
            check_inode(pid, &proc::path(pid, &format!("fd/{fd}")), &path)?;
        }
        for link in ["cwd", "exe"] {
            let link = proc::path(pid, link);
            let path = fs::read_link(&link).map_err(|error| cannot(&error))?;
            check_one(&path, known)?;
            check_inode(pid, &link, &path)?;
        }
        let maps = proc::read(pid, "maps").map_err(|error| cannot(&error))?.ok_or_else(gone)?;
        let mut mapped: Vec<&[u8]> = maps.split(|byte| *byte == b'\n').filter_map(file_of).collect();
        mapped.sort_unstable();
        mapped.dedup();
        for path in mapped {
            check_one(Path::new(&std::ffi::OsString::from_vec(path.to_vec())), known)?;
        }
    }
    Ok(())
}

/// The file of a line of `maps`.
fn file_of(line: &[u8]) -> Option<&[u8]> {
    let at = line.iter().position(|byte| *byte == b'/')?;
    line.get(at..)
}

/// A path that the kernel shows for something open.
fn check_one(shown: &Path, known: &BTreeSet<PathBuf>) -> Result<(), String> {
    let text = shown.as_os_str().as_bytes();
    if !text.starts_with(b"/") || is_own(text) {
        return Ok(());
    }
    if text.ends_with(DELETED) || !known.contains(shown) {
        return Err(format!("`{}` is not the file that it was", shown.display()));
    }
    Ok(())
}

/// The name must lead to what is open, in the tree's own view of the machine.
fn check_inode(pid: i32, link: &Path, shown: &Path) -> Result<(), String> {
    let text = shown.as_os_str().as_bytes();
    if !text.starts_with(b"/") || is_own(text) {
        return Ok(());
    }
    let named = proc::path(pid, "root").join(shown.strip_prefix("/").unwrap_or(shown));
    let (open, named) = (fs::metadata(link), fs::metadata(named));
    match (open, named) {
        (Ok(open), Ok(named)) if (open.dev(), open.ino()) == (named.dev(), named.ino()) => Ok(()),
        _ => Err(format!("`{}` is another file than the one that is open", shown.display())),
    }
}

fn is_own(path: &[u8]) -> bool {
    OF_THE_BOX.iter().any(|own| path.starts_with(own)) && !path.starts_with(NOT_OF_THE_BOX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Child, Command, Stdio};

    struct Reader {
        child: Child,
        known: BTreeSet<PathBuf>,
    }

    /// A process with one file open, and all paths that it has when it begins.
    fn reader(file: &Path) -> Reader {
        let mut command = Command::new("sleep");
        // With a language it would open files of that later, when we believe that we know all of its paths.
        command
            .env("LC_ALL", "C")
            .arg("60")
            .current_dir("/")
            .stdin(File::open(file).unwrap())
            .stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let is_sleep = || fs::read_link(proc::path(pid, "exe")).is_ok_and(|exe| !exe.ends_with("machine"));
        let maps = || proc::read(pid, "maps").unwrap().unwrap();
        while !is_sleep() || !String::from_utf8_lossy(&maps()).contains("libc") {
            std::thread::yield_now();
        }
        let maps = maps();
        let mapped = maps.split(|byte| *byte == b'\n').filter_map(file_of);
        let mapped = mapped.map(|path| PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())));
        let known = mapped.chain([file.to_owned(), "/".into()]).collect();
        Reader { child, known }
    }

    impl Reader {
        fn check(&self) -> Result<(), String> {
            check(i32::try_from(self.child.id()).unwrap(), &self.known)
        }
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }

    #[test]
    fn the_same_file_with_another_content_is_the_same_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().canonicalize().unwrap().join("a");
        fs::write(&file, "one").unwrap();
        let reader = reader(&file);
        fs::write(&file, "two, and longer").unwrap();
        reader.check().unwrap();
    }

    #[test]
    fn another_file_of_that_name_is_another_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().canonicalize().unwrap().join("a");
        fs::write(&file, "one").unwrap();
        let reader = reader(&file);
        let other = file.with_extension("new");
        fs::write(&other, "one").unwrap();
        fs::rename(&other, &file).unwrap();
        assert!(reader.check().unwrap_err().contains("is not the file that it was"));
    }

    #[test]
    fn a_file_that_moved_away_is_not_the_one_that_a_restore_would_open() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().canonicalize().unwrap().join("a");
        fs::write(&file, "one").unwrap();
        let reader = reader(&file);
        fs::rename(&file, file.with_extension("away")).unwrap();
        fs::write(&file, "one").unwrap();
        assert!(reader.check().unwrap_err().contains("a.away"));
    }

    #[test]
    fn what_is_gone_has_no_files() {
        assert!(check(i32::MAX, &BTreeSet::new()).is_err());
    }
}
