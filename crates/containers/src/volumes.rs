//! Whose the places are that are mounted in a container.
//!
//! A bind mount shows something of this machine. Mostly that is a volume, a directory that somebody has given to the container. But runtimes
//! bind files of their own, too (`/etc/hosts`, `/etc/resolv.conf`, podman's `/dev/shm`): they write those anew whenever they make the
//! container, and nobody has to save or to restore them. And what the container may only read is not its work: whoever looks after a directory of
//! settings or of data for many containers does not expect that one of them puts it back to what it was yesterday.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::back::inside;
use crate::container::ContainerId;
use crate::specification::{Specification, SpecifiedMount};

/// Where runtimes put files of their own, whichever source they have.
const OF_RUNTIMES: [&str; 9] = [
    "/dev",
    "/proc",
    "/sys",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/run/.containerenv",
    "/run/secrets",
    "/var/run/secrets",
];
/// The length of an id that a runtime has made up. One that people chose may be part of any path.
const RANDOM_ID: usize = 64;

/// What is mounted in a container, by whose it is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Volumes {
    /// Directories and files of this machine: as it sees them, and where they are. The innermost last.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Those of them that it may only read; and `/`, if that is so of its root.
    pub read_only: Vec<PathBuf>,
    /// What is in memory, the kernel's, or its runtime's.
    pub private: Vec<PathBuf>,
}

impl Volumes {
    /// Of a container with this specification. `root` is its root directory on this machine as far as it can be seen now; sources that are not full
    /// paths begin at `bundle`.
    pub fn of(specification: &Specification, root: &Path, bundle: &Path, id: &ContainerId) -> Self {
        let mut found = Self::default();
        if specification.root_is_read_only() {
            found.read_only.push("/".into());
        }
        for mount in specification.mounts() {
            let at = inside(root, &mount.destination);
            // What is mounted later hides what was mounted there before.
            found.mapped.retain(|(hidden, _)| !hidden.starts_with(&at));
            found.read_only.retain(|hidden| !hidden.starts_with(&at));
            if !mount.is_bind() || is_the_runtimes(&mount, &at, id) {
                found.private.push(at);
                continue;
            }
            found.private.retain(|hidden| !hidden.starts_with(&at));
            if mount.is_read_only() {
                found.read_only.push(at.clone());
            }
            let source = bundle.join(&mount.source);
            // One that is gone stays what it was called: what is below it is no file of the root's.
            found.mapped.push((at, fs::canonicalize(&source).unwrap_or(source)));
        }
        found.mapped.sort_by_key(|(at, _)| at.components().count());
        found
    }
}

/// Whether a bind mount is part of what a runtime puts around every container.
fn is_the_runtimes(mount: &SpecifiedMount, at: &Path, id: &ContainerId) -> bool {
    let is_usual = |path: &Path| OF_RUNTIMES.iter().any(|place| path.starts_with(place));
    let is_id = |part: &OsStr| part == id.as_str();
    // podman and Docker keep what they write for a container in a directory with its id.
    let is_kept_with_it = id.as_str().len() == RANDOM_ID && mount.source.iter().any(is_id);
    is_usual(at) || is_usual(&mount.destination) || is_kept_with_it
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn told(mounts: &str, read_only: bool, id: &str) -> Volumes {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("run")).unwrap();
        fs::create_dir_all(root.path().join("var")).unwrap();
        symlink("/run", root.path().join("var/run")).unwrap();
        let text =
            format!(r#"{{"root": {{"path": "rootfs", "readonly": {read_only}}}, "mounts": [{mounts}]}}"#);
        let specification = Specification::parse(text.as_bytes()).unwrap();
        Volumes::of(&specification, root.path(), Path::new("/nowhere/bundle"), &ContainerId::new(id).unwrap())
    }

    fn bind(at: &str, source: &str, options: &str) -> String {
        format!(r#"{{"destination": "{at}", "type": "bind", "source": "{source}", "options": [{options}]}}"#)
    }

    #[test]
    fn volumes_are_told_from_what_runtimes_bind_themselves() {
        let id = "ab".repeat(32);
        let mounts = [
            r#"{"destination": "/run", "type": "tmpfs"}"#.to_owned(),
            bind("/data", "/nowhere/data", r#""rbind""#),
            bind("/var/run/x", "data", r#""rbind", "rw""#),
            bind("/etc/hosts", "/nowhere/hosts", ""),
            bind("/dev/shm", "/nowhere/shm", ""),
            bind("/init", &format!("/nowhere/{id}/init"), ""),
        ];
        let found = told(&mounts.join(","), false, &id);
        let mapped = [("/data", "/nowhere/data"), ("/run/x", "/nowhere/bundle/data")];
        assert_eq!(found.mapped, mapped.map(|(at, here)| (at.into(), here.into())));
        assert_eq!(found.private, ["/run", "/etc/hosts", "/dev/shm", "/init"].map(PathBuf::from));
        assert!(found.read_only.is_empty());
        // A name that somebody chose says nothing about a path.
        assert_eq!(told(&bind("/init", "/nowhere/web/init", ""), false, "web").mapped.len(), 1);
    }

    #[test]
    fn what_may_only_be_read_is_known_by_the_option_that_holds() {
        let mounts = [
            bind("/a", "/nowhere/a", r#""ro""#),
            bind("/b", "/nowhere/b", r#""rbind", "rro""#),
            bind("/c", "/nowhere/c", r#""ro", "rw""#),
            bind("/d", "/nowhere/d", r#""rw", "ro""#),
            bind("/a/deep", "/nowhere/deep", ""),
            // Hides the one before.
            bind("/d", "/nowhere/other", ""),
        ];
        let found = told(&mounts.join(","), false, "c1");
        assert_eq!(found.read_only, ["/a", "/b"].map(PathBuf::from));
        assert_eq!(found.mapped.len(), 5);
        assert_eq!(told("", true, "c1").read_only, [PathBuf::from("/")]);
    }
}
