//! Pushes that nobody asked for, and room that is made after them.
//!
//! It is looked at what is due when something has happened to a session or its history, and once a minute. One thing is done at a time, as a job like
//! any other, and none begins while another job is under way: what somebody waits for comes first. What fails is said by the job, and
//! by `doctor`; it is tried again after a while.

use std::time::{Duration, Instant};

use api::{Event, EventKind};
use policy::pushing::{DuePush, Since, due};

use crate::abroad::RemotePolicy;
use crate::backend::{Beyond, ask};
use crate::events::{Reader, blank};
use crate::operation::Operation;
use crate::server::App;

/// So often it is looked, whatever happens.
const EVERY: Duration = Duration::from_secs(60);
/// Things happen together, and others are under way.
const SOON: Duration = Duration::from_secs(1);
/// After room was made, or could not be, it is not tried again for so long, unless something was pushed since.
const ROOM_EVERY: Duration = Duration::from_secs(3600);
/// The same after a failure, whatever was pushed.
const AFTER_A_FAILURE: Duration = Duration::from_secs(600);

/// What was tried since the daemon began.
#[derive(Default)]
struct Known {
    /// When a push failed last. It is written down, too, unless that failed as well.
    push_failed: Option<Instant>,
    room: Option<Tried>,
}

/// When room was last made, how that went, and when a push had ended well by then.
struct Tried {
    at: Instant,
    well: bool,
    pushed: Option<u64>,
}

/// Looks after it for as long as the daemon serves.
pub(super) async fn look_after(app: App, policy: RemotePolicy) {
    let mut happened = app.events.read(None, None);
    let mut stopping = app.stopping.clone();
    let (mut known, mut again) = (Known::default(), true);
    loop {
        let next = if again { SOON } else { EVERY };
        let settles = tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = tokio::time::sleep(next) => Duration::ZERO,
            () = something(&app, &mut happened) => SOON,
        };
        tokio::time::sleep(settles).await;
        again = if app.jobs.is_busy() { true } else { look(&app, &policy, &mut known).await };
    }
}

/// Waits until something has happened that could be a reason.
async fn something(app: &App, happened: &mut Reader) {
    let reason = |event: &Event| {
        matches!(event.kind, EventKind::SessionState | EventKind::SnapshotTaken | EventKind::HistoryChanged)
    };
    while let Some(events) = happened.next(&app.events).await {
        if events.iter().any(|event| reason(event)) {
            return;
        }
    }
    std::future::pending().await
}

/// Does what is due first. `true`: there may be more.
async fn look(app: &App, policy: &RemotePolicy, known: &mut Known) -> bool {
    let name = policy.name.clone();
    // Why it cannot be told is said by `doctor`; so is that there is no such remote.
    let Ok(Some(now)) = ask(&app.backend, move |backend| backend.beyond(&name)).await else { return false };
    let last = now.last.clone().unwrap_or_default();
    let since_well = last.ended_well.map(ago);
    let failed = known.push_failed.map(|at| at.elapsed());
    // Somebody may have pushed since.
    let failed = failed.filter(|failed| since_well.is_none_or(|well| *failed < well));
    let noted = last.failed.as_ref().map(|_| ago(last.at));
    let since = Since { failed: failed.into_iter().chain(noted).min(), all: last.all.map(ago) };
    if let Some(push) = due(policy.when, now.unsent.clone(), since) {
        let names = match push {
            DuePush::All => Vec::new(),
            DuePush::Some(names) => names,
        };
        let well = run(app, Operation::Push(policy.name.clone(), names)).await;
        known.push_failed = (!well).then(Instant::now);
        return true;
    }
    if let Some(keep) = policy.keep_local.filter(|keep| wants_room(&now, *keep, known.room.as_ref())) {
        let well = run(app, Operation::FreeLocal(policy.name.clone(), keep)).await;
        known.room = Some(Tried { at: Instant::now(), well, pushed: last.ended_well });
        if well {
            tell(app).await;
        }
    }
    false
}

fn wants_room(now: &Beyond, keep: u64, tried: Option<&Tried>) -> bool {
    let pushed = now.last.as_ref().and_then(|last| last.ended_well);
    let another_time = |tried: &Tried| match tried.well {
        true => tried.at.elapsed() >= ROOM_EVERY || tried.pushed != pushed,
        false => tried.at.elapsed() >= AFTER_A_FAILURE,
    };
    now.stored > keep && tried.is_none_or(another_time)
}

/// How long ago a moment was, in seconds since 1970. One that is to come was now: clocks are set.
fn ago(at: u64) -> Duration {
    let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
    Duration::from_secs(now.saturating_sub(at))
}

/// Whether it ended well. If not, the job's own event and line in the log say why.
async fn run(app: &App, operation: Operation) -> bool {
    match app.jobs.submit(operation).await {
        Ok(job) => job.wait().await.is_ok(),
        Err(_) => false,
    }
}

/// Whoever shows a history shows where data is.
async fn tell(app: &App) {
    let sessions = ask(&app.backend, |backend| backend.sessions()).await.unwrap_or_default();
    for session in sessions {
        app.events.publish(Event { session: Some(session.id), ..blank(EventKind::HistoryChanged) });
    }
}
