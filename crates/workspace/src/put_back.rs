//! Making files again what they were.
//!
//! A file is written in place: it keeps its inode, because processes that are about to be restored, and SQLite in them,
//! know files by it. Only blocks that differ are written, and what was a hole becomes one again. Each file by itself can be
//! done again at any time, so a run that was cut short is simply repeated.
//!
//! Nothing is overwritten or removed that the automatic snapshot does not have. The user's thread opens, changes modes and
//! removes; root reads the store, which is closed to the user, and writes through the handle.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::Store;
use manifest::tree::Time;
use manifest::{BlobRef, Entry, Node};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use sandbox::User;

use super::access::{Bases, Facts, own, reason};
use super::layer::marks_of;
use super::listing::{Listing, content};
use super::open_files::OpenFile;
use super::plan::{Action, BATCH, Step};
use super::strangers::{Kept, holds_file};
use super::{AtWork, Base, Places, Spot};
use crate::error::{Result, WorkspaceError};
use crate::policy::FilePolicy;

const BLOCK: usize = 4096;

/// A way back for files.
#[derive(Clone, Copy, Debug)]
pub struct PutBack<'a> {
    /// Where the snapshots are.
    pub store: &'a Store,
    /// Whose rights decide.
    pub user: &'a User,
    /// Where the files are.
    pub places: &'a Places,
    /// The session's policy: what its patterns exclude is never removed.
    pub policy: &'a FilePolicy,
    /// The snapshot that is to come back.
    pub to: &'a Listing,
    /// The session's last snapshot.
    pub head: Option<&'a Listing>,
    /// Whether the session has processes. If not, no change is its own.
    pub running: bool,
    /// What the session has open now.
    pub open: &'a [OpenFile],
    /// When the session was at work: what changed then is its own.
    pub at_work: &'a AtWork,
    /// Everything goes back, whoever changed it.
    pub force: bool,
    /// What a plan found to be somebody else's: these stay as they are.
    pub spared: &'a BTreeSet<PathBuf>,
}

/// What was done.
#[derive(Clone, Default, Debug)]
pub struct PutBackDone {
    /// Files with their old content again.
    pub written: Vec<PathBuf>,
    /// Files that were gone.
    pub created: Vec<PathBuf>,
    /// Files that had come since.
    pub removed: Vec<PathBuf>,
    /// What was left as it is, and why.
    pub kept: Vec<(PathBuf, String)>,
    /// How many bytes were written.
    pub bytes: u64,
}

impl PutBack<'_> {
    /// What would be overwritten and is not in the automatic snapshot as it is now. It must be captured before the run.
    pub fn uncovered(&self, automatic: &Listing) -> Result<Vec<PathBuf>> {
        let mut doubtful = Vec::new();
        for step in self.steps()? {
            if let Action::Write(facts) = step.action
                && !automatic.entries.get(step.path).is_some_and(|entry| holds_file(entry, &facts))
            {
                doubtful.push((step.path, step.spot, automatic.content(step.path)));
            }
        }
        let pairs: Vec<_> = doubtful.iter().map(|(_, spot, content)| (spot, *content)).collect();
        let same = self.same_contents(&pairs)?;
        let missing = doubtful.iter().zip(same).filter(|(_, same)| !same);
        Ok(missing.map(|((path, ..), _)| (*path).to_owned()).collect())
    }

    /// Puts everything back. May be repeated.
    pub fn run(&self, automatic: &Listing) -> Result<PutBackDone> {
        self.go(Kept::In(automatic))
    }

    /// The same in a copy of files that stay what and where they are: nothing of it is kept.
    pub fn run_in_copy(&self) -> Result<PutBackDone> {
        self.go(Kept::Elsewhere)
    }

    fn go(&self, kept: Kept<'_>) -> Result<PutBackDone> {
        let steps = self.steps()?;
        if let Kept::In(automatic) = kept {
            let is_missing = |step: &&Step<'_>| {
                matches!(step.action, Action::Write(_)) && automatic.content(step.path).is_none()
            };
            let paths: Vec<PathBuf> =
                steps.iter().filter(is_missing).map(|step| step.path.to_owned()).collect();
            if !paths.is_empty() {
                return Err(WorkspaceError::Changed { paths });
            }
        }
        let mut done = PutBackDone::default();
        self.remove_strangers(kept, &mut done)?;
        let bases = sandbox::as_user(self.user, || Bases::open(self.places))?
            .map_err(io_error("open the directories of", self.user.name.as_str()))?;
        let writer = Writer {
            store: self.store,
            user: self.user,
            bases: &bases,
            to: self.to,
            places: self.places,
            spared: Some(self.spared),
        };
        writer.directories(&mut done)?;
        writer.write(&steps, &mut done)?;
        writer.what_is_missing(&mut done)?;
        writer.owners(&steps, &mut done)?;
        Ok(done)
    }
}

