//! A real snapshot and restore, for the doctor: whether it works here is found out by doing it.

use api::{EnvVar, FilePolicy, GpuWish, RollbackRequest, SnapshotRequest, StartRequest, StopRequest};
use lifecycle::{Engine, NoWatch, Result};

/// Starts a small session, snapshots it, goes back to that and removes it, through the same pipelines as any other.
pub(crate) fn trial(engine: &Engine) -> Result<String> {
    let request = StartRequest {
        // Whether snapshots work is asked here; what the GPUs do has items of its own.
        gpus: GpuWish::None,
        files: FilePolicy::None,
        workspace: Some(engine.place().sessions().into()),
        env: vec![EnvVar { name: "PATH".into(), value: "/usr/local/bin:/usr/bin:/bin".into() }],
        ..StartRequest::command(["sleep", "1000"], "/")
    };
    let session = engine.start(request, &NoWatch)?;
    let id = session.id.as_str();
    let result = engine.snapshot(id, &SnapshotRequest::default(), &NoWatch).and_then(|snapshot| {
        let rolled = RollbackRequest { force: true, files: false, ..RollbackRequest::to(snapshot.commit) };
        engine.rollback(id, &rolled, &NoWatch)?;
        Ok(format!("a process was dumped in {} ms and restored", snapshot.frozen_us / 1000))
    });
    let stopped = engine.stop(id, StopRequest { grace_ms: Some(1000) });
    engine.remove(id, true)?;
    engine.look(|store| store.delete_thread(&session.thread))?;
    stopped?;
    result
}
