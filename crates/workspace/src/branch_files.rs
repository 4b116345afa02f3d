//! Files of its own for a branch.
//!
//! A branch has the paths of its original and must not have its files: two kernels that append to one log, or write one
//! database, would destroy it. So it gets a directory of its own that is mounted over the workspace's path, and copies of
//! the files outside that were open for writing.
//!
//! The directory is what the workspace is now, with what the snapshot has laid over it. On btrfs, if the workspace is a
//! subvolume, it is a snapshot of that: nothing is copied, and **inode numbers stay the same**. Elsewhere it is a copy, with
//! shared blocks where the file system can (`FICLONE`). A copy has other inode numbers, and one program is known to look at
//! them: SQLite takes a database whose inode changed for one that was moved away and makes the connection read-only. Files
//! for which that will happen are named.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use base::io_error;
use cas_core::Store;
use manifest::{Entry, Node};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use sandbox::User;

use super::access::{Bases, Facts, facts_of, open_directory};
use super::authors::time;
use super::capture::companions_of;
use super::copy::{Wanted, begins_with, copy_tree};
use super::listing::{Listing, content};
use super::patterns::Patterns;
use super::plan::{Action, SQLITE, Step, is_sqlite};
use super::put_back::{PutBackDone, Writer};
use super::walk::{Seen, Skipped, walk};
use super::{Places, Spot};
use crate::error::Result;

/// Of a btrfs, and the inode number of a subvolume's root.
const BTRFS_MAGIC: u64 = 0x9123_683e;
const SUBVOLUME_ROOT: u64 = 256;

/// What a branch needs.
#[derive(Clone, Copy, Debug)]
pub struct BranchFiles<'a> {
    /// Where the snapshot is.
    pub store: &'a Store,
    /// Whose rights decide.
    pub user: &'a User,
    /// The snapshot that it starts from.
    pub from: &'a Listing,
    /// Where the original's files are.
    pub source: &'a Places,
    /// When the snapshot was taken: of a whole directory, what was made later is left out.
    pub taken: SystemTime,
    /// The branch's workspace. It does not exist yet; the directory that it is in does, and is ours.
    pub workspace: &'a Path,
    /// The directory for copies of files outside. Likewise.
    pub outside: &'a Path,
    /// Patterns of what is not copied.
    pub exclude: &'a [String],
    /// How much is copied at most, besides what the snapshot has and what the processes have open.
    pub max_bytes: u64,
    /// Regular files that the processes have open by a descriptor.
    pub open: &'a [PathBuf],
}

impl BranchFilesMade {
    /// What its user should know, a sentence each.
    pub fn told(&self) -> Vec<String> {
        let left_out = self
            .left_out
            .iter()
            .map(|(path, reason)| format!("`{}` was not copied: {reason}", path.display()));
        self.warnings.iter().cloned().chain(left_out).collect()
    }
}

/// A branch's files.
#[derive(Clone, Default, Debug)]
pub struct BranchFilesMade {
    /// Files outside the workspace, and the branch's copies.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// Open files that the branch and its original both have.
    pub shared: Vec<PathBuf>,
    /// What the branch's workspace lacks, and why.
    pub left_out: Vec<(PathBuf, String)>,
    /// For people.
    pub warnings: Vec<String>,
    /// Whether files in the workspace have the same inode numbers as the original's.
    pub inodes_kept: bool,
    /// Bytes that it took.
    pub bytes: u64,
}

