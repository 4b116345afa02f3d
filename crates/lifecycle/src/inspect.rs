//! Looking without touching: what this machine can do, and where things are.

use std::path::PathBuf;

use api::{EnvVar, FilePolicy, GpuWish, RollbackRequest, SnapshotRequest, StartRequest, StopRequest};
use base::explain;
use doctor::Finding;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::steps::NoWatch;

impl Engine {
    /// What this machine can and cannot do, with a real snapshot and restore as the last item.
    pub fn doctor(&self) -> Vec<Finding> {
        self.inner.ports.doctor.examine(&mut || self.trial().map_err(|error| explain(&error)))
    }

    /// Why nothing can be snapshotted or restored here, if that is so.
    pub fn unable(&self) -> Option<LifecycleError> {
        self.checkpointer().ready().err()
    }

    /// Where the store is.
    pub fn store_directory(&self) -> PathBuf {
        self.inner.place.store()
    }

    /// CRIU's version, if there is one.
    pub fn criu_version(&self) -> Option<String> {
        self.checkpointer().version()
    }

    /// Starts a small session, suspends it, resumes it and removes it, through the same pipelines as any other.
    fn trial(&self) -> Result<String> {
        let request = StartRequest {
            // Whether snapshots work is asked here; what the GPUs do has items of its own.
            gpus: GpuWish::None,
            files: FilePolicy::None,
            workspace: Some(self.inner.place.sessions().into()),
            env: vec![EnvVar { name: "PATH".into(), value: "/usr/local/bin:/usr/bin:/bin".into() }],
            ..StartRequest::command(["sleep", "1000"], "/")
        };
        let session = self.start(request, &NoWatch)?;
        let id = session.id.as_str();
        let result = self.snapshot(id, &SnapshotRequest::default(), &NoWatch).and_then(|snapshot| {
            let rolled =
                RollbackRequest { force: true, files: false, ..RollbackRequest::to(snapshot.commit) };
            self.rollback(id, &rolled, &NoWatch)?;
            Ok(format!("a process was dumped in {} ms and restored", snapshot.frozen_us / 1000))
        });
        let stopped = self.stop(id, StopRequest { grace_ms: Some(1000) });
        self.remove(id)?;
        self.inner.store.open()?.delete_thread(&session.thread)?;
        stopped?;
        result
    }
}
