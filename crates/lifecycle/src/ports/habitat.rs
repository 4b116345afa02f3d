//! What every habitat answers for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;
use sandbox::process::Identity;
use sandbox::{Commands, DeviceNode, Program};
use workspace::Places;

use crate::error::Result;
use crate::record::{Record, SessionId};

/// What CRIU has made, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The first process, as CRIU numbers it.
    pub pid: i32,
    /// CRIU's worker.
    pub worker: Option<i32>,
}

/// A place for processes.
pub trait Habitat: Send + Sync {
    // ---- how processes get there ----

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

    /// Writes what it has beside its tree to `images`. Everything stands still.
    fn save(&self, record: &Record, images: &Path) -> Result<()>;

    // ---- what it is like ----

    /// How paths inside relate to paths outside.
    fn places(&self, record: &Record) -> Places;

    /// Where files may be that its processes watch.
    fn watched(&self, record: &Record) -> Vec<PathBuf>;

    /// The program that looks into its box, and the box, for a look at what could not be captured.
    fn look_inside(&self, record: &Record) -> Option<(Program, Identity)>;

    /// Why a second one cannot live beside it, if that is so.
    fn why_no_branch(&self, record: &Record) -> Option<&'static str>;

    /// Why its command cannot be run anew, if that is so.
    fn why_no_restart(&self) -> Option<&'static str>;

    // ---- while it lives ----

    /// Opens the way out of its network, if it is wanted and not there. Best effort: no machine's network may cost a session.
    fn open_network(&self, record: &mut Record);

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
