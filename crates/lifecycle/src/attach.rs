//! What we did not start: trees and containers, adopted for good (`attach`); trees, dumped and restored once without supervision.
//!
//! An adopted tree has no box: it lives in the machine's namespaces, with the machine's process ids and ports. It can be
//! snapshotted, rolled back, suspended and resumed, because its ids are free again when it has ended. It cannot be branched
//! beside itself. A container has namespaces that its runtime makes.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use api::{
    AttachRequest, CheckpointOutcome, CheckpointRequest, RestoreRequest, RestoredOutcome, SessionView,
};
use checkpoint_criu::{Leave, NoHooks};
use manifest::snapshot::GpuSection;
use preflight::Needs;
use sandbox::User;
use sandbox::process::{self, Identity};
use session_record::journal::Phase;
use session_record::place::make;
use session_record::{Adopted, HabitatKind, Record, SessionId, session_view, write_json};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::ports::{DumpWanted, GpuPlan, RestoreWanted, Tree};
use crate::steps::{NoWatch, Steps};
use session_record::files::remove_directory;
use session_record::locks::Doing;

/// Beside CRIU's images: what the driver has to bring back after them.
const GPU_FILE: &str = "infinijup-gpu.json";

impl Engine {
    /// Looks after a process tree or a container that runs already, as a session. A container is one session, however often it is asked for.
    pub fn attach(&self, request: &AttachRequest) -> Result<SessionView> {
        let (found, owner) = match (request.pid, &request.container) {
            (Some(pid), None) => self.adopt_tree(pid)?,
            (None, Some(which)) => {
                let is_it = |record: &&Record| record.is_container(which) && record.runs_or_sleeps();
                if let Some(record) = self.records().values().find(is_it) {
                    return Ok(session_view(record));
                }
                self.checkpointer().can_serve_host()?;
                (self.inner.ports.container.adopt(which)?, self.inner.user.clone())
            }
            _ => {
                let detail = "a process or a container becomes a session, one of them".to_owned();
                return Err(LifecycleError::BadRequest { detail });
            }
        };
        self.checkpointer().can_serve_host()?;
        // One that was started anew since it ended goes on with its history.
        let before = self.records().values().find(|record| record.was_before(&found)).cloned();
        let record = before.map_or_else(|| self.new_adopted(request.name.as_deref(), &found, owner), Ok)?;
        let _held = self.inner.locks.take(&record.id, &record.name, Doing::Start)?;
        let (place, id) = (&self.inner.place, &record.id);
        for directory in [place.session(id), place.criu_log(id), place.box_dir(id)] {
            make(&directory)?;
        }
        let record = record.adopted(found);
        self.save(&record)?;
        Ok(self.running(&record))
    }

    /// The record of a session that is not there yet.
    fn new_adopted(&self, name: Option<&str>, found: &Adopted, owner: User) -> Result<Record> {
        let id = SessionId::random()?;
        let is_free = |name: &&str| self.check_free_name(name).is_ok();
        let name = self.free_name(name.or_else(|| found.called().filter(is_free)), &id)?;
        let thread = self.inner.store.open()?.free_thread(&name, id.as_str())?;
        Ok(Record::new(id, name, thread, owner))
    }

    /// A process tree of the machine's.
    fn adopt_tree(&self, pid: i32) -> Result<(Adopted, User)> {
        let (init, owner) = attachable(&self.inner.user, pid)?;
        if self.records().values().any(|record| record.init == Some(init)) {
            return Err(LifecycleError::BadRequest { detail: format!("process {pid} is a session already") });
        }
        let cwd = fs::read_link(format!("/proc/{pid}/cwd"))
            .map_err(io_error("read", format!("/proc/{pid}/cwd")))?;
        let (habitat, command) = (HabitatKind::HostTree, process::command_line(pid));
        let workspace = (cwd.clone(), cwd.clone());
        Ok((Adopted { init, habitat, container: None, command, cwd, workspace, mapped: Vec::new() }, owner))
    }