impl BranchFiles<'_> {
    /// Makes them. If it fails, nothing is left.
    pub fn make(&self) -> Result<BranchFilesMade> {
        for directory in [self.workspace, self.outside] {
            if fs::symlink_metadata(directory).is_ok() {
                return Err(io_error("create", directory)(io::ErrorKind::AlreadyExists).into());
            }
        }
        let outcome = self.try_make();
        if outcome.is_err() {
            let _ = remove(self.workspace);
            let _ = remove(self.outside);
        }
        outcome
    }

    fn try_make(&self) -> Result<BranchFilesMade> {
        let mut made = BranchFilesMade::default();
        if let Some((inside, outside)) = &self.source.workspace {
            let workspace = self.workspace(inside, outside, &mut made)?;
            self.warn_of_databases(&workspace, &mut made)?;
        }
        self.copies_outside(&mut made)?;
        let moved: BTreeSet<&Path> = made.moved.iter().map(|(original, _)| original.as_path()).collect();
        made.shared = self
            .open
            .iter()
            .filter(|path| {
                let ours = self.source.spot(path).is_some() && !self.source.in_workspace(path);
                ours && !moved.contains(path.as_path())
            })
            .cloned()
            .collect();
        Ok(made)
    }

    fn workspace(&self, inside: &Path, outside: &Path, made: &mut BranchFilesMade) -> Result<OwnedFd> {
        // On another machine, or where it was removed, there is none, and the branch has what the snapshot has.
        let source = match sandbox::as_user(self.user, || open_directory(outside))? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            source => Some(source.map_err(io_error("open", outside))?),
        };
        made.inodes_kept = match &source {
            Some(source) => snapshot_subvolume(source, self.workspace)?,
            None => false,
        };
        if !made.inodes_kept {
            fs::create_dir(self.workspace).map_err(io_error("create", self.workspace))?;
        }
        // Closed to others whatever the original was: that may have been in a closed home.
        let target = own_directory(self.workspace, self.user)?;
        let patterns =
            Patterns::new(&[], self.exclude).map_err(io_error("leave files out of", self.workspace))?;
        let relative = |path: &Path| inside.join(path);
        let needed: BTreeSet<&Path> = self.open.iter().map(PathBuf::as_path).collect();
        let outcome = sandbox::as_user(self.user, || -> io::Result<_> {
            if made.inodes_kept {
                // Everything is there. What was made since the snapshot is not wanted.
                let walked = walk(target.as_fd(), &Patterns::everything(), &Skipped::default())?;
                let late = walked.seen.iter().filter(|seen| self.is_late(&relative(&seen.path), &seen.facts));
                late.for_each(|seen| remove_name(target.as_fd(), &seen.path));
                return Ok(None);
            }
            let Some(source) = &source else { return Ok(None) };
            let walked = walk(source.as_fd(), &patterns, &self.source.skipped())?;
            copy_tree(source.as_fd(), target.as_fd(), &walked, self.max_bytes, |seen: &Seen| {
                let path = relative(&seen.path);
                match self.from.entries.get(&path) {
                    Some(entry) if content(entry).is_some() && !seen.facts.unchanged_since(entry) => {
                        Wanted::No
                    }
                    Some(_) => Wanted::Always,
                    None if needed.contains(path.as_path()) => Wanted::Always,
                    None if self.is_late(&path, &seen.facts) => Wanted::No,
                    None => Wanted::IfItFits,
                }
            })
            .map(Some)
        })?;
        if let Some(copied) = outcome.map_err(io_error("copy", outside))? {
            made.bytes += copied.bytes;
            made.left_out = copied.left_out.into_iter().map(|(path, why)| (relative(&path), why)).collect();
        }
        self.lay_over(inside, &target, made)?;
        Ok(target)
    }

    /// Made after the snapshot, which has the whole directory.
    fn is_late(&self, path: &Path, facts: &Facts) -> bool {
        let taken = time(self.taken);
        self.from.whole_tree
            && facts.is_file()
            && !self.from.entries.contains_key(path)
            && !self.from.left_out(path)
            && facts.born.is_some_and(|born| born > taken)
    }

    /// What the snapshot has, over what was copied.
    fn lay_over(&self, inside: &Path, target: &OwnedFd, made: &mut BranchFilesMade) -> Result<()> {
        let bases =
            target.try_clone().and_then(Bases::with_workspace).map_err(io_error("open", self.workspace))?;
        let places =
            Places { workspace: Some((inside.to_owned(), self.workspace.to_owned())), ..self.source.clone() };
        let captured: Vec<(&Path, &Entry, Spot)> = self
            .from
            .files()
            .filter(|(path, entry)| places.in_workspace(path) && content(entry).is_some())
            .filter_map(|(path, entry)| Some((path, entry, places.spot(path)?)))
            .collect();
        let mut strangers = Vec::new();
        for (path, entry, _) in &captured {
            let missing = companions_of(path).filter(|companion| !self.from.entries.contains_key(companion));
            let companions: Vec<Spot> = missing.filter_map(|companion| places.spot(&companion)).collect();
            strangers.push((companions, content(entry)));
        }
        let (seen, strangers) = sandbox::as_user(self.user, || {
            let seen: Vec<_> = captured.iter().map(|(_, _, spot)| bases.facts(spot)).collect();
            let is_there = |spot: &Spot| matches!(bases.facts(spot), Ok(Some(_)));
            for (companions, _) in &mut strangers {
                companions.retain(is_there);
            }
            (seen, strangers)
        })?;
        for (companions, content) in strangers {
            if let Some(content) = content.filter(|_| !companions.is_empty())
                && is_sqlite(self.store, content)?
            {
                sandbox::as_user(self.user, || {
                    companions.iter().for_each(|spot| remove_name(target.as_fd(), &spot.below));
                })?;
            }
        }
        let mut steps = Vec::new();
        for ((path, entry, spot), seen) in captured.into_iter().zip(seen) {
            let action = match seen {
                Ok(None) => Action::Create,
                Ok(Some(facts)) if is_copy_of(&facts, entry, made.inodes_kept) => Action::Nothing,
                Ok(Some(facts)) => Action::Write(facts),
                Err(error) => Action::Blocked(super::access::reason(&error)),
            };
            steps.push(Step { path, spot, entry, action });
        }
        let writer = self.writer(&bases, &places);
        let mut done = PutBackDone::default();
        writer.write(&steps, &mut done)?;
        writer.what_is_missing(&mut done)?;
        made.bytes += done.bytes;
        made.left_out.extend(done.kept);
        Ok(())
    }

    fn writer<'a>(&'a self, bases: &'a Bases, places: &'a Places) -> Writer<'a> {
        Writer { store: self.store, user: self.user, bases, to: self.from, places, spared: None }
    }

    fn copies_outside(&self, made: &mut BranchFilesMade) -> Result<()> {
        let captured: Vec<(&Path, &Entry)> = self
            .from
            .files()
            .filter(|(path, entry)| !self.source.in_workspace(path) && content(entry).is_some())
            .filter(|(path, _)| self.source.spot(path).is_some())
            .collect();
        if captured.is_empty() {
            return Ok(());
        }
        fs::create_dir(self.outside).map_err(io_error("create", self.outside))?;
        let target = own_directory(self.outside, self.user)?;
        let copy = target.try_clone().map_err(io_error("open", self.outside))?;
        let bases = Bases::with_workspace(copy).map_err(io_error("open", self.outside))?;
        // Under their full paths, so that no two of them meet.
        let places =
            Places { workspace: Some((PathBuf::from("/"), self.outside.to_owned())), ..Places::default() };
        let steps: Vec<Step<'_>> = captured
            .into_iter()
            .filter_map(|(path, entry)| {
                Some(Step { path, spot: places.spot(path)?, entry, action: Action::Create })
            })
            .collect();
        let writer = self.writer(&bases, &places);
        let mut done = PutBackDone::default();
        writer.write(&steps, &mut done)?;
        made.bytes += done.bytes;
        made.left_out.extend(done.kept);
        for path in done.created {
            let Some(spot) = places.spot(&path) else { continue };
            let copy = self.outside.join(&spot.below);
            if self.open.contains(&path) && self.is_closed_database(&bases, &spot)? {
                made.warnings.push(read_only(&path));
            }
            made.moved.push((path, copy));
        }
        Ok(())
    }

    fn warn_of_databases(&self, workspace: &OwnedFd, made: &mut BranchFilesMade) -> Result<()> {
        if made.inodes_kept {
            return Ok(());
        }
        let copy = workspace.try_clone().map_err(io_error("open", self.workspace))?;
        let bases = Bases::with_workspace(copy).map_err(io_error("open", self.workspace))?;
        for path in self.open.iter().filter(|path| self.source.in_workspace(path)) {
            let Some(spot) = self.source.spot(path) else { continue };
            if self.is_closed_database(&bases, &spot)? {
                made.warnings.push(read_only(path));
            }
        }
        Ok(())
    }

    /// Whether it is a database that SQLite does not write to through a connection that was opened with another inode number. With a
    /// write-ahead log it does not look at the number.
    fn is_closed_database(&self, bases: &Bases, spot: &Spot) -> Result<bool> {
        const WRITE_VERSION: u64 = 18;
        const WITH_LOG: [u8; 1] = [2];
        let look = || {
            let opened = bases.open_file(spot, OFlags::RDONLY);
            opened.is_ok_and(|(file, _)| {
                let mut version = [0];
                begins_with(&file, SQLITE)
                    && file.read_exact_at(&mut version, WRITE_VERSION).is_ok()
                    && version != WITH_LOG
            })
        };
        Ok(sandbox::as_user(self.user, look)?)
    }
}

