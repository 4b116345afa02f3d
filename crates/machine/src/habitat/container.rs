//! A container that ran before we came: its runtime makes it, and makes it again when it comes back.
//!
//! It has namespaces, mounts, devices and a cgroup of its own. A snapshot has its processes, what it has in memory (CRIU saves that with them),
//! and files that are open for writing; everything else is asked of the runtime at each restore, from the specification that the container has
//! then. Images are held against that specification when a snapshot is taken and before it is restored (`containers::back`). Only root's own
//! daemon has containers.
//!
//! **The end.** When a container is put to sleep, its runtime forgets its processes, so that it can be made again under the same id. One that
//! ended by itself is left as it is: whoever looks after it wants to see that. And under the id of one that is gone somebody may have started
//! another, which is none of our business. So we remove a container only if we have just ended its first process, or if we have asked the
//! runtime to make it and nobody has written down yet that this was done ([`Asked`]).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use api::ContainerName;
use base::io_error;
use containers::back::{self, DESCRIPTORS};
use containers::{Container, Kind, Specification};
use lifecycle::ports::{Adopted, ContainerRecord, Habitat, HabitatKind, Made, Place, Record};
use lifecycle::{LifecycleError, Result, SessionId};
use rustix::process::Signal;
use sandbox::process::{self, Identity};
use sandbox::{Commands, DeviceNode, Program};
use serde_json::Value;
use workspace::Places;

use super::claims::claimed;
use super::ending::end_boxes;
use crate::asked::Asked;
use crate::containers_here::{back_error, find, live, maker_of};

/// Beside the images: what the container was made from, for people. Nothing is ever made from it.
const SPECIFICATION: &str = "infinijup-specification.json";
/// podman removes such a container as soon as it has ended.
const REMOVED_AT_ITS_END: &str = "io.podman.annotations.autoremove";

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
        let refused = |why: &str| LifecycleError::BadRequest {
            detail: format!("container {} cannot become a session: {why}", container.called()),
        };
        if let Some(why) = why_not(&container) {
            return Err(refused(why));
        }
        let init = container.pid.map(Identity::of).transpose()?.flatten();
        let bundle = container.bundle.clone();
        let specification = &container.specification;
        let record = ContainerRecord {
            runtime: container.runtime.clone(),
            id: container.id.clone(),
            name: container.name.clone(),
            namespace: container.namespace.clone(),
            bundle: bundle.ok_or_else(|| refused("its runtime does not say where its specification is"))?,
            private: private(specification),
            image: container.image.clone(),
        };
        // Errors say that this runtime cannot be asked to make it again.
        let state = maker_of(&record)?.state().map_err(back_error)?;
        if let Some(file) = state.file_outside() {
            let why = format!("it reads from or writes to {file}, which is outside of it");
            return Err(refused(&why));
        }
        let init = init.ok_or_else(|| refused("it has no process"))?;
        // Where layers are put together only while it runs, what it writes goes to one of its own.
        let root = match container.runtime.kind() {
            Kind::Runc | Kind::Crun => container.root.path.clone(),
            Kind::Containerd | Kind::Podman => container.root.writable.clone(),
        };
        let root = root.ok_or_else(|| refused("its runtime does not say where its files are"))?;
        let cwd = specification.at("/process/cwd").and_then(Value::as_str).unwrap_or("/");
        Ok(Adopted {
            init,
            habitat: HabitatKind::Container,
            command: process::command_line(init.pid),
            cwd: cwd.into(),
            workspace: ("/".into(), fs::canonicalize(&root).map_err(io_error("look at", &root))?),
            mapped: volumes(specification),
            container: Some(record),
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
        check(record, &live(container_of(record)?)?, images)
    }

    fn before_they_run(&self, _: &Record, _: &Path, _: Made) -> Result<()> {
        Ok(())
    }

    fn restored_root(&self, _: &Record, pid: i32) -> Result<Option<Identity>> {
        Ok(Identity::of(pid)?)
    }

    fn save(&self, record: &Record, images: &Path) -> Result<()> {
        let container = container_of(record)?;
        let (maker, specification) = (maker_of(container)?, live(container)?);
        // What could not be woken is not put to sleep.
        check(record, &specification, images)?;
        let write = |name: &str, text: &[u8]| {
            let path = images.join(name);
            fs::write(&path, text).map_err(io_error("write", &path))
        };
        let state = maker.state().map_err(back_error)?;
        write(DESCRIPTORS, state.descriptors().as_bytes())?;
        Ok(write(SPECIFICATION, specification.raw().to_string().as_bytes())?)
    }

    fn places(&self, record: &Record) -> Places {
        Places {
            workspace: Some((record.workspace.clone(), record.files_at.clone())),
            private: record.container.as_ref().map(|container| container.private.clone()).unwrap_or_default(),
            moved: Vec::new(),
            mapped: record.mapped.clone(),
            daemons: Some(self.place.state.clone()),
        }
    }

    fn watched(&self, _: &Record) -> Vec<PathBuf> {
        Vec::new()
    }

    fn look_inside(&self, _: &Record) -> Option<(Program, Identity)> {
        None
    }

    fn why_no_branch(&self, _: &Record) -> Option<&'static str> {
        Some(
            "it is a container: a second one beside it would need a specification of its own, with other addresses and files",
        )
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

    fn thaw(&self, _: &SessionId) {
        // Its cgroup is its runtime's, and so is its pause.
    }

    fn end(&self, record: &Record) -> Result<()> {
        let asked = Asked::in_directory(&self.place.criu_log(&record.id));
        let was_asked = asked.wait()?;
        let force = match record.init {
            // All of its processes end with the first one.
            Some(init) if init.is_alive() => {
                end_boxes(&record.id, &[init])?;
                Some(false)
            }
            Some(_) => None,
            None => was_asked.then_some(true),
        };
        if let Some(force) = force {
            maker_of(container_of(record)?)?.delete(force).map_err(back_error)?;
        }
        asked.forget()
    }

    fn free(&self, _: &Record) {}

    fn sweep(&self, _: &SessionId) -> Result<()> {
        Ok(())
    }
}