    /// Dumps a tree into a directory, once. For root only: plain images are whatever someone makes of them.
    pub fn checkpoint(&self, request: &CheckpointRequest) -> Result<CheckpointOutcome> {
        let CheckpointRequest { pid, directory, leave_running } = request;
        let (pid, directory, leave_running) = (*pid, directory.as_path(), *leave_running);
        only_root(&self.inner.user, "checkpoint a process into a directory")?;
        let (init, owner) = attachable(&self.inner.user, pid)?;
        self.checkpointer().can_serve_host()?;
        // The memory of a process is in it.
        fs::DirBuilder::new().mode(0o700).create(directory).map_err(io_error("create", directory))?;
        let litter = |error: LifecycleError| {
            // Made by us a moment ago; half of a dump is of no use, and would be in the way of the next attempt.
            let _litter = remove_directory(directory);
            error
        };
        let plan = self.may_be_dumped(init, directory).map_err(litter)?;
        let tree = Tree::of_host(&owner);
        let leave = if leave_running { Leave::Running } else { Leave::Ended };
        let wanted = DumpWanted {
            init,
            images: directory,
            log_dir: directory,
            leave,
            watched: Vec::new(),
            stored: None,
        };
        let dump = || self.checkpointer().dump(&tree, &wanted, &mut NoHooks);
        let mut steps = Steps::new(&NoWatch);
        let Some(plan) = plan else {
            let dumped = dump().map_err(litter)?;
            return Ok(written(directory, dumped.stats.frozen_us.into()));
        };
        // No session, so nobody else may know what was done to the GPU: the journal does, under a name of its own.
        let entry = self.inner.journal.begin(&SessionId::random()?, &Phase::Dumping { worker: None })?;
        let taken = self.gpu().take_off(&plan, init.pid, None, &entry, &mut steps).and_then(|mut off| {
            let noted = write_json(&directory.join(GPU_FILE), &plan.section).map_err(LifecycleError::from);
            match noted.and_then(|()| dump()) {
                Ok(dumped) if !leave_running => {
                    off.ended();
                    Ok(dumped)
                }
                other => {
                    off.back_for_good(&entry, &mut steps)?;
                    other
                }
            }
        });
        let dumped = match taken {
            Ok(dumped) => dumped,
            // The entry stays: the next start tries again.
            Err(error @ LifecycleError::GpuStuck { .. }) => return Err(error),
            Err(error) => {
                entry.done()?;
                return Err(litter(error));
            }
        };
        entry.done()?;
        Ok(written(directory, dumped.stats.frozen_us.into()))
    }

    /// Restores what [`Engine::checkpoint`] wrote, with the same process ids. For root only.
    pub fn restore_directory(&self, request: &RestoreRequest) -> Result<RestoredOutcome> {
        let directory = request.directory.as_path();
        only_root(&self.inner.user, "restore a directory of images")?;
        self.checkpointer().can_serve_host()?;
        let tree = Tree::of_host(&self.inner.user);
        let (images, log_dir) = (directory, directory);
        let wanted =
            RestoreWanted { images, missing: None, follow: false, log_dir, file_locks: true, hold: None };
        let gpu = directory.join(GPU_FILE);
        let placed = match fs::read(&gpu) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => {
                let bytes = read.map_err(io_error("read", &gpu))?;
                let damaged = |error: serde_json::Error| LifecycleError::BadRequest {
                    detail: format!("`{}` cannot be read: {error}", gpu.display()),
                };
                let section = serde_json::from_slice::<GpuSection>(&bytes).map_err(damaged)?;
                // The driver first: without it there is no use in a restore.
                Some(self.gpu().place_as_before(section)?)
            }
        };
        let pid = self.checkpointer().restore(&tree, &wanted, &mut NoHooks)?;
        if let Some(placed) = placed {
            let init = Identity::of(pid)?.ok_or_else(|| {
                LifecycleError::Bug(format!("process {pid} was restored and was gone at once"))
            })?;
            let entry = self.inner.journal.begin(&SessionId::random()?, &Phase::Dumping { worker: None })?;
            // On an error the processes are there and off the GPU, and the entry stays: the next start tries again.
            placed.put(init, &entry, &mut Steps::new(&NoWatch))?;
            entry.done()?;
        }
        Ok(RestoredOutcome { pid })
    }
}

impl Engine {
    /// Looks for what would make a dump into a directory fail, and for what is to be taken off GPUs.
    fn may_be_dumped(&self, init: Identity, directory: &Path) -> Result<Option<GpuPlan>> {
        let seen = self.gpu().look(init.pid)?;
        let needs = Needs {
            staging: Some(directory.to_owned()),
            store: directory.to_owned(),
            uid: None,
            boxed: None,
            on_gpu: seen.as_ref().map(|seen| seen.on_gpu.clone()).unwrap_or_default(),
            vram_bytes: seen.as_ref().map_or(0, |seen| seen.vram_bytes),
        };
        let mut found = preflight::look(init.pid, &needs)?;
        if let Some(seen) = &seen {
            found.refusals.extend(seen.refusals.iter().cloned());
        }
        found.verdict()?;
        Ok(seen.map(|seen| (seen.plan)()).transpose()?.flatten())
    }
}

/// A tree was written to a directory.
fn written(directory: &Path, frozen_us: u64) -> CheckpointOutcome {
    // What cannot be looked at counts as nothing.
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file);
    CheckpointOutcome { directory: directory.into(), frozen_us, bytes: files.map(|file| file.len()).sum() }
}

/// A process that this user may adopt, and its owner.
fn attachable(user: &User, pid: i32) -> Result<(Identity, User)> {
    let missing = || LifecycleError::NoSuchSession { which: format!("process {pid}") };
    let found = user.process(pid)?.ok_or_else(missing)?;
    if pid == 1 {
        return Err(LifecycleError::BadRequest { detail: "process 1 is the machine's own".to_owned() });
    }
    Ok(found)
}

fn only_root(user: &User, what: &str) -> Result<()> {
    if user.uid == 0 {
        return Ok(());
    }
    Err(LifecycleError::BadRequest {
        detail: format!(
            "only root may {what}: plain images carry credentials; `infinijup attach` is for everyone"
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn plain_images_are_roots_alone() {
        let nobody = sandbox::User { uid: 65_534, ..sandbox::User::by_uid(0).unwrap() };
        assert_eq!(super::only_root(&nobody, "do it").unwrap_err().code(), "IJ-L015");
    }
}
