//! Which containers can become sessions, and what is known of one that can.

use std::fs;
use std::path::{Path, PathBuf};

use base::io_error;
use containers::back::BackError;
use containers::{Container, Image, Kind, Volumes};
use lifecycle::ports::{ContainerRecord, Record};
use lifecycle::{LifecycleError, Result};
use serde_json::Value;

use crate::containers_here::back_error;

/// podman removes such a container as soon as it has ended.
const REMOVED_AT_ITS_END: &str = "io.podman.annotations.autoremove";

/// What is known of a container that is here.
pub(super) struct Seen {
    pub(super) record: ContainerRecord,
    /// Its own files: its root, or what it writes to.
    pub(super) files: PathBuf,
    /// Its volumes.
    pub(super) mapped: Vec<(PathBuf, PathBuf)>,
}

impl Seen {
    pub(super) fn of(container: &Container) -> Result<Self> {
        // Where layers are put together only while it runs, what it writes goes to one of its own.
        let layered = matches!(container.runtime.kind(), Kind::Containerd | Kind::Podman);
        let bundle = match container.runtime.kind() {
            // containerd makes one when a container begins to run, and removes it when it has ended.
            Kind::Containerd => container.bundle.clone().or_else(|| Some(PathBuf::new())),
            Kind::Runc | Kind::Crun | Kind::Podman => container.bundle.clone(),
        };
        let bundle = bundle
            .filter(|_| container.specification.root_path().is_some())
            .ok_or_else(|| no_session(container, "its runtime does not say where its specification is"))?;
        let mut record = ContainerRecord {
            runtime: container.runtime.clone(),
            id: container.id.clone(),
            name: container.name.clone(),
            namespace: container.namespace.clone(),
            bundle,
            private: Vec::new(),
            read_only: Vec::new(),
            is_layer: false,
            image: container.image.clone(),
            ours: false,
            is_model: false,
        };
        let root = if layered { container.root.writable.clone() } else { container.root.path.clone() };
        let root =
            root.ok_or_else(|| no_session(container, "its runtime does not say where its files are"))?;
        // As it is mounted now: links in it lead to where things are mounted.
        let seen = container.root.path.as_deref().unwrap_or(&root);
        let Volumes { mapped, read_only, private } =
            Volumes::of(&container.specification, seen, &record.bundle, &record.id);
        (record.read_only, record.private) = (read_only, private);
        record.is_layer = is_layer(container, &root);
        let files = fs::canonicalize(&root).map_err(io_error("look at", &root))?;
        Ok(Self { record, files, mapped })
    }
}

pub(super) fn no_session(container: &Container, why: &str) -> LifecycleError {
    LifecycleError::BadRequest {
        detail: format!("container {} cannot become a session: {why}", container.called()),
    }
}

/// Refuses what cannot be brought back, as far as that can be told by what it was made from.
pub(super) fn check_sort(container: &Container) -> Result<()> {
    if let Some(why) = why_not(container) {
        return Err(no_session(container, why));
    }
    if is_podmans_with_crun(container) {
        let why = "podman runs it with crun, and has not been seen to bring such a one back; with runc below it does";
        return Err(not_this_sort(container, why.to_owned()));
    }
    if let Some(mount) = container.specification.mount_of_a_link() {
        let (from, to) = (mount.source.display(), mount.destination.display());
        return Err(no_session(
            container,
            &format!(
                "what is mounted at {to} is named by a link, {from}, and CRIU does not restore that; name what the link leads to"
            ),
        ));
    }
    Ok(())
}

/// Refuses a model of another image than the snapshot's, whose files would not be those that the processes have open and mapped. A name can be
/// moved to another image, so digests are compared.
pub(super) fn check_image(model: &Container, taken: &Record, wanted: Option<&Image>) -> Result<()> {
    let Some(Image { name, digest: Some(wanted) }) = wanted else { return Ok(()) };
    let has = model.image.as_ref().and_then(|image| image.digest.as_ref());
    if has == Some(wanted) {
        return Ok(());
    }
    let has = has.map_or_else(|| "of none that its runtime knows".to_owned(), |has| format!("of {has}"));
    let why = format!("it is {has}, and the snapshot of {} is of {name}, {wanted}", taken.name);
    Err(not_this_sort(model, why))
}

fn not_this_sort(container: &Container, why: String) -> LifecycleError {
    back_error(BackError::NotThisSort { container: container.called().to_owned(), why })
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

/// Whether a directory of it is the one that an overlay writes to.
fn is_layer(container: &Container, directory: &Path) -> bool {
    let root = &container.root;
    root.mounted_as.as_deref() == Some("overlay") && root.writable.as_deref() == Some(directory)
}

/// podman asks crun for its containers on some machines, and runc on others.
fn is_podmans_with_crun(container: &Container) -> bool {
    let below = container.low_level.as_deref().and_then(|program| Path::new(program).file_name());
    container.runtime.kind() == Kind::Podman && below.is_some_and(|name| name == "crun")
}
