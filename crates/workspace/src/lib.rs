//! The files that belong to a session's state.
//!
//! CRIU brings back memory and file descriptors. A descriptor of a regular file is a path, an offset and a size, and the
//! content is whatever the path leads to: if the file has another size by then, the restore fails; if it has the same size,
//! the process goes on with bytes that it never wrote. So a snapshot needs the files too, as they were while everything was
//! frozen, and a rollback must put them back before it restores.
//!
//! * `open_files` finds in `/proc` which files the processes have open.
//! * `capture` takes stable copies during the freeze, and puts them into the store after it.
//! * `put_back` makes the files again what they were, in the same inodes.
//! * `branch_files` gives a branch files of its own at the same paths.
//!
//! # Whose rights
//!
//! All of these files are in directories where somebody else may rename, link and replace at any moment; and where the daemon is root's
//! and the session another's, root must not be led astray by that. So a file is only ever opened with its user's rights
//! ([`sandbox::as_user`]), below a directory handle and without following links (`access`), and work goes on with the handle. The
//! worst that a swapped path can do is what its owner could have done directly.
//!
//! # Names
//!
//! Paths are those that the processes see. [`Places`] says where the same file is on the host: the workspace of a branch is
//! another directory than the one it is mounted over, and a branch has copies of files outside of it.

#![forbid(unsafe_code)]

mod access;
mod authors;
mod beside_files;
mod branch_files;
mod build;
mod capture;
mod copy;
mod copy_out;
mod error;
mod in_order;
mod layer;
mod listing;
mod loose;
mod one_file;
mod open_files;
mod patterns;
mod pending;
mod plan;
mod policy;
mod put_back;
mod stage;
mod strangers;
mod taking;
#[cfg(test)]
mod testing;
mod unchanged;
mod volumes;
mod walk;

pub use authors::{AtWork, Author};
pub use branch_files::{BranchFiles, BranchFilesMade, remove as remove_branch_files};
pub use capture::{Ahead, CaptureRequest, Captured, ahead, begin};
pub use copy_out::{CopiedOut, CopyOut};
pub use error::{Result, WorkspaceError};
pub use listing::Listing;
pub use loose::{LooseFile, loose_files};
pub use one_file::content_at;
pub use open_files::OpenFile;
pub use pending::Pending;
pub use plan::{Blocked, Plan, some_of};
pub use policy::FilePolicy;
pub use put_back::{PutBack, PutBackDone};

use std::path::{Path, PathBuf};

use sandbox::User;
use walk::Skipped;

/// The files that processes have open, without what is only mapped.
pub fn open_files(pids: &[i32], places: &Places) -> Result<Vec<OpenFile>> {
    Ok(open_files::look(pids, places)?.files)
}

/// Where the files that a session sees are on the host.
#[derive(Clone, Default, Debug)]
pub struct Places {
    /// The workspace as it is seen, and where it really is.
    pub workspace: Option<(PathBuf, PathBuf)>,
    /// Directories that are the box's own. What is in them is gone with the box, and CRIU takes care of it.
    pub private: Vec<PathBuf>,
    /// Files outside the workspace that the session has a copy of: the original and the copy.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// Directories and files that lie elsewhere: as they are seen, and where they are.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Of all these, those that are seen read-only, and `/` for a workspace that is. Nothing is ever written there, and nothing of it is the
    /// session's own work.
    pub read_only: Vec<PathBuf>,
    /// The directory in which the daemon keeps everything, which is nobody's work wherever it lies.
    pub daemons: Option<PathBuf>,
    /// Several users live there, as in a container: what is put back gets the owner that it had. For root's own daemon only.
    pub many_owners: bool,
    /// The workspace is the writable layer of an overlay, and has in it what was removed of the image below.
    pub is_layer: bool,
}

/// Where a path lies if directories are mapped: the innermost that it is in decides.
pub fn lies_at(mapped: &[(PathBuf, PathBuf)], path: &Path) -> PathBuf {
    mapped.iter().rev().find_map(|one| lies_in(one, path)).unwrap_or_else(|| path.to_owned())
}

/// Where a path lies if it is in this one.
fn lies_in((inside, here): &(PathBuf, PathBuf), path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(inside).ok()?;
    // A file can be mapped by itself, and with a `/` behind its name it would be none.
    Some(if rest.as_os_str().is_empty() { here.clone() } else { here.join(rest) })
}

