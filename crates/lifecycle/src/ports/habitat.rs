//! What every habitat answers for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;

use api::ContainerName;
use rustix::process::Signal;
use sandbox::process::Identity;
use sandbox::{Commands, DeviceNode, Program};
use session_record::{Adopted, Image, Record, SessionId};
use workspace::{BranchFiles, BranchFilesMade, Places};

use crate::error::{LifecycleError, Result};

/// What CRIU has made, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The first process, as CRIU numbers it.
    pub pid: i32,
    /// CRIU's worker.
    pub worker: Option<i32>,
}

/// Holds again what was let go, and says so, or why not.
pub type HoldAgain = Box<dyn FnOnce() -> String + Send + Sync>;

/// Writes what a habitat has beside its tree to a directory of images.
pub type Saving<'a> = Box<dyn FnMut(&Path) -> Result<()> + Send + 'a>;

/// The record of a branch, and what became of its files.
pub type MadeBranch = (Record, BranchFilesMade);

/// A place for processes.
pub trait Habitat: Send + Sync {
    // ---- how processes get there ----

    /// What runs already and is called so, to be looked after as a session.
    fn adopt(&self, which: &ContainerName) -> Result<Adopted> {
        Err(LifecycleError::Bug(format!("{} cannot be adopted", which.which)))
    }

    /// What a session from elsewhere becomes here: made as this container is, by its specification, and with none of its files.
    fn like(&self, taken: &Record, which: &ContainerName, _image: Option<&Image>) -> Result<Record> {
        let detail =
            format!("session {} was no container, and cannot be made like {}", taken.name, which.which);
        Err(LifecycleError::BadRequest { detail })
    }

    /// Runs commands in a new one. The record then names its processes.
    fn launch(&self, record: &mut Record, commands: Commands, devices: Vec<DeviceNode>) -> Result<()>;

    /// Makes a new one for a restore of `images`, with what the old one had beside its tree.
    fn make_ready(&self, record: &mut Record, images: &Path, devices: Vec<DeviceNode>) -> Result<()>;

    /// Refuses images that must not be restored here.
    fn check_images(&self, record: &Record, images: &Path) -> Result<()>;

    /// CRIU has made the processes, and they do not run yet. On an error they are gone.
    fn before_they_run(&self, record: &Record, images: &Path, made: Made) -> Result<()>;

    /// The first process that came of a restore, as the machine numbers it; `None` if it is gone again.
    fn restored_root(&self, record: &Record, pid: i32) -> Result<Option<Identity>>;

    /// Writes what it has beside its tree to the images, when everything stands still. What takes time is done before this returns.
    fn saving<'a>(&'a self, record: &'a Record) -> Result<Saving<'a>>;

    // ---- beside the one that lives ----

    /// Whether a second one can stand by beside this one, to take its place.
    fn can_stand_by(&self, _: &Record) -> bool {
        false
    }

    /// Whether there is room for processes that stand by and use so many bytes; with `None`, for those that do so already.
    fn room_beside(&self, _: Option<u64>) -> bool {
        false
    }

    /// As [`Habitat::make_ready`], beside the one that lives, which is not touched. The record then names the new one. [`Habitat::end`]
    /// spares it for as long as this daemon lives, until it has moved in. CRIU will write its log to `log_dir`.
    fn make_beside(&self, record: &mut Record, _images: &Path, _log_dir: &Path) -> Result<()> {
        Err(LifecycleError::Bug(format!("nothing can stand by for session {}", record.id)))
    }

    /// What stands by takes the place of the one that lived, which is gone; it does not run yet. The record then names it. An error says
    /// that it does not fit: some file that it has open is not the one that has that name now.
    fn move_in(&self, record: &mut Record, _beside: &Record) -> Result<()> {
        Err(LifecycleError::Bug(format!("nothing stands by for session {}", record.id)))
    }

    /// Ends what stands by, or is being made to.
    fn end_beside(&self, _beside: &Record) -> Result<()> {
        Ok(())
    }

    /// Ends what a daemon before this one had made for the session and its record does not name.
    fn end_strays(&self, _record: &Record) -> Result<()> {
        Ok(())
    }

    // ---- what it is like ----

    /// How paths inside relate to paths outside.
    fn places(&self, record: &Record) -> Places;

    /// Where files may be that its processes watch.
    fn watched(&self, record: &Record) -> Vec<PathBuf>;

    /// The program that looks into its box, and the box, for a look at what could not be captured.
    fn look_inside(&self, record: &Record) -> Option<(Program, Identity)>;

    /// Makes what a branch lives in, and its files, if both are one; the branch's record then says so, and what it was made of is as it was.
    fn make_branch(&self, _: &Record, _of: &Record, _: &BranchFiles<'_>) -> Result<Option<MadeBranch>> {
        Ok(None)
    }

    /// Removes what was made for a branch, or half of it. It has no processes.
    fn remove_branch(&self, _: &Record) -> Result<()> {
        Ok(())
    }

    /// Why a second one cannot live beside it, if that is so.
    fn why_no_branch(&self, record: &Record) -> Option<&'static str>;

    /// Why its command cannot be run anew, if that is so.
    fn why_no_restart(&self) -> Option<&'static str>;

    // ---- while it lives ----

    /// Opens the way out of its network, if it is wanted and not there. Best effort: no machine's network may cost a session.
    fn open_network(&self, record: &mut Record);

    /// The servers that its processes run.
    fn servers(&self, _record: &Record) -> Result<Vec<api::Server>> {
        Ok(Vec::new())
    }

    /// Leads ports outside to its kernel's.
    fn forward(&self, id: &SessionId, ports: &[u16]) -> Result<Identity>;

    /// Runs a command inside, beside its own.
    fn exec(
        &self,
        record: &Record,
        command: &[OsString],
        env: &[(OsString, OsString)],
        action: &'static str,
    ) -> Result<Output>;

    /// Signals the main command, or its process group.
    fn signal(&self, init: Identity, signal: Signal, group: bool) -> Result<()>;

    // ---- how it ends ----

    /// Lets go what somebody holds still beside us, if that is asked for, and refuses it otherwise. What comes of it holds it again.
    fn let_go(&self, record: &Record, asked: bool) -> Result<Option<HoldAgain>> {
        let detail = || format!("session {} is no container, which alone can be let go", record.name);
        if asked { Err(LifecycleError::BadRequest { detail: detail() }) } else { Ok(None) }
    }

    /// Thaws what somebody froze.
    fn thaw(&self, id: &SessionId);

    /// Ends every process, also of a start or restore that was cut short, and waits until they are gone.
    fn end(&self, record: &Record) -> Result<()>;

    /// Frees helpers, cgroup and the like. Nothing of it holds state, so what fails here is litter, not loss; the next start looks
    /// for it again.
    fn free(&self, record: &Record);

    /// Ends and frees what a start has made before there was a record of it.
    fn sweep(&self, id: &SessionId) -> Result<()>;
}
