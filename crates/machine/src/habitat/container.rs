//! A container that ran before we came: its runtime makes it, and makes it again when it comes back.
//!
//! It has namespaces, mounts, devices and a cgroup of its own. A snapshot has its processes, what it has in memory (CRIU saves that with them),
//! and files that are open for writing; everything else is asked of the runtime at each restore, from the specification that the container has
//! then. Images are held against that specification when a snapshot is taken and before it is restored (`containers::back`). Only root's own
//! daemon has containers.
//!
//! **The end.** When a container is put to sleep, its runtime forgets its processes, so that it can be made again under the same id. One that
//! ended by itself is left as it is: whoever looks after it wants to see that. And under the id of one that is gone somebody may have started
//! another, which is none of our business. So we remove a container only if we have ended its first process, or if we have asked the
//! runtime to make it and the session's record does not name what was made: nobody but us can have made that. Both are noted before they are
//! done ([`Asked`]), for a daemon that comes after us.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use api::{ContainerName, SessionState};
use base::io_error;
use base::proc::Hold;
use containers::back::{self, Claimed, DESCRIPTORS};
use containers::{Image, Kind, Specification, Volumes};
use lifecycle::ports::{
    Adopted, ContainerRecord, Habitat, HabitatKind, HoldAgain, Made, MadeBranch, Place, Record, Saving,
};
use lifecycle::{LifecycleError, Result, SessionId};
use rustix::process::Signal;
use sandbox::process::{self, Identity};
use sandbox::{Commands, DeviceNode, Program};
use serde_json::Value;
use workspace::{BranchFiles, Places};

use super::claims::claimed;
use super::ending::end_boxes;
use super::second;
use super::suitable::{Seen, check_image, check_sort, no_session};
use crate::asked::Asked;
use crate::containers_here::{back_error, container_error, container_of, find, found, live, maker_of};

/// Beside the images: what the container was made from, for people. Nothing is ever made from it.
const SPECIFICATION: &str = "infinijup-specification.json";

/// Containers of this machine.
pub(crate) struct Containers {
    place: Place,
}

impl Containers {
    pub(crate) fn new(place: &Place) -> Self {
        Self { place: place.clone() }
    }
}

impl Habitat for Containers {
    fn adopt(&self, which: &ContainerName) -> Result<Adopted> {
        let container = find(which)?;
        check_sort(&container)?;
        let seen = Seen::of(&container)?;
        // Errors say that this runtime cannot be asked to make it again.
        let state = maker_of(&seen.record)?.state().map_err(back_error)?;
        if let Some(file) = state.file_outside() {
            return Err(no_session(
                &container,
                &format!("it reads from or writes to {file}, which is outside of it"),
            ));
        }
        let init = container.pid.map(Identity::of).transpose()?.flatten();
        let init = init.ok_or_else(|| no_session(&container, "it has no process"))?;
        let cwd = container.specification.at("/process/cwd").and_then(Value::as_str).unwrap_or("/");
        Ok(Adopted {
            init,
            habitat: HabitatKind::Container,
            command: process::command_line(init.pid),
            cwd: cwd.into(),
            workspace: ("/".into(), seen.files),
            mapped: seen.mapped,
            container: Some(seen.record),
        })
    }

    fn like(&self, taken: &Record, which: &ContainerName, image: Option<&Image>) -> Result<Record> {
        let model = find(which)?;
        check_sort(&model)?;
        check_image(&model, taken, image)?;
        let Seen { record, files, mapped } = Seen::of(&model)?;
        Ok(Record {
            container: Some(ContainerRecord { is_model: true, ..record }),
            files_at: files,
            mapped,
            ..taken.clone()
        })
    }

    fn launch(&self, record: &mut Record, _: Commands, _: Vec<DeviceNode>) -> Result<()> {
        Err(LifecycleError::Bug(format!("session {} is a container and cannot be launched", record.id)))
    }

