//! What happens with a remote by itself: what is set, how it is done, and how it stands.
//!
//! When it is done is decided in `errands/pushing.rs`, by the rules in `policy`. What is done here takes long and nobody waits for it, so it
//! stands back behind everything else, on threads with little claim to a processor. Kernels, snapshots and restores go on beside it; it takes hold
//! of no session.
//!
//! Credentials are those that the daemon finds where it runs, in its environment and in the usual files.

use std::sync::Mutex;
use std::time::Instant;

use api::{Finding, FindingState, FreeLocalOutcome, PushOutcome, RemoteView, SessionState, exit};
use jiff::Timestamp;
use lifecycle::{Engine, LifecycleError, Task, micros};
use policy::pushing::{PushWhen, Unsent};
use remote::{LastPush, Named, RemoteError};
use remote_history::Sending;

use crate::backend::{Backend, Beyond, Failure, Outcome, Progress};
use crate::error::causes;
use crate::lock;

/// How far a push stands back.
const FAR: i32 = 15;
/// How far making room does: it changes the catalogue, which a snapshot may be waiting for.
const A_LITTLE: i32 = 5;

/// What is set for the remote that is pushed to by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemotePolicy {
    /// Its name.
    pub name: String,
    /// When something is pushed.
    pub when: PushWhen,
    /// How much is kept here of what it has.
    pub keep_local: Option<u64>,
}

impl RemotePolicy {
    /// Whether there is anything to do.
    pub fn is_idle(&self) -> bool {
        self.when.is_never() && self.keep_local.is_none()
    }

    /// What `doctor` says of it.
    pub(crate) fn finding(&self, backend: &dyn Backend) -> Finding {
        let name = &self.name;
        let finding =
            |state, evidence, fix: Option<String>| Finding { item: "push".to_owned(), state, evidence, fix };
        match backend.beyond(name) {
            Err(failure) => finding(FindingState::Warn, failure.body.to_string(), failure.body.hint),
            Ok(None) => finding(
                FindingState::Warn,
                format!("snapshots are to be pushed to `{name}`, and no remote is called so"),
                Some(format!("`infinijup remote add {name} ADDRESS`, or `push_to` in the settings")),
            ),
            Ok(Some(Beyond { last: None, .. })) => {
                finding(FindingState::Ok, format!("nothing was pushed to `{name}` yet"), None)
            }
            Ok(Some(Beyond { last: Some(last), unsent, .. })) => {
                let at = time(last.at);
                match last.failed {
                    None => {
                        let rest = match unsent.len() {
                            0 => "everything is there".to_owned(),
                            1 => "one thread or tag is not there as it is here".to_owned(),
                            count => format!("{count} threads and tags are not there as they are here"),
                        };
                        finding(
                            FindingState::Ok,
                            format!("the last push to `{name}` was at {at}; {rest}"),
                            None,
                        )
                    }
                    Some(why) => finding(
                        FindingState::Warn,
                        format!("the push to `{name}` at {at} failed: {} [{}]", why.message, why.code),
                        why.hint,
                    ),
                }
            }
        }
    }

    /// What is shown of it.
    pub(crate) fn view(&self, backend: &dyn Backend) -> Outcome<RemoteView> {
        let last = backend.beyond(&self.name)?.and_then(|beyond| beyond.last);
        Ok(RemoteView {
            name: self.name.clone(),
            last_push: last.as_ref().map(|last| time(last.at)),
            failed: last.and_then(|last| last.failed).map(|why| why.message),
        })
    }
}

/// Seconds since 1970, as the wire writes times.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or_default().to_string()
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let (status, exit) = match error.class() {
            base::Class::Usage => (400, exit::USAGE),
            base::Class::NotFound => (404, exit::NOT_FOUND),
            base::Class::Refused => (422, exit::FAILED),
            base::Class::Environment => (503, exit::FAILED),
            base::Class::Corruption => (500, exit::DAMAGED),
            base::Class::Key => (503, exit::KEY),
            base::Class::Conflict => (409, exit::CONFLICT),
            base::Class::Bug => (500, exit::FAILED),
        };
        let body = api::ErrorBody {
            code: error.code().to_owned(),
            message: error.to_string(),
            causes: causes(&error),
            hint: error.hint().map(str::to_owned),
            exit,
            field: None,
            files: Vec::new(),
        };
        Self { status, body: Box::new(body), another_time: false }
    }
}

