//! Taking the files into a snapshot.
//!
//! Three parts, because every millisecond of the middle one is a millisecond in which the user's program stands still.
//!
//! [`ahead`] runs while the processes still work: where the whole directory belongs to the snapshot, it is looked through then, and what is new in
//! it is copied to where nobody can change it. [`begin`] runs while all of them stand still, and takes what they have open. [`Pending::finish`]
//! runs afterwards. It looks through the directory once more, for what changed between the first look and the moment, and does what takes time:
//! cutting, hashing, compressing, writing. What changed after the moment is not in the snapshot as it became, but as it was found ahead.
//!
//! What was captured before and has the same inode, size and ctime is not read again; its content is in the store. A ctime
//! can only be trusted if a change right after our look would have given another one. Clocks of file systems tick every few
//! milliseconds, so a file that changed a moment ago is entered without its ctime and read again the next time; so is a
//! file that is mapped for writing, because the kernel does not note each write to a page.
//!
//! Of files that are only open for reading, a restore needs that they have the same size. Small ones in the workspace are
//! captured like others; of the rest size and times are kept, so that a rollback can tell beforehand that it would fail.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::io_error;
use manifest::snapshot::{NotCaptured, OutsideSection, WorkspacePolicy, WorkspaceSection};
use manifest::tree::Time;
use sandbox::User;

use super::authors::time;
use super::listing::Listing;
use super::open_files;
use super::pending::Pending;
use super::taking::Taking;
use super::unchanged::Unchanged;
use super::volumes::Whole;
use super::{Base, Places};
use crate::error::Result;
use crate::policy::{FilePolicy, Rules};

/// Longer than any file system's clock takes for a tick.
const TICK: Duration = Duration::from_millis(50);
/// What SQLite keeps beside a database. An older database with a newer log is a broken one.
pub(crate) const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What to capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureRequest<'a> {
    /// Whose rights decide.
    pub user: &'a User,
    /// Where the files are.
    pub places: &'a Places,
    /// Which of them are wanted.
    pub policy: &'a FilePolicy,
    /// Files that are captured whatever the policy says: the notebook, and what a rollback is about to overwrite.
    pub named: &'a [PathBuf],
    /// A directory of ours for copies, on disk or in memory.
    pub staging: &'a Path,
    /// What the snapshot before knows.
    pub parent: &'a Listing,
}

impl CaptureRequest<'_> {
    /// What of the workspace is wanted, if all of it is, and which volumes. What may only be read has nothing of the session's.
    fn wanted(&self) -> Result<Option<Wanted>> {
        let is_home = self.places.is_home(self.user);
        let rules = self.policy.rules(is_home);
        let rules = rules.map_err(io_error("capture files of", workspace_of(self.places)))?;
        let Some(rules) = rules else { return Ok(None) };
        let has_own = !self.places.is_read_only(&workspace_of(self.places));
        let mut all: Vec<Whole> = has_own.then(|| self.places.whole_workspace()).into_iter().collect();
        for volume in self.policy.volumes() {
            all.push(self.places.volume(volume)?);
        }
        Ok((!all.is_empty()).then_some(Wanted { rules, all }))
    }
}

/// Directories of which everything is wanted, and what that is.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) rules: Rules,
    pub(crate) all: Vec<Whole>,
}

/// What was found of a directory while the processes that belong to it still ran.
#[derive(Debug)]
pub struct Ahead(Taking);

/// The files of a snapshot, in the store.
#[derive(Debug)]
pub struct Captured {
    /// Those of the workspace.
    pub workspace: WorkspaceSection,
    /// Those elsewhere.
    pub outside: OutsideSection,
    /// What is in neither, with its full path.
    pub not_captured: Vec<NotCaptured>,
    /// All of it together, as it would be read from the store.
    pub listing: Listing,
}

/// Looks through the workspace, if all of it is wanted, while the processes still run.
pub fn ahead(request: &CaptureRequest<'_>) -> Result<Option<Ahead>> {
    let Some(wanted) = request.wanted()? else { return Ok(None) };
    let mut taking = Taking::new(request)?;
    taking.on_the_users_thread(request, |taking, bases| taking.trees(request, bases, &wanted, true))?;
    let (root, volumes) = (workspace_of(request.places), request.policy.volumes());
    taking.unchanged = Unchanged::find(&root, volumes, request.parent, &taking.items);
    Ok(Some(Ahead(taking)))
}

/// Takes stable copies. The processes stand still, or there are none. Without a look ahead, all that is wanted of the workspace is copied now.
pub fn begin(request: &CaptureRequest<'_>, ahead: Option<Ahead>, pids: &[i32]) -> Result<Pending> {
    let moment = time(SystemTime::now());
    let open = open_files::look(pids, request.places)?;
    let standing = open_files::working_directories(pids);
    let wanted = request.wanted()?;
    let looked_ahead = ahead.is_some();
    let mut taking = match ahead {
        Some(Ahead(taking)) => taking,
        None => Taking::new(request)?,
    };
    taking.on_the_users_thread(request, |taking, bases| {
        taking.open_and_named(request, bases, &open.files, &standing);
        if let Some(wanted) = wanted.as_ref().filter(|_| !looked_ahead) {
            taking.trees(request, bases, wanted, false)?;
        }
        Ok(())
    })?;
    let has_workspace =
        wanted.iter().flat_map(|wanted| &wanted.all).any(|one| one.spot.base == Base::Workspace);
    Ok(Pending {
        policy: match request.policy {
            FilePolicy::None => WorkspacePolicy::None,
            FilePolicy::Tree { .. } | FilePolicy::Workspace if has_workspace => WorkspacePolicy::Tree,
            _ => WorkspacePolicy::Open,
        },
        user: request.user.clone(),
        places: request.places.clone(),
        moment,
        volumes: request.policy.volumes().to_vec(),
        again: wanted.filter(|_| looked_ahead),
        mapped: open.mapped,
        taking,
    })
}

pub(crate) fn workspace_of(places: &Places) -> PathBuf {
    places.workspace.as_ref().map_or_else(|| PathBuf::from("/"), |(inside, _)| inside.clone())
}

/// Changes up to here have ctimes that a later change cannot have too.
pub(crate) fn trusted_before() -> Time {
    time(SystemTime::now() - TICK)
}

/// The files that SQLite may keep beside a database.
pub(crate) fn companions_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    COMPANIONS
        .map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        })
        .into_iter()
}

#[cfg(test)]
mod tests;