/// A place on the host: a path below a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub(crate) base: Base,
    pub(crate) below: PathBuf,
}

/// The directories that files are looked up from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    Workspace,
    Root,
}

impl Places {
    /// Of a box with this workspace.
    pub fn of_box(inside: &Path, outside: &Path, moved: &[(PathBuf, PathBuf)]) -> Self {
        Self {
            workspace: Some((inside.to_owned(), outside.to_owned())),
            private: ["/dev", "/proc", "/run", "/sys"].map(PathBuf::from).into(),
            moved: moved.to_owned(),
            mapped: Vec::new(),
            read_only: Vec::new(),
            daemons: None,
            many_owners: false,
            is_layer: false,
        }
    }

    /// Of processes that have no box around them.
    pub fn of_host(workspace: Option<&Path>) -> Self {
        Self {
            workspace: workspace.map(|path| (path.to_owned(), path.to_owned())),
            private: ["/proc", "/sys"].map(PathBuf::from).into(),
            moved: Vec::new(),
            mapped: Vec::new(),
            read_only: Vec::new(),
            daemons: None,
            many_owners: false,
            is_layer: false,
        }
    }

    /// Where a file is. `None` for what is not ours to look after.
    pub(crate) fn spot(&self, path: &Path) -> Option<Spot> {
        if let Some((inside, _)) = &self.workspace
            && self.in_workspace(path)
        {
            return Some(Spot { base: Base::Workspace, below: path.strip_prefix(inside).ok()?.to_owned() });
        }
        if let Some((_, copy)) = self.moved.iter().find(|(original, _)| original == path) {
            return Some(Spot { base: Base::Root, below: copy.strip_prefix("/").ok()?.to_owned() });
        }
        let mapped = innermost(self.mapped.iter(), |(inside, _)| inside, path);
        let private = innermost(self.private.iter(), |directory| directory, path);
        let is_private = private.is_some_and(|private| {
            mapped.is_none_or(|(inside, _)| private.components().count() >= inside.components().count())
        });
        if is_private || self.is_daemons(path) {
            return None;
        }
        let real = mapped.and_then(|one| lies_in(one, path)).unwrap_or_else(|| path.to_owned());
        Some(Spot { base: Base::Root, below: real.strip_prefix("/").ok()?.to_owned() })
    }

    /// Whether a directory that is seen elsewhere is one that the daemon made.
    pub(crate) fn is_copy(&self, here: &Path) -> bool {
        self.daemons.as_ref().is_some_and(|daemons| here.starts_with(daemons))
    }

    /// Whether a path in the workspace is in something else that is mounted there.
    fn is_apart(&self, path: &Path, workspace: &Path) -> bool {
        let within = |mounted: &PathBuf| {
            path.starts_with(mounted) && mounted != workspace && mounted.starts_with(workspace)
        };
        self.private.iter().any(within) || self.mapped.iter().any(|(inside, _)| within(inside))
    }

    /// Whether what is at a path may only be read. The innermost of what is mounted decides.
    pub(crate) fn is_read_only(&self, path: &Path) -> bool {
        let mounted = self.mapped.iter().map(|(inside, _)| inside).chain(&self.read_only);
        innermost(mounted, |at| at, path).is_some_and(|at| self.read_only.contains(at))
    }

    /// What is in the workspace and is not the user's work: what the box has of its own, what is hidden behind something that is mounted over it, and
    /// what the daemon keeps.
    pub(crate) fn skipped(&self) -> Skipped {
        let Some((inside, outside)) = &self.workspace else { return Skipped::default() };
        let below = |directory: &PathBuf| {
            let below = directory.strip_prefix(outside).or_else(|_| directory.strip_prefix(inside));
            below.ok().map(Path::to_owned)
        };
        let hidden =
            self.mapped.iter().filter_map(|(at, _)| at.strip_prefix(inside).ok().map(Path::to_owned));
        let hidden = hidden.filter(|below| !below.as_os_str().is_empty());
        Skipped(self.private.iter().chain(&self.daemons).filter_map(below).chain(hidden).collect())
    }

