//! What is done without a client at the socket: what kernels ask for, and what sessions' policies ask for.
//!
//! Both go the way that a client's request goes, through the daemon's own routes. So the same checks
//! hold, the same jobs run and are seen in the events, the same errors come back, and a stop of the daemon waits for them.

mod local;
mod magic;

use std::sync::Arc;

use lifecycle::{Did, Due, Errand};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::server::App;
use local::Local;

/// How many things that nobody waits for are done at once, of all sessions: each keeps a processor and the disk busy.
const AT_ONCE: usize = 2;

/// The code of an operation that met another one.
const BUSY: &str = "IJ-L013";
/// And of one that came when the session was not running any more.
const WRONG_STATE: &str = "IJ-L012";

/// Begins to do what comes, for as long as the daemon serves.
pub(crate) fn begin(app: &App) {
    let runtime = Handle::current();
    if let Some(asked) = app.operations.asked() {
        let (app, runtime) = (app.clone(), runtime.clone());
        on_a_thread("magic", move || {
            for asked in asked {
                let app = app.clone();
                runtime.spawn(async move {
                    let answer = magic::answer(&Local::new(&app), &asked).await;
                    app.operations.answer(&asked.session, &asked.id, answer);
                });
            }
        });
    }
    if let Some(due) = app.operations.due() {
        let (app, room) = (app.clone(), Arc::new(Semaphore::new(AT_ONCE)));
        on_a_thread("errands", move || {
            for errand in due {
                let (app, room) = (app.clone(), Arc::clone(&room));
                runtime.spawn(async move {
                    let _room = room.acquire().await;
                    let did = run(&app, &errand).await;
                    app.operations.did(&errand.session, did);
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
    let local = Local::new(app);
    let session = format!("/v1/sessions/{}", errand.session);
    let outcome = match errand.due {
        Due::Interval | Due::Idle => {
            let reason = if errand.due == Due::Idle { "idle" } else { "interval" };
            local.job(&format!("{session}/snapshot"), json!({ "reason": reason })).await
        }
        Due::Suspend => local.job(&format!("{session}/suspend"), json!({ "reason": "idle" })).await,
    };
    match outcome {
        Ok(_) => {
            app.operations.tidy(&errand.session);
            Did::Done
        }
        Err(error) if error.code == BUSY || error.code == WRONG_STATE => Did::Busy,
        // The job's own event and line in the log say why.
        Err(_) => Did::Failed,
    }
}