/// Writes files of a snapshot. Also used for the copies of a branch.
pub(super) struct Writer<'a> {
    pub(super) store: &'a Store,
    pub(super) user: &'a User,
    pub(super) bases: &'a Bases,
    pub(super) to: &'a Listing,
    pub(super) places: &'a Places,
    /// What stays as it is.
    pub(super) spared: Option<&'a BTreeSet<PathBuf>>,
}

impl Writer<'_> {
    /// Does what the steps say.
    pub(super) fn write(&self, steps: &[Step<'_>], done: &mut PutBackDone) -> Result<()> {
        let mut wanted = Vec::new();
        for step in steps {
            match (&step.action, content(step.entry)) {
                (Action::Blocked(reason), _) => done.kept.push((step.path.to_owned(), reason.clone())),
                (Action::Write(_) | Action::Create, Some(content)) => wanted.push((step, content)),
                _ => {}
            }
        }
        for batch in wanted.chunks(BATCH) {
            let opened = sandbox::as_user(self.user, || {
                batch.iter().map(|(step, _)| self.open(step)).collect::<Vec<_>>()
            })?;
            let mut filled = Vec::new();
            for ((step, content), opened) in batch.iter().zip(opened) {
                match opened {
                    Ok(file) => {
                        done.bytes += fill(self.store, &file, *content, step.path)?;
                        filled.push((*step, file));
                    }
                    Err(error) => done.kept.push((step.path.to_owned(), reason(&error))),
                }
            }
            let finished = sandbox::as_user(self.user, || {
                filled
                    .iter()
                    .map(|(step, file)| finish(file, step.entry, self.places.many_owners))
                    .collect::<Vec<_>>()
            })?;
            for ((step, _), finished) in filled.iter().zip(finished) {
                let path = step.path.to_owned();
                if let Err(error) = finished {
                    done.kept.push((path.clone(), format!("its mode stays: {}", reason(&error))));
                }
                match step.action {
                    Action::Create => done.created.push(path),
                    _ => done.written.push(path),
                }
            }
        }
        Ok(())
    }

    /// On the user's thread.
    fn open(&self, step: &Step<'_>) -> io::Result<File> {
        if step.action == Action::Create {
            self.make_room(&step.spot)?;
            self.bases.make_parents(&step.spot, |below| self.directory_mode(step, below))?;
            if let Some(file) = self.link_sibling(step) {
                return Ok(file);
            }
            return match self.bases.create_file(&step.spot) {
                // Made meanwhile: by an earlier run of ours that was cut short, or under another name of the same file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.bases.open_file(&step.spot, OFlags::RDWR).map(|(file, _)| file)
                }
                other => other,
            };
        }
        if self.places.is_layer && step.spot.base == Base::Workspace {
            // Bytes that are written are not seen where the image's are shown.
            self.bases.open_file(&step.spot, OFlags::RDONLY).and_then(|(file, _)| marks_of(file))?;
        }
        match self.bases.open_file(&step.spot, OFlags::RDWR) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
                // The user's own file, but closed by its mode: that is put right at the end anyway.
                let half_open = self
                    .bases
                    .open_file(&step.spot, OFlags::RDONLY)
                    .or_else(|_| self.bases.open_file(&step.spot, OFlags::WRONLY));
                let (half_open, facts) = half_open.map_err(|_| error)?;
                rustix::fs::fchmod(&half_open, Mode::from_raw_mode(facts.mode | 0o600))?;
                self.bases.open_file(&step.spot, OFlags::RDWR).map(|(file, _)| file)
            }
            other => other.map(|(file, _)| file),
        }
    }

    /// The mode that a directory on the way to a step's file had.
    fn directory_mode(&self, step: &Step<'_>, below: &Path) -> u32 {
        let up = step.spot.below.components().count().saturating_sub(below.components().count());
        let entry = step.path.ancestors().nth(up).and_then(|path| self.to.entries.get(path));
        entry.filter(|entry| matches!(entry.node, Node::Dir { .. })).map_or(0o700, |entry| entry.mode)
    }

    /// If the file had another name that is still there, or is there again, this becomes a name of the same file.
    fn link_sibling(&self, step: &Step<'_>) -> Option<File> {
        step.entry.nlink.filter(|&nlink| nlink > 1)?;
        let same = |(path, entry): &(&Path, &Entry)| entry.ino == step.entry.ino && *path != step.path;
        let (path, _) = self.to.files().find(same)?;
        let sibling = self.places.spot(path).filter(|spot| spot.base == step.spot.base)?;
        self.bases.facts(&sibling).ok().flatten().filter(Facts::is_file)?;
        let (from, from_name) = self.bases.parent(&sibling).ok()?;
        let (to, to_name) = self.bases.parent(&step.spot).ok()?;
        rustix::fs::linkat(from, from_name, to, to_name, AtFlags::empty()).ok()?;
        self.bases.open_file(&step.spot, OFlags::RDWR).ok().map(|(file, _)| file)
    }

    /// Where a path of the snapshot is now.
    pub(super) fn spot(&self, path: &Path) -> Option<Spot> {
        if self.to.is_of_lost_volume(self.places, path) { None } else { self.places.spot(path) }
    }
}

