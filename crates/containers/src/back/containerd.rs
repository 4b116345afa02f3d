//! containerd, asked to make a task of a container from images, and to remove one. The container itself stays: containerd has its specification,
//! and the layers that its root is mounted from.
//!
//! Its own client library would freeze a task before a checkpoint; that is not used. A task that is created with a path of images in its runtime's
//! options is not started but restored (`Tasks.Create`, then `Tasks.Start`): the shim calls `runc restore`, in a bundle that it makes of the
//! specification that the container has then.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prost::Message;

use super::error::{BackError, Result};
use super::own_mounts::{in_place_of, remove_mounts};
use super::restoring::{Restore, first_error};
use crate::container::ContainerId;
use crate::runtimes::grpc::{Channel, Trouble};
use crate::runtimes::messages::{
    Any, Containers, GetMounts, ListContainers, Nothing, SnapshotMount, SnapshotMounts,
};

const LIST: &str = "containerd.services.containers.v1.Containers/List";
const MOUNTS: &str = "containerd.services.snapshots.v1.Snapshots/Mounts";
const CREATE: &str = "containerd.services.tasks.v1.Tasks/Create";
const START: &str = "containerd.services.tasks.v1.Tasks/Start";
const KILL: &str = "containerd.services.tasks.v1.Tasks/Kill";
const DELETE: &str = "containerd.services.tasks.v1.Tasks/Delete";

/// Where the shim has runc keep its state, below a directory for each namespace. Options could name another: such a container is not found there.
const RUNC_ROOT: &str = "/run/containerd/runc";
/// What the shim looks for if it is told of no other runc.
const RUNC: &str = "runc";
/// How long a removal may take: a shim waits for ten seconds for what a container has still to say.
const DELETE_LIMIT: Duration = Duration::from_secs(30);
/// For how long a removal that is refused is asked for again: containerd notices a little later than we that a shim has died, and removes what
/// that has left by itself.
const SETTLING: Duration = Duration::from_secs(5);
/// How often a task is looked at that is about to end.
const AGAIN: Duration = Duration::from_millis(20);
const SIGKILL: u32 = 9;

/// `CreateTaskRequest`.
#[derive(Clone, PartialEq, Message)]
struct CreateTask {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(message, repeated, tag = "3")]
    rootfs: Vec<SnapshotMount>,
    #[prost(string, tag = "5")]
    stdout: String,
    #[prost(string, tag = "6")]
    stderr: String,
    #[prost(message, optional, tag = "9")]
    options: Option<Any>,
}

/// The fields of `containerd.runc.v1.Options` that we add.
#[derive(Clone, PartialEq, Message)]
struct RuncOptions {
    #[prost(string, tag = "6")]
    binary_name: String,
    #[prost(string, tag = "10")]
    criu_image_path: String,
    #[prost(string, tag = "11")]
    criu_work_path: String,
}

/// `StartRequest`, `DeleteTaskRequest` and the beginning of `KillRequest`.
#[derive(Clone, PartialEq, Message)]
struct OfTask {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(uint32, tag = "3")]
    signal: u32,
    #[prost(bool, tag = "4")]
    all: bool,
}

/// `StartResponse`.
#[derive(Clone, PartialEq, Message)]
struct Started {
    #[prost(uint32, tag = "1")]
    pid: u32,
}

const RUNC_OPTIONS: &str = "containerd.runc.v1.Options";

/// A container of containerd's, and how it is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Containerd<'a> {
    /// Where it listens.
    pub socket: &'a Path,
    /// The namespace.
    pub namespace: &'a str,
    /// The container.
    pub id: &'a ContainerId,
}