fn read_only(path: &Path) -> String {
    format!(
        "`{}` is an SQLite database that was open. The branch has a copy of its own, which SQLite lets that connection \
         read but not write: open it again in the branch, or use a database with a write-ahead log (journal_mode=wal)",
        path.display()
    )
}

/// A copy made from an original that was as the snapshot has it. Only a subvolume's snapshot keeps number and ctime.
fn is_copy_of(facts: &Facts, entry: &Entry, inodes_kept: bool) -> bool {
    let Node::File { size, .. } = entry.node else { return false };
    if inodes_kept {
        return facts.unchanged_since(entry);
    }
    // What was copied although the snapshot has it was unchanged: everything else was left for us to write.
    facts.size == size && facts.mtime == entry.mtime
}

/// A directory of ours becomes the user's.
fn own_directory(path: &Path, user: &User) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(io_error("open", path))?;
    if rustix::process::geteuid().is_root() {
        rustix::fs::fchown(&handle, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))
            .map_err(io_error("change the owner of", path))?;
    }
    rustix::fs::fchmod(&handle, Mode::RWXU).map_err(io_error("change the mode of", path))?;
    Ok(handle)
}

fn remove_name(base: std::os::fd::BorrowedFd<'_>, below: &Path) {
    let directory = below.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    if let (Ok(directory), Some(name)) =
        (super::access::open_below(base, directory, flags, Mode::empty()), below.file_name())
    {
        let _ = rustix::fs::unlinkat(directory, name, rustix::fs::AtFlags::empty());
    }
}

