//! CRIU for containers: our own dump, and the runtime's own restore. `containers::back` says why, and what both agree upon.

use std::path::Path;
use std::time::Duration;

use api::{ContainerName, Text};
use base::{Class, io_error};
use checkpoint_criu::Surroundings;
use containers::back::{self, BackError, Containerd, Crun, Maker, Podman, Restore, Runc};
use containers::container::Runtime;
use containers::{Container, ContainerError, Kind, Narrowed, Places, Query, Specification};
use lifecycle::ports::{ContainerRecord, EngineError, Means, Place, Record, RestoreWanted};
use lifecycle::{LifecycleError, Result, SessionId};
use sandbox::bounded;
use sandbox::process::Identity;

use crate::asked::Asked;

/// How long a runtime may take to say what the specification of a container is.
const PATIENCE: Duration = Duration::from_secs(10);
/// No specification is larger.
const MOST_OF_SPECIFICATION: u64 = 4 << 20;

/// How a container's runtime is asked about it; an error says why it cannot make it again.
pub(crate) fn maker_of(container: &ContainerRecord) -> Result<Maker<'_>> {
    let id = &container.id;
    match &container.runtime {
        Runtime::Runc { program, root } => Ok(Maker::Runc(Runc { program, root, id })),
        Runtime::Containerd { socket } => {
            let namespace = container.namespace.as_deref().unwrap_or("default");
            Ok(Maker::Containerd(Containerd { socket, namespace, id }))
        }
        Runtime::Podman { program, options } => Ok(Maker::Podman(Podman { program, options, id })),
        Runtime::Crun { program, root } => {
            Ok(Maker::Crun(Crun { program, root, id, bundle: &container.bundle }))
        }
    }
}

/// The one that people mean.
pub(crate) fn find(which: &ContainerName) -> Result<Container> {
    let kind = which.runtime.as_deref().map(|word| {
        let kinds = [Kind::Containerd, Kind::Runc, Kind::Crun, Kind::Podman];
        let unknown = || LifecycleError::BadRequest {
            detail: format!("there is no runtime `{}`", word.escape_debug()),
        };
        kinds.into_iter().find(|kind| kind.word() == word).ok_or_else(unknown)
    });
    let path = |text: &Option<Text>| text.as_ref().map(|text| text.as_path().to_owned());
    let narrowed = Narrowed {
        kind: kind.transpose()?,
        address: path(&which.address),
        namespace: which.namespace.clone(),
        runtime_root: path(&which.runtime_root),
    };
    let query = Query::parse(&which.which).map_err(container_error)?;
    containers::find(&Places::here(&narrowed), &query).map_err(container_error)
}

/// The container, as its runtime describes it now.
pub(crate) fn found(container: &ContainerRecord) -> Result<Container> {
    let query = Query::parse(container.id.as_str()).map_err(container_error)?;
    let runtimes = vec![container.runtime.clone()];
    let namespaces = container.namespace.iter().cloned().collect();
    let places = Places { runtimes, namespaces, patience: PATIENCE };
    containers::find(&places, &query).map_err(container_error)
}

/// The specification that it has now: in its bundle, if nobody else keeps it.
pub(crate) fn live(container: &ContainerRecord) -> Result<Specification> {
    if matches!(container.runtime.kind(), Kind::Containerd | Kind::Podman) {
        return Ok(found(container)?.specification);
    }
    let path = container.bundle.join("config.json");
    let text = bounded::read_small(&path, MOST_OF_SPECIFICATION).map_err(io_error("read", &path))?;
    Specification::parse(&text).ok_or_else(|| LifecycleError::BadRequest {
        detail: format!("`{}` is no specification of a container", path.display()),
    })
}

/// The container that a session is.
pub(crate) fn container_of(record: &Record) -> Result<&ContainerRecord> {
    let missing = || LifecycleError::BadRequest {
        detail: format!("session {} was a container on another machine, and is none here", record.name),
    };
    record.container.as_ref().ok_or_else(missing)
}

/// What of it CRIU leaves to the runtime.
pub(crate) fn surroundings(container: &ContainerRecord) -> Result<Surroundings> {
    let maker = maker_of(container)?;
    let state = maker.state().map_err(back_error)?;
    let back::Surroundings { root, external } = back::surroundings(&state).map_err(back_error)?;
    let (tcp_close, cgroups_below) = (maker.closes_connections(), maker.keeps_cgroups_below());
    Ok(Surroundings { root, external, tcp_close, cgroups_below })
}

/// Whether a device may write to its memory, now or later, without a trace in any page table. What cannot be found out is taken for that.
pub(crate) fn has_device(init: Identity) -> bool {
    !matches!(containers::devices::extraordinary(init.pid), Ok(None))
}

/// Has the runtime make it from images, and says the number of its first process.
pub(crate) fn restore(
    container: &ContainerRecord,
    wanted: &RestoreWanted<'_>,
    criu: &Path,
    place: &Place,
    session: &SessionId,
    limit: Duration,
) -> Result<i32> {
    let (programs, log) = (place.programs(), place.log(session));
    let restore = Restore {
        bundle: &container.bundle,
        images: wanted.images,
        work: wanted.log_dir,
        criu,
        programs: &programs,
        file_locks: wanted.file_locks,
        log: &log,
        limit,
    };
    let asked = Asked::in_directory(wanted.log_dir);
    asked.note()?;
    let started = |child: &std::process::Child| {
        let pid = i32::try_from(child.id()).ok();
        asked.started(pid.and_then(|pid| Identity::of(pid).ok().flatten()));
    };
    let pid = maker_of(container)?.restore(&restore, started).map_err(back_error)?;
    asked.made(Identity::of(pid)?)?;
    Ok(pid)
}

/// For `map_err`.
pub(crate) fn back_error(error: BackError) -> LifecycleError {
    EngineError::new(error.code(), error.class(), error.hint(), Means::Failure, error).into()
}

/// For `map_err`.
pub(crate) fn container_error(error: ContainerError) -> LifecycleError {
    let means = match error.class() {
        Class::Conflict => Means::ProcessGone,
        _ => Means::Failure,
    };
    EngineError::new(error.code(), error.class(), error.hint(), means, error).into()
}
