//! What is done without a client at the socket: what kernels ask for, what sessions' policies ask for, and what is set for a remote.
//!
//! All enter where a client's request does, at `Jobs::submit`. So the same checks hold, the same jobs run and are seen in the events,
//! the same errors come back, and a stop of the daemon waits for them.

mod magic;
mod pushing;

use std::sync::Arc;

use api::{SnapshotRequest, SuspendRequest};
use lifecycle::{Did, Due, Errand};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::backend::Outcome;
use crate::operation::{Operation, ToSession};
use crate::server::App;

/// How many things that nobody waits for are done at once, of all sessions: each keeps a processor and the disk busy.
const AT_ONCE: usize = 2;

/// Begins to do what comes, for as long as the daemon serves.
pub(crate) fn begin(app: &App) {
    let runtime = Handle::current();
    if let Some(asked) = app.backend.asked() {
        let (app, runtime) = (app.clone(), runtime.clone());
        on_a_thread("magic", move || {
            for asked in asked {
                let app = app.clone();
                runtime.spawn(async move {
                    app.need.now();
                    let answer = magic::answer(&app, &asked).await;
                    app.backend.answer(&asked.session, &asked.id, answer);
                });
            }
        });
    }
    if let Some(policy) = app.home.remote.clone() {
        tokio::spawn(pushing::look_after(app.clone(), policy));
    }
    if let Some(due) = app.backend.due() {
        let (app, room) = (app.clone(), Arc::new(Semaphore::new(AT_ONCE)));
        on_a_thread("errands", move || {
            for errand in due {
                let (app, room) = (app.clone(), Arc::clone(&room));
                runtime.spawn(async move {
                    let _room = room.acquire().await;
                    app.need.now();
                    let did = run(&app, &errand).await;
                    app.backend.did(&errand.session, did);
                });
            }
        });
    }
}

fn on_a_thread(name: &'static str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::error!(%error, thread = name, "cannot start a thread");
    }
}

async fn run(app: &App, errand: &Errand) -> Did {
    match done(app, errand).await {
        Ok(()) => {
            app.backend.tidy(&errand.session);
            Did::Done
        }
        Err(failure) if failure.another_time => Did::Busy,
        // The job's own event and line in the log say why.
        Err(_) => Did::Failed,
    }
}

async fn done(app: &App, errand: &Errand) -> Outcome<()> {
    let snapshot = |reason: &str| {
        ToSession::Snapshot(SnapshotRequest { reason: Some(reason.to_owned()), ..SnapshotRequest::default() })
    };
    let what = match errand.due {
        Due::Interval => snapshot("interval"),
        Due::Idle => snapshot("idle"),
        Due::Suspend => ToSession::Suspend(SuspendRequest {
            reason: Some("idle".to_owned()),
            ..SuspendRequest::default()
        }),
    };
    let job = app.jobs.submit(Operation::ToSession(errand.session.to_string(), Box::new(what))).await?;
    job.wait().await.map(drop)
}