/// Mode and time, last: until then no later look takes the file for unchanged. `owned` if the owner is put back, too.
pub(super) fn finish(file: &File, entry: &Entry, owned: bool) -> io::Result<()> {
    let owner = if owned { own(file, entry) } else { Ok(()) };
    let outcome = match owned {
        true => Ok(()),
        false => rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode)),
    };
    let Time { seconds, nanoseconds } = entry.mtime;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    };
    // Whoever may write to a file of somebody else's may not set its time.
    let _ = rustix::fs::futimens(file, &times);
    match outcome {
        Err(error) if super::access::facts_of(file)?.mode != entry.mode => Err(error.into()),
        _ => owner,
    }
}

/// Gives a file the content of a blob, and says how many bytes had to be written for that.
pub(super) fn fill(store: &Store, file: &File, content: BlobRef, path: &Path) -> Result<u64> {
    let failed = |error: io::Error| io_error("write", path)(error);
    let mut length = file.metadata().map_err(failed)?.len();
    if length > content.len {
        file.set_len(content.len).map_err(failed)?;
        length = content.len;
    }
    let mut blob = store.open_blob(&content.into())?;
    let (mut at, mut written) = (0_u64, 0_u64);
    let mut current = Vec::new();
    while let Some(chunk) = blob.next_chunk()? {
        let there = length.saturating_sub(at).min(chunk.len() as u64);
        current.resize(usize::try_from(there).unwrap_or(0), 0);
        file.read_exact_at(&mut current, at).map_err(failed)?;
        written += write_differing(file, at, chunk, &current).map_err(failed)?;
        at += chunk.len() as u64;
    }
    file.set_len(content.len).map_err(failed)?;
    Ok(written)
}

fn write_differing(file: &File, at: u64, wanted: &[u8], current: &[u8]) -> io::Result<u64> {
    if wanted == current {
        return Ok(0);
    }
    if is_zero(wanted) && punch(file, at, wanted.len() as u64, is_zero(current)) {
        return Ok(wanted.len() as u64);
    }
    let mut written = 0;
    for (number, block) in wanted.chunks(BLOCK).enumerate() {
        let start = number * BLOCK;
        let end = (start + block.len()).min(current.len());
        let old = current.get(start..end).unwrap_or_default();
        // Beyond the end there is a hole, or will be.
        let same = old == block || (old.is_empty() && is_zero(block));
        if !same {
            file.write_all_at(block, at + start as u64)?;
            written += block.len() as u64;
        }
    }
    Ok(written)
}

/// Makes a range a hole. Where it is one already, or lies beyond the end, nothing is to be done.
fn punch(file: &File, at: u64, len: u64, zero: bool) -> bool {
    zero || rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)
        .is_ok()
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod layer_tests;
#[cfg(test)]
mod tests;