/// The container that a session is.
fn container_of(record: &Record) -> Result<&ContainerRecord> {
    let missing = || LifecycleError::BadRequest {
        detail: format!("session {} was a container on another machine, and is none here", record.name),
    };
    record.container.as_ref().ok_or_else(missing)
}

/// Refuses images that ask for more than the specification has.
fn check(record: &Record, specification: &Specification, images: &Path) -> Result<()> {
    let findings = back::check(specification, &record.files_at, &claimed(images)?);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(LifecycleError::Untrusted { uid: record.owner.uid, findings }),
    }
}

/// Why a container cannot be brought back, if that can be told by what it was made from.
fn why_not(container: &Container) -> Option<&'static str> {
    let specification = &container.specification;
    if specification.at("/process/terminal").and_then(Value::as_bool) == Some(true) {
        return Some("it has a terminal, and whoever holds the other end of that is in no snapshot");
    }
    if !specification.namespaces().iter().any(|one| one.kind == "pid" && one.path.is_none()) {
        return Some("it has no process ids of its own, so that they may not be free when it comes back");
    }
    if container.annotations.get(REMOVED_AT_ITS_END).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Some(
            "it was started with --rm, and would be gone with all its files when it is put to sleep",
        );
    }
    None
}

/// Directories of the host that it sees elsewhere, the innermost last.
fn volumes(specification: &Specification) -> Vec<(PathBuf, PathBuf)> {
    let mounts = specification.mounts().into_iter().filter(|mount| mount.is_bind());
    let mut found: Vec<(PathBuf, PathBuf)> =
        mounts.filter_map(|mount| Some((mount.destination, fs::canonicalize(mount.source).ok()?))).collect();
    found.sort_by_key(|(inside, _)| inside.components().count());
    found
}

/// What is in memory, or the kernel's.
fn private(specification: &Specification) -> Vec<PathBuf> {
    let mounts = specification.mounts().into_iter().filter(|mount| !mount.is_bind());
    mounts.map(|mount| mount.destination).collect()
}