    /// Whether the workspace is all that a user has.
    pub(crate) fn is_home(&self, user: &User) -> bool {
        self.workspace.as_ref().is_some_and(|(inside, _)| *inside == user.home)
    }

    /// Whether a path is below what the daemon keeps.
    pub(crate) fn is_daemons(&self, path: &Path) -> bool {
        self.daemons.as_ref().is_some_and(|directory| path.starts_with(directory))
    }

    /// With a directory that is the daemon's own.
    pub fn without(self, directory: &Path) -> Self {
        Self { daemons: Some(directory.to_owned()), ..self }
    }

    /// Whether a path is in the workspace, and not in something else that is mounted there.
    pub(crate) fn in_workspace(&self, path: &Path) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_some_and(|(inside, _)| path.starts_with(inside) && !self.is_apart(path, inside))
    }
}

/// The deepest of those that a path is in; of equals the last.
fn innermost<'a, T>(
    places: impl Iterator<Item = &'a T>,
    at: impl Fn(&T) -> &PathBuf,
    path: &Path,
) -> Option<&'a T> {
    let around = places.filter(|place| path.starts_with(at(place)));
    around.max_by_key(|place| at(place).components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_know_the_workspace_the_copies_and_what_is_not_ours() {
        let moved = [("/var/log/a".into(), "/copies/a".into())];
        let places = Places::of_box(Path::new("/run/work"), Path::new("/real"), &moved);
        let spot = |path: &str| places.spot(Path::new(path)).map(|spot| (spot.base, spot.below));
        assert_eq!(spot("/run/work/x/y"), Some((Base::Workspace, "x/y".into())));
        assert_eq!(spot("/run/workshop"), None);
        assert_eq!(spot("/dev/shm/sem"), None);
        assert_eq!(spot("/var/log/a"), Some((Base::Root, "copies/a".into())));
        assert_eq!(spot("/var/log/b"), Some((Base::Root, "var/log/b".into())));
        assert_eq!(spot("relative"), None);
        let mapped = vec![("/data".into(), "/srv/data".into())];
        let whole = Places { mapped, ..Places::of_box(Path::new("/"), Path::new("/real"), &moved) };
        let spot = |path: &str| whole.spot(Path::new(path)).map(|spot| (spot.base, spot.below));
        assert_eq!(spot("/etc/x"), Some((Base::Workspace, "etc/x".into())));
        assert_eq!(spot("/data/x"), Some((Base::Root, "srv/data/x".into())));
        assert_eq!(spot("/dev/shm/sem"), None);
        // A volume within something that is private is a volume.
        let mapped =
            vec![("/run/data".into(), "/srv/data".into()), ("/run/data/file".into(), "/srv/file".into())];
        let nested = Places { mapped, ..Places::of_box(Path::new("/"), Path::new("/real"), &[]) };
        let spot = |path: &str| nested.spot(Path::new(path)).map(|spot| (spot.base, spot.below));
        assert_eq!(spot("/run/data/x"), Some((Base::Root, "srv/data/x".into())));
        assert_eq!(spot("/run/data/file"), Some((Base::Root, "srv/file".into())));
        assert_eq!(spot("/run/other"), None);
        assert!(nested.in_workspace(Path::new("/etc")) && !nested.in_workspace(Path::new("/run/data/x")));
        assert!(nested.skipped().0.contains(&PathBuf::from("run/data")));
        let host = Places::of_host(None);
        assert!(host.spot(Path::new("/dev/shm/sem")).is_some());
    }

    #[test]
    fn what_is_mounted_innermost_says_whether_it_may_be_written_to() {
        let mapped = ["/data", "/data/deep", "/other"].map(|at| (at.into(), "/srv".into())).to_vec();
        let read_only = vec!["/data".into()];
        let places = Places { mapped: mapped.clone(), read_only, ..Places::default() };
        let told = |places: &Places, path: &str| places.is_read_only(Path::new(path));
        assert!(told(&places, "/data") && told(&places, "/data/x"));
        assert!(!told(&places, "/data/deep/x") && !told(&places, "/other") && !told(&places, "/database"));
        let all = Places { mapped, read_only: vec!["/".into()], ..Places::default() };
        assert!(told(&all, "/etc/x") && !told(&all, "/data/x"));
    }
}
