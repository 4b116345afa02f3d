//! A session's log, once or as it grows.
//!
//! The file lies where the session's own processes can write, so its owner can put anything in its place: a link to
//! `/etc/shadow`, a pipe that never ends. The daemon reads with root's rights, so it looks at what it has opened: no link
//! is followed, and it must be a plain file that belongs to the session's owner (or to root, in a directory where nobody
//! else can put anything). Whatever such a file says, its owner could have read by themselves.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use api::{ErrorBody, SessionState, SessionView};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use rustix::fs::OFlags;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Id, Params, ask, resolve};
use crate::caller::Caller;
use crate::error::DaemonError;
use crate::operations::Outcome;
use crate::server::App;

/// How much is read and sent at a time.
const CHUNK: usize = 64 << 10;

/// How often a log that is followed is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Which part of a log.
#[derive(Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(crate) struct Part {
    /// Where to begin, in bytes; from the end if negative.
    #[serde(default)]
    from: i64,
    /// Go on as it grows, until the session has ended.
    #[serde(default)]
    follow: bool,
}

/// What the session's processes wrote to their standard output and error.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/log", tag = "sessions", params(("id" = String, Path), Part),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "default", body = ErrorBody)),
)]
pub(crate) async fn log(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Params(part): Params<Part>,
) -> Outcome<Response> {
    let session = resolve(&app, &caller, id).await?;
    let (asker, which) = (caller.clone(), session.id.clone());
    let path = ask(&app, move |operations| operations.log(&asker, &which)).await?;
    let owner = session.owner_uid;
    let opened = tokio::task::spawn_blocking(move || open(&path, owner)).await;
    let refused = |reason: String| DaemonError::Log { session: session.id.clone(), reason };
    let file =
        opened.map_err(|error| refused(error.to_string()))?.map_err(|error| refused(error.to_string()))?;

    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        if let Err(error) = copy(&app, &caller, session, file, part, &sender).await {
            // The status went out long ago: all that is left is to end the stream in a way that shows.
            let _ = sender.send(Err(error)).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    Ok(([("content-type", "application/octet-stream")], body).into_response())
}

fn open(path: &Path, owner_uid: u32) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for somebody to write.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    if metadata.uid() != owner_uid && !(metadata.uid() == 0 && only_root_writes_beside(path)?) {
        return Err(io::Error::other("it is not the owner's file"));
    }
    Ok(file)
}

fn only_root_writes_beside(path: &Path) -> io::Result<bool> {
    let Some(directory) = path.parent() else { return Ok(false) };
    let metadata = std::fs::symlink_metadata(directory)?;
    Ok(metadata.is_dir() && metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
}

/// Copies the file to the client, from where they asked, and goes on as it grows if they asked for that.
async fn copy(
    app: &App,
    caller: &Caller,
    session: SessionView,
    file: File,
    part: Part,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let length = file.metadata()?.len();
    let from = match u64::try_from(part.from) {
        Ok(from) => from,
        Err(_) => length.saturating_sub(part.from.unsigned_abs()),
    };
    let mut file = tokio::fs::File::from_std(file);
    file.seek(io::SeekFrom::Start(from)).await?;
    let mut at = from;
    let mut stopping = app.stopping.clone();
    let mut is_last_look = !part.follow;
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = file.read(&mut chunk).await?;
        if read > 0 {
            at += u64::try_from(read).unwrap_or_default();
            chunk.truncate(read);
            if sender.send(Ok(chunk.into())).await.is_err() {
                return Ok(());
            }
            continue;
        }
        if is_last_look {
            return Ok(());
        }
        if file.metadata().await?.len() < at {
            // It was cut, as a rollback does: go on with what is written from now on.
            at = file.seek(io::SeekFrom::End(0)).await?;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => (),
            () = sender.closed() => return Ok(()),
            _ = stopping.wait_for(|stopping| *stopping) => is_last_look = true,
        }
        // What it wrote between our last read and its end is still to come.
        let now = resolve(app, caller, session.id.clone()).await;
        is_last_look |= !now.is_ok_and(|view| {
            matches!(view.state, SessionState::Starting | SessionState::Running | SessionState::Suspended)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_plain_files_of_the_owner_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "text").unwrap();
        let me = std::fs::metadata(&log).unwrap().uid();
        let stranger = me + 1;
        open(&log, me).unwrap();

        let link = dir.path().join("link");
        symlink("/etc/passwd", &link).unwrap();
        open(&link, me).unwrap_err();
        open(dir.path(), me).unwrap_err();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        open(&pipe, me).unwrap_err();

        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
        open(&log, stranger).unwrap_err();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(open(&log, stranger).is_ok(), me == 0, "root's own directory counts as safe");
    }
}
