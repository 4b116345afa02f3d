//! A session's log, once or as it grows.
//!
//! The file lies where the session's own processes can write, so they can put anything in its place: a link, a pipe that never
//! ends, a hole of 3 GiB. It is opened by [`lifecycle::bounded`] and sent piece by piece, as fast as the client takes it.

use std::fs::File;
use std::io;
use std::time::Duration;

use api::{ErrorBody, SessionState, SessionView};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Id, Params, ask, resolve};
use crate::backend::Outcome;
use crate::error::DaemonError;
use crate::idle::Listening;
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
pub(crate) async fn log(State(app): State<App>, Id(id): Id, Params(part): Params<Part>) -> Outcome<Response> {
    let session = resolve(&app, id).await?;
    let which = session.id.clone();
    let path = ask(&app, move |backend| backend.log(&which)).await?;
    let opened = tokio::task::spawn_blocking(move || lifecycle::bounded::open(&path)).await;
    let refused = |reason: String| DaemonError::Log { session: session.id.clone(), reason };
    let file =
        opened.map_err(|error| refused(error.to_string()))?.map_err(|error| refused(error.to_string()))?;

    let (sender, receiver) = mpsc::channel(4);
    let listening = Listening::new(&app);
    tokio::spawn(async move {
        let _listening = listening;
        if let Err(error) = copy(&app, session, file, part, &sender).await {
            // The status went out long ago: all that is left is to end the stream in a way that shows.
            let _ = sender.send(Err(error)).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    Ok(([("content-type", "application/octet-stream")], body).into_response())
}

/// Copies the file to the client, from where they asked, and goes on as it grows if they asked for that.
async fn copy(
    app: &App,
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
        let now = resolve(app, session.id.clone()).await;
        is_last_look |= !now.is_ok_and(|view| {
            matches!(view.state, SessionState::Starting | SessionState::Running | SessionState::Suspended)
        });
    }
}