    fn make_ready(&self, record: &mut Record, _: &Path, _: Vec<DeviceNode>) -> Result<()> {
        // One that has ended, and that nobody has removed since. One that runs stays, and this says so.
        maker_of(container_of(record)?)?.delete(false).map_err(back_error)
    }

    fn check_images(&self, record: &Record, images: &Path) -> Result<()> {
        let container = container_of(record)?;
        let now = live(container)?;
        let maker = maker_of(container)?;
        if !maker.keeps_cgroups_below() {
            let path = images.join(SPECIFICATION);
            let text = fs::read(&path).map_err(io_error("read", &path))?;
            // For the cgroup that the images name. Nothing is made from it.
            let then = Specification::parse(&text).unwrap_or_default();
            maker.goes_back_into(&then, &now).map_err(back_error)?;
        }
        check(record, &now, &claimed(images)?)
    }

    fn before_they_run(&self, _: &Record, _: &Path, _: Made) -> Result<()> {
        Ok(())
    }

    fn restored_root(&self, _: &Record, pid: i32) -> Result<Option<Identity>> {
        Ok(Identity::of(pid)?)
    }

    fn saving<'a>(&'a self, record: &'a Record) -> Result<Saving<'a>> {
        let container = container_of(record)?;
        // Its runtime may take its time to answer.
        let maker = maker_of(container)?;
        let (state, specification) = (maker.state().map_err(back_error)?, live(container)?);
        Ok(Box::new(move |images| {
            // What could not be woken is not put to sleep.
            let asked = claimed(images)?;
            check(record, &specification, &asked)?;
            maker.accepts(&asked).map_err(back_error)?;
            let write = |name: &str, text: &[u8]| {
                let path = images.join(name);
                fs::write(&path, text).map_err(io_error("write", &path))
            };
            write(DESCRIPTORS, state.descriptors().as_bytes())?;
            Ok(write(SPECIFICATION, specification.raw().to_string().as_bytes())?)
        }))
    }

    fn places(&self, record: &Record) -> Places {
        let Volumes { mapped, read_only, private } = volumes(record);
        Places {
            workspace: Some((record.workspace.clone(), record.files_at.clone())),
            private,
            moved: Vec::new(),
            mapped,
            read_only,
            daemons: Some(self.place.state.clone()),
            // Only root's own daemon has containers.
            many_owners: true,
            is_layer: record.container.as_ref().is_some_and(|container| container.is_layer),
        }
    }

    fn watched(&self, _: &Record) -> Vec<PathBuf> {
        Vec::new()
    }

    fn look_inside(&self, _: &Record) -> Option<(Program, Identity)> {
        None
    }

    fn make_branch(
        &self,
        record: &Record,
        of: &Record,
        files: &BranchFiles<'_>,
    ) -> Result<Option<MadeBranch>> {
        second::make(&self.place, record, of, files).map(Some)
    }

    fn remove_branch(&self, record: &Record) -> Result<()> {
        let Some(container) = record.container.as_ref().filter(|container| container.ours) else {
            return Ok(());
        };
        // One that somebody has started anew since is theirs to stop.
        maker_of(container)?.remove(record.state == SessionState::Starting).map_err(back_error)
    }