impl Containerd<'_> {
    /// Where runc keeps the state of the container.
    pub(super) fn state(&self) -> PathBuf {
        Path::new(RUNC_ROOT).join(self.namespace)
    }

    pub(super) fn restore(&self, wanted: &Restore<'_>, pipes: bool) -> Result<i32> {
        const ACTION: &str = "the restore";
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| self.refused(ACTION, "a path is not UTF-8"))
        };
        let (criu_image_path, criu_work_path) = (text(wanted.images)?, text(wanted.work)?);
        let said = if pipes { format!("file://{}", text(wanted.log)?) } else { String::new() };
        let pid = self.block_on(ACTION, wanted.limit, async {
            let mut channel = Channel::connect(self.socket).await?;
            let filters = vec![format!("id==\"{}\"", self.id)];
            let found: Option<Containers> =
                channel.ask(self.namespace, LIST, &ListContainers { filters }).await?;
            let info = found.unwrap_or_default().containers.into_iter().next();
            let info = info.ok_or_else(|| Trouble::Refused("it knows no such container".to_owned()))?;
            let key = GetMounts { snapshotter: info.snapshotter, key: info.snapshot_key };
            let mounts: Option<SnapshotMounts> = channel.ask(self.namespace, MOUNTS, &key).await?;
            let mounts = mounts.ok_or_else(|| Trouble::Refused("the layer of its own is gone".to_owned()))?;
            // What the container's own options say is kept: fields of a message that follow it are part of it.
            let mut value =
                info.runtime.and_then(|runtime| runtime.options).map(|any| any.value).unwrap_or_default();
            let before = RuncOptions::decode(value.as_slice()).unwrap_or_default().binary_name;
            let runc = if before.is_empty() { Path::new(RUNC) } else { Path::new(&before) };
            let own_mounts = in_place_of(runc, wanted.programs).and_then(|program| text(&program));
            let binary_name = own_mounts.map_err(|error| Trouble::Refused(error.to_string()))?;
            let own = RuncOptions { binary_name, criu_image_path, criu_work_path };
            value.extend(own.encode_to_vec());
            let create = CreateTask {
                container_id: self.id.to_string(),
                rootfs: mounts.mounts,
                stdout: said.clone(),
                stderr: said,
                options: Some(Any { type_url: RUNC_OPTIONS.to_owned(), value }),
            };
            let _: Option<Nothing> = channel.ask(self.namespace, CREATE, &create).await?;
            let start = OfTask { container_id: self.id.to_string(), ..OfTask::default() };
            let started: Option<Started> = channel.ask(self.namespace, START, &start).await?;
            Ok(started.unwrap_or_default().pid)
        });
        match pid.map(|pid| i32::try_from(pid).unwrap_or(0)) {
            Ok(pid) if pid > 0 => Ok(pid),
            Ok(_) => Err(self.refused(ACTION, "it did not say which process it made")),
            Err(BackError::Refused { action, container, said }) => {
                let said = said + &first_error(&wanted.work.join("restore.log"));
                Err(BackError::Refused { action, container, said })
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the task, which has ended; with `force` it is ended first. It is no error if there is none.
    pub(super) fn delete(&self, force: bool) -> Result<()> {
        remove_mounts(&self.state().join(self.id.as_str()), self.id)?;
        let of_task = OfTask { container_id: self.id.to_string(), ..OfTask::default() };
        self.block_on("the removal", DELETE_LIMIT, async {
            let mut channel = loop {
                match Channel::connect(self.socket).await {
                    // It is just being started anew, and its shims have gone on.
                    Err(Trouble::Silent(_)) => tokio::time::sleep(AGAIN).await,
                    other => break other?,
                }
            };
            if force {
                let kill = OfTask { signal: SIGKILL, all: true, ..of_task.clone() };
                // One that has ended already cannot be signalled.
                let _ended: Result<Option<Nothing>, Trouble> = channel.ask(self.namespace, KILL, &kill).await;
            }
            let begun = Instant::now();
            loop {
                // The shim hears of the end a little later than we.
                match channel.ask::<_, Nothing>(self.namespace, DELETE, &of_task).await {
                    Err(Trouble::Refused(why)) if why.contains("running") || begun.elapsed() < SETTLING => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    other => return other.map(drop),
                }
            }
        })
    }

    /// How long containerd may take for what needs no work.
    pub(crate) const fn limit(&self) -> Duration {
        DELETE_LIMIT
    }

    pub(crate) fn block_on<T>(
        &self,
        action: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(base::io_error("make a connection to", self.socket))?;
        executor.block_on(async {
            match tokio::time::timeout(limit, work).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(Trouble::Silent(why) | Trouble::Refused(why) | Trouble::Nonsense(why))) => {
                    Err(self.refused(action, &why))
                }
                Err(_) => Err(BackError::Slow { action, container: self.id.to_string(), limit }),
            }
        })
    }

    pub(crate) fn refused(&self, action: &'static str, why: &str) -> BackError {
        BackError::Refused { action, container: self.id.to_string(), said: why.to_owned() }
    }
}