fn failure(error: remote_history::Error) -> Failure {
    match error {
        remote_history::Error::Remote(error) => error.into(),
        remote_history::Error::History(error) => LifecycleError::from(error).into(),
    }
}

/// How it stands between what is here and a remote.
pub(crate) fn beyond(engine: &Engine, remote: &str) -> Outcome<Option<Beyond>> {
    let history = engine.look(|history| Ok(history.clone()))?;
    let store = history.store();
    let Some(named) = Named::list(store)?.into_iter().find(|one| one.name == remote) else { return Ok(None) };
    let asleep: Vec<String> = engine
        .sessions()
        .into_iter()
        .filter(|session| session.state == SessionState::Suspended)
        .map(|session| format!("threads/{}", session.thread))
        .collect();
    let what = |name: String| {
        let what = match name.starts_with("tags/") {
            true => Unsent::Tag,
            false if asleep.contains(&name) => Unsent::OfSuspended,
            false => Unsent::Thread,
        };
        (name, what)
    };
    let totals = store.catalogue().totals().map_err(RemoteError::from)?;
    Ok(Some(Beyond {
        unsent: named.unsent(store)?.into_iter().map(what).collect(),
        last: LastPush::to(store, remote)?,
        stored: totals.stored,
    }))
}

/// Sends threads and tags to a remote.
pub(crate) fn push(
    engine: &Engine,
    remote: &str,
    names: &[String],
    progress: &dyn Progress,
) -> Outcome<PushOutcome> {
    let history = engine.look(|history| Ok(history.clone()))?;
    let named = Named::find(history.store(), remote)?;
    let sending = Sending { names, by_itself: true, ..Sending::default() };
    let report = standing_back(FAR, || {
        let counted = Counted::new(progress);
        remote_history::send(history.store(), &named, sending, &counted)
    })?;
    Ok(PushOutcome { remote: named.name, objects: report.objects, bytes: report.bytes, moved: report.moved })
}

/// Lets go of data that a remote has, too.
pub(crate) fn free_local(
    engine: &Engine,
    remote: &str,
    keep: u64,
    progress: &dyn Progress,
) -> Outcome<FreeLocalOutcome> {
    let history = engine.look(|history| Ok(history.clone()))?;
    let named = Named::find(history.store(), remote)?;
    let freed = standing_back(A_LITTLE, || {
        let counted = Counted::new(progress);
        remote_history::free(&history, &named, keep, &|id| engine.needed_for(id).is_some(), &counted)
    });
    let freed = freed.map_err(failure)?;
    Ok(FreeLocalOutcome { remote: named.name, snapshots: freed.snapshots, freed_bytes: freed.bytes })
}

/// Does something on a thread that stands back behind others by so much (nice), and so do those that it starts.
fn standing_back<T: Send>(by: i32, work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| {
        let behind = || {
            // Where that is not allowed, it is done all the same.
            let _ = rustix::process::nice(by);
            work()
        };
        scope.spawn(behind).join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The progress of a task as a step of the job.
struct Counted<'a> {
    progress: &'a dyn Progress,
    task: Mutex<Option<(Instant, u64, Option<u64>)>>,
}

impl<'a> Counted<'a> {
    fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, task: Mutex::default() }
    }
}

/// What the steps are called.
fn step(task: Task) -> &'static str {
    match task {
        Task::Transfer => "send",
        Task::Verify => "see what is there",
        Task::Mark => "see what is needed",
        _ => "free",
    }
}

impl lifecycle::Progress for Counted<'_> {
    fn begin(&self, task: Task, total: Option<u64>) {
        *lock(&self.task) = Some((Instant::now(), 0, total));
        self.progress.begun(step(task));
    }

    fn advance(&self, task: Task, done: u64) {
        let mut now = lock(&self.task);
        if let Some((_, so_far, total)) = &mut *now {
            *so_far += done;
            self.progress.progress(step(task), *so_far, *total);
        }
    }

    fn end(&self, task: Task) {
        if let Some((began, ..)) = lock(&self.task).take() {
            self.progress.done(step(task), micros(began.elapsed()));
        }
    }
}
