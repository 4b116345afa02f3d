//! Looking without touching: what this machine can do, and where things are.

use std::path::PathBuf;
use std::time::Duration;

use api::{EnvVar, FilePolicy, GpuWish, RollbackRequest, SnapshotRequest, StartRequest, StopRequest};
use doctor::gpu::Seen;
use doctor::{Finding, Machine};
use preflight::free_bytes;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::steps::NoWatch;

/// How long NVML may take to say what there is.
const NVML_LIMIT: Duration = Duration::from_secs(10);

impl Engine {
    /// What this machine can and cannot do, with a real snapshot and restore as the last item.
    pub fn doctor(&self) -> Vec<Finding> {
        let machine = Machine {
            state_dir: &self.inner.place.state,
            run_dir: &self.inner.place.run,
            criu: self.checkpointer().criu(),
            program: Some(&self.inner.program),
            gpu: Some(Seen::of_this_machine(gpu_detect::host(NVML_LIMIT), || {
                let driver = self.inner.gpus.driver().map_err(|error| explain(&error.into()))?;
                Ok(driver.capabilities())
            })),
            free_bytes: &|path| free_bytes(path).map_err(|error| explain(&error.into())),
        };
        doctor::doctor(&machine, &mut || self.trial().map_err(|error| explain(&error)))
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
        let (major, minor, sub) = self.checkpointer().criu()?.version().ok()?;
        Some(format!("{major}.{minor}.{sub}"))
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

/// The error with its causes, in one line.
fn explain(error: &LifecycleError) -> String {
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