fn is_subvolume(directory: &OwnedFd) -> io::Result<bool> {
    let magic = rustix::fs::fstatfs(directory)?.f_type;
    Ok(u64::try_from(magic).is_ok_and(|magic| magic == BTRFS_MAGIC)
        && facts_of(directory)?.ino == SUBVOLUME_ROOT)
}

/// Makes a snapshot of a subvolume, if that is what it is and the target is on the same file system. The program is used
/// because the call needs an ioctl that no safe interface has; it gets the directory as a handle, not by a name that
/// somebody could change.
fn snapshot_subvolume(source: &OwnedFd, target: &Path) -> Result<bool> {
    let failed = io_error("take a snapshot of", target);
    if !is_subvolume(source).map_err(failed)? {
        return Ok(false);
    }
    let source = format!("/proc/{}/fd/{}", std::process::id(), source.as_raw_fd());
    run_btrfs(&["snapshot".as_ref(), source.as_ref(), target.as_os_str()])
}

/// Whether it worked. A program that is not installed, or a target on another file system, means that we copy.
fn run_btrfs(words: &[&std::ffi::OsStr]) -> Result<bool> {
    let status = Command::new("btrfs")
        .arg("subvolume")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("run", "btrfs")(error).into()),
    }
}

/// Removes a branch's directory, with everything in it. One that does not exist is removed already.
pub fn remove(directory: &Path) -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(handle) = rustix::fs::open(directory, flags, Mode::empty()) else { return Ok(()) };
    if is_subvolume(&handle).unwrap_or(false) && run_btrfs(&["delete".as_ref(), directory.as_os_str()])? {
        return Ok(());
    }
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", directory)(error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod btrfs_tests;
#[cfg(test)]
mod tests;
