//! Jobs, and the streams of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api::{ErrorBody, Event, EventKind, Job, Jobs};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Id, Params};
use crate::backend::{Failure, Outcome};
use crate::checks::bad;
use crate::events::{Reader, blank};
use crate::idle::Listening;
use crate::jobs::JobCell;
use crate::server::App;

/// How often a comment shows that a quiet stream is alive. It also finds out that a client has gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How many events wait for a slow client before its reader waits too.
const BUFFER: usize = 32;

/// The jobs: those that run and the last that ended.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = Jobs)))]
pub(crate) async fn list(State(app): State<App>) -> Json<Jobs> {
    Json(Jobs { jobs: app.jobs.list() })
}

/// One job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = Job), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn show(State(app): State<App>, Id(id): Id) -> Outcome<Json<Job>> {
    Ok(Json(app.jobs.find(&id)?.view()))
}

type Stream = Sse<sse::KeepAliveStream<ReceiverStream<Result<sse::Event, Infallible>>>>;

/// How long to listen.
#[derive(Clone, Copy, Deserialize, utoipa::IntoParams)]
pub(crate) struct Listen {
    /// Go on for ever; otherwise send what is still kept, and end.
    #[serde(default = "yes")]
    follow: bool,
}

fn yes() -> bool {
    true
}

/// What happens to sessions and jobs, as server-sent events.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(Listen, ("Last-Event-ID" = Option<u64>, Header, description = "go on after this event")),
    responses((status = 200, content_type = "text/event-stream", body = Event)),
)]
pub(crate) async fn events(
    State(app): State<App>,
    Params(Listen { follow }): Params<Listen>,
    headers: HeaderMap,
) -> Outcome<Stream> {
    let after = last_event(&headers)?;
    let (sender, receiver) = mpsc::channel(BUFFER);
    if !follow {
        tokio::spawn(async move {
            for event in app.events.kept(after) {
                if !send(&sender, &event).await {
                    return;
                }
            }
        });
        return Ok(stream(receiver));
    }
    let mut reader = app.events.read(None, after);
    let listening = Listening::new(&app);
    tokio::spawn(async move {
        let _listening = listening;
        let mut stopping = app.stopping.clone();
        loop {
            let batch = tokio::select! {
                batch = reader.next(&app.events) => batch,
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = sender.closed() => return,
            };
            for event in batch.into_iter().flatten() {
                if !send(&sender, &event).await {
                    return;
                }
            }
        }
    });
    Ok(stream(receiver))
}

/// What happens to a job, as server-sent events, until it has ended.
///
/// Without `Last-Event-ID` the first event is the job as it is now.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", tag = "events",
    params(("id" = String, Path), ("Last-Event-ID" = Option<u64>, Header, description = "go on after this event")),
    responses((status = 200, content_type = "text/event-stream", body = Event), (status = 404, body = ErrorBody)),
)]
pub(crate) async fn job_events(State(app): State<App>, Id(id): Id, headers: HeaderMap) -> Outcome<Stream> {
    let cell = app.jobs.find(&id)?;
    let after = last_event(&headers)?;
    let reader = app.events.read(Some(id), after);
    let (sender, receiver) = mpsc::channel(BUFFER);
    let listening = Listening::new(&app);
    tokio::spawn(async move {
        let _listening = listening;
        tokio::select! {
            () = follow(&app, &cell, reader, after.is_none(), &sender) => (),
            () = sender.closed() => (),
        }
    });
    Ok(stream(receiver))
}

async fn follow(
    app: &App,
    cell: &Arc<JobCell>,
    mut reader: Reader,
    anew: bool,
    sender: &mpsc::Sender<Result<sse::Event, Infallible>>,
) {
    if anew {
        // The reader was made before this look, so nothing falls between the two. The number is the reader's, so a
        // client that is cut off after this event goes on from here.
        let began = about(EventKind::JobBegan, reader.seen(), cell.view());
        if !send(sender, &began).await {
            return;
        }
    }
    let ended = cell.wait();
    tokio::pin!(ended);
    loop {
        let batch = tokio::select! {
            biased;
            batch = reader.next(&app.events) => batch.unwrap_or_default(),
            // Its last event may have left the ring, or have been seen by this client before.
            _ = &mut ended => {
                let _ = send(sender, &about(EventKind::JobEnded, reader.seen(), cell.view())).await;
                return;
            }
        };
        for event in batch {
            if event.kind == EventKind::JobEnded {
                // Here, unlike in the ring, with the result.
                let mut whole = Event::clone(&event);
                whole.job = Some(Box::new(cell.view()));
                let _ = send(sender, &whole).await;
                return;
            }
            if !send(sender, &event).await {
                return;
            }
        }
    }
}

fn about(kind: EventKind, id: u64, job: Job) -> Event {
    Event {
        id,
        time: crate::now(),
        session: job.session.clone(),
        job_id: Some(job.id.clone()),
        job_kind: Some(job.kind),
        job: Some(Box::new(job)),
        ..blank(kind)
    }
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|value| value.trim().parse().ok());
    Ok(Some(number.ok_or_else(|| bad("Last-Event-ID is not a number"))?))
}

/// Sends one event; `false` if the client has gone.
async fn send(sender: &mpsc::Sender<Result<sse::Event, Infallible>>, event: &Event) -> bool {
    let Ok(frame) =
        sse::Event::default().id(event.id.to_string()).event(event.kind.as_str()).json_data(event)
    else {
        return false;
    };
    sender.send(Ok(frame)).await.is_ok()
}

fn stream(receiver: mpsc::Receiver<Result<sse::Event, Infallible>>) -> Stream {
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
