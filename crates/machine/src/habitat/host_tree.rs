//! A tree that ran before we came, in the machine's namespaces, with the machine's process ids and ports.
//!
//! It can be snapshotted, rolled back, suspended and resumed, because its ids are free again when it has ended; it cannot be branched
//! beside itself. Only root's own daemon has such trees, and what it restores has root's rights: images are read by the strict
//! reader first, and the processes are looked at again before they run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use checkpoint_criu::images::Images;
use image_trust::TrustError;
use lifecycle::ports::{Habitat, Made, Record, Saving};
use lifecycle::{LifecycleError, Result, SessionId};
use rustix::process::Signal;
use sandbox::process::{self, Identity, ProcessInfo};
use sandbox::{Commands, DeviceNode, Program};
use workspace::Places;

use super::ending::{end_all, remove_group, thaw_group};
use crate::criu_here::CriuHere;

/// How long the ids of processes that have ended may take to be free.
const PIDS_LIMIT: Duration = Duration::from_secs(10);

/// The machine's own processes.
pub(crate) struct HostTree {
    criu: Arc<CriuHere>,
}

impl HostTree {
    pub(crate) fn new(criu: Arc<CriuHere>) -> Self {
        Self { criu }
    }
}

impl Habitat for HostTree {
    fn launch(&self, record: &mut Record, _: Commands, _: Vec<DeviceNode>) -> Result<()> {
        Err(LifecycleError::Bug(format!("session {} was adopted and cannot be launched", record.id)))
    }

    fn make_ready(&self, _: &mut Record, images: &Path, _: Vec<DeviceNode>) -> Result<()> {
        self.criu.for_host()?;
        wait_for_pids(images)
    }

    fn check_images(&self, record: &Record, images: &Path) -> Result<()> {
        image_trust::check_images(images, &record.owner).map_err(distrust)
    }

    fn before_they_run(&self, record: &Record, _: &Path, made: Made) -> Result<()> {
        // A path may have been exchanged after the images were checked. CRIU would let them run whatever is answered, so they end here.
        image_trust::check_restored(made.pid, &record.owner).or_else(|error| {
            image_trust::end_refused(made.pid, made.worker).map_err(distrust)?;
            Err(distrust(error))
        })
    }

    fn restored_root(&self, _: &Record, pid: i32) -> Result<Option<Identity>> {
        Ok(Identity::of(pid)?)
    }

    fn saving<'a>(&'a self, _: &'a Record) -> Result<Saving<'a>> {
        Ok(Box::new(|_| Ok(())))
    }

    fn places(&self, record: &Record) -> Places {
        Places::of_host(Some(&record.workspace))
    }

    fn watched(&self, _: &Record) -> Vec<PathBuf> {
        Vec::new()
    }

    fn look_inside(&self, _: &Record) -> Option<(Program, Identity)> {
        None
    }

    fn why_no_branch(&self, _: &Record) -> Option<&'static str> {
        Some("it was adopted while it ran and has no box; start it with `infinijup run` to branch it")
    }

    fn why_no_restart(&self) -> Option<&'static str> {
        Some("it was adopted while it ran, and nobody knows how it was started")
    }

    fn open_network(&self, _: &mut Record) {}

    fn forward(&self, id: &SessionId, _: &[u16]) -> Result<Identity> {
        Err(LifecycleError::Bug(format!("session {id} was adopted and has no ports of its own")))
    }

    fn exec(
        &self,
        record: &Record,
        _: &[OsString],
        _: &[(OsString, OsString)],
        _: &'static str,
    ) -> Result<Output> {
        Err(LifecycleError::BadRequest {
            detail: format!("session {} was adopted and has no box: run the command as you are", record.name),
        })
    }

    fn signal(&self, init: Identity, signal: Signal, group: bool) -> Result<()> {
        Ok(sandbox::signal_main(init, false, signal, group)?)
    }

    fn thaw(&self, id: &SessionId) {
        thaw_group(id);
    }

    fn end(&self, record: &Record) -> Result<()> {
        // They have no namespace that would take them along. If the first one is gone, its number may be a stranger's by now.
        let living = record.init.filter(Identity::is_alive);
        let tree = living.map(|init| process::tree(init.pid)).transpose()?.unwrap_or_default();
        let doomed: Vec<Identity> =
            record.init.into_iter().chain(tree.iter().map(ProcessInfo::identity)).collect();
        end_all(&record.id, &doomed)
    }

    fn free(&self, record: &Record) {
        let _litter = remove_group(&record.id);
    }

    fn sweep(&self, _: &SessionId) -> Result<()> {
        Ok(())
    }
}

/// The tree comes back with the machine's process ids, which are free only when the parents of the old processes have taken note
/// of their end. What does not become free is CRIU's to complain about.
fn wait_for_pids(images: &Path) -> Result<()> {
    let deadline = Instant::now() + PIDS_LIMIT;
    let tree = Images::open(images)?.pstree()?;
    let taken = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
    while tree.iter().any(|process| taken(process.pid)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// For `map_err`: what the strict reader refuses.
fn distrust(error: TrustError) -> LifecycleError {
    match error {
        TrustError::Refused { uid, findings } => LifecycleError::Untrusted { uid, findings },
        TrustError::Io(error) => error.into(),
        TrustError::Sandbox(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_trusted_has_the_code_that_it_always_had() {
        let refused = TrustError::Refused { uid: 7, findings: vec!["it has no images".to_owned()] };
        assert_eq!(distrust(refused).code(), "IJ-L050");
    }
}
