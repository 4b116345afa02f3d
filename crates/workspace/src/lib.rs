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
mod branch_files;
mod build;
mod capture;
mod copy;
mod copy_out;
mod error;
mod in_order;
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
mod taking;
#[cfg(test)]
mod testing;
mod unchanged;
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
    /// Directories that lie elsewhere: as they are seen, and where they are.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// The directory in which the daemon keeps everything, which is nobody's work wherever it lies.
    pub daemons: Option<PathBuf>,
}

/// Where a path lies if directories are mapped: the innermost that it is in decides.
pub fn lies_at(mapped: &[(PathBuf, PathBuf)], path: &Path) -> PathBuf {
    let within = |(inside, here): &(PathBuf, PathBuf)| Some(here.join(path.strip_prefix(inside).ok()?));
    mapped.iter().rev().find_map(within).unwrap_or_else(|| path.to_owned())
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
            daemons: None,
        }
    }

    /// Of processes that have no box around them.
    pub fn of_host(workspace: Option<&Path>) -> Self {
        Self {
            workspace: workspace.map(|path| (path.to_owned(), path.to_owned())),
            private: ["/proc", "/sys"].map(PathBuf::from).into(),
            moved: Vec::new(),
            mapped: Vec::new(),
            daemons: None,
        }
    }

    /// Where a file is. `None` for what is not ours to look after.
    pub(crate) fn spot(&self, path: &Path) -> Option<Spot> {
        if let Some((inside, _)) = &self.workspace
            && let Ok(below) = path.strip_prefix(inside)
            && !self.is_apart(path, inside)
        {
            return Some(Spot { base: Base::Workspace, below: below.to_owned() });
        }
        if self.private.iter().any(|directory| path.starts_with(directory)) || self.is_daemons(path) {
            return None;
        }
        let copy = self.moved.iter().find(|(original, _)| original == path).map(|(_, copy)| copy.clone());
        let real = copy.unwrap_or_else(|| lies_at(&self.mapped, path));
        Some(Spot { base: Base::Root, below: real.strip_prefix("/").ok()?.to_owned() })
    }

    /// Whether a path in the workspace is in something else that is mounted there.
    fn is_apart(&self, path: &Path, workspace: &Path) -> bool {
        let within = |mounted: &PathBuf| {
            path.starts_with(mounted) && mounted != workspace && mounted.starts_with(workspace)
        };
        self.private.iter().any(within) || self.mapped.iter().any(|(inside, _)| within(inside))
    }

    /// What is in the workspace and is not the user's work: what the box has of its own, and what the daemon keeps.
    pub(crate) fn skipped(&self) -> Skipped {
        let Some((inside, outside)) = &self.workspace else { return Skipped::default() };
        let below = |directory: &PathBuf| {
            let below = directory.strip_prefix(outside).or_else(|_| directory.strip_prefix(inside));
            below.ok().map(Path::to_owned)
        };
        Skipped(self.private.iter().chain(&self.daemons).filter_map(below).collect())
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

    /// The workspace as it is seen, if the path is in it.
    pub(crate) fn in_workspace(&self, path: &Path) -> bool {
        self.workspace.as_ref().is_some_and(|(inside, _)| path.starts_with(inside))
    }
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
        let host = Places::of_host(None);
        assert!(host.spot(Path::new("/dev/shm/sem")).is_some());
    }
}