    fn why_no_branch(&self, record: &Record) -> Option<&'static str> {
        let missing = "it was a container on another machine, and is none here";
        record.container.is_none().then_some(missing)
    }

    fn why_no_restart(&self) -> Option<&'static str> {
        Some("it is a container: its runtime starts it")
    }

    fn open_network(&self, _: &mut Record) {}

    fn forward(&self, id: &SessionId, _: &[u16]) -> Result<Identity> {
        Err(LifecycleError::Bug(format!("session {id} is a container and has no ports of its own")))
    }

    fn exec(
        &self,
        record: &Record,
        _: &[OsString],
        _: &[(OsString, OsString)],
        _: &'static str,
    ) -> Result<Output> {
        Err(LifecycleError::BadRequest {
            detail: format!("session {} is a container: its runtime runs commands in it", record.name),
        })
    }

    fn signal(&self, init: Identity, signal: Signal, group: bool) -> Result<()> {
        Ok(sandbox::signal_main(init, false, signal, group)?)
    }

    fn let_go(&self, record: &Record, asked: bool) -> Result<Option<HoldAgain>> {
        let frozen = |init: Identity| {
            let holds = base::proc::holds(init.pid).map_err(io_error("read", "/proc"))?.unwrap_or_default();
            Ok::<_, LifecycleError>(holds.iter().any(|hold| matches!(hold, Hold::Cgroup { .. })))
        };
        // Most run, and their runtimes need not be asked.
        if !asked && !record.init.map(frozen).transpose()?.unwrap_or(false) {
            return Ok(None);
        }
        let container = found(container_of(record)?)?;
        if !asked {
            return containers::check_free(&container).map(|()| None).map_err(container_error);
        }
        let thawed = containers::thaw(&container).map_err(container_error)?;
        Ok(thawed.map(|thawed| -> HoldAgain { Box::new(|| thawed.hold_again()) }))
    }

    fn thaw(&self, _: &SessionId) {
        // Its cgroup is its runtime's, and so is its pause.
    }

    fn end(&self, record: &Record) -> Result<()> {
        let asked = Asked::in_directory(&self.place.criu_log(&record.id));
        let note = asked.wait()?;
        let force = match record.init {
            // All of its processes end with the first one.
            Some(init) if init.is_alive() => {
                maker_of(container_of(record)?)?.about_to_end(init.pid).map_err(back_error)?;
                asked.ending(init);
                end_boxes(&record.id, &[init])?;
                Some(false)
            }
            // The record may name a process that was ended long before the runtime was asked.
            init => note.is_some_and(|note| note.is_open(init)).then_some(true),
        };
        if let Some(force) = force {
            let container = container_of(record)?;
            if force {
                end_half_made(record, container)?;
            }
            maker_of(container)?.delete(force).map_err(back_error)?;
        } else if note.is_some_and(|note| note.ends(record.init)) {
            // Ended by a daemon that did not come to the rest. Somebody may have started another one under this id since, which stays: if it is
            // in the way, a return says so.
            let _stays = maker_of(container_of(record)?)?.delete(false);
        }
        asked.forget()
    }

    fn free(&self, _: &Record) {}

    fn sweep(&self, _: &SessionId) -> Result<()> {
        Ok(())
    }
}

/// Ends processes of a restore that was cut short. The runtime does not know of them.
fn end_half_made(record: &Record, container: &ContainerRecord) -> Result<()> {
    let specification = live(container).or_else(|_| {
        // containerd may just be starting anew, and a removal waits for that. Who is below its shim goes on meanwhile.
        maker_of(container)?.delete(true).map_err(back_error)?;
        live(container)
    });
    // Without a specification there is no runtime either that would make it.
    let Ok(specification) = specification else { return Ok(()) };
    match maker_of(container)?.end_strays(&specification) {
        true => Ok(()),
        false => Err(LifecycleError::Bug(format!(
            "processes of container {} did not end after SIGKILL",
            record.name
        ))),
    }
}

/// Refuses images that ask for more than the specification has.
fn check(record: &Record, specification: &Specification, claimed: &Claimed) -> Result<()> {
    let findings = back::check(specification, &record.files_at, claimed);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::Untrusted { uid: record.owner.uid, findings }),
    }
}

/// What is mounted in it: as its bundle says now, where that is who says it; otherwise as it was when it became a session.
fn volumes(record: &Record) -> Volumes {
    let Some(container) = &record.container else { return Volumes::default() };
    let in_bundle = matches!(container.runtime.kind(), Kind::Runc | Kind::Crun);
    match in_bundle.then(|| live(container)) {
        Some(Ok(specification)) => {
            Volumes::of(&specification, &record.files_at, &container.bundle, &container.id)
        }
        _ => Volumes {
            mapped: record.mapped.clone(),
            read_only: container.read_only.clone(),
            private: container.private.clone(),
        },
    }
}
