//! Jobs: operations on threads of their own.
//!
//! A job goes on when its client is gone. Only so many run at once; of those that ended, the last few hundred are kept, so
//! that a client which was cut off can still ask what came of its request.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::{ErrorBody, Event, EventKind, Job, JobKind, JobResult, JobState, Step};
use tokio::sync::watch;

use crate::backend::{Backend, Outcome, Progress, ask};
use crate::error::DaemonError;
use crate::events::{Events, blank};
use crate::metrics::Metrics;
use crate::operation::Operation;
use crate::{lock, now};

/// How often the counted progress of one step is passed on.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The most steps that one job lists. A pipeline has a dozen; branching many times over has more.
const STEPS: usize = 1024;

/// How much output of `exec` the ended jobs may hold together.
const KEPT_OUTPUT: usize = 32 << 20;

/// The job table.
pub struct Jobs {
    backend: Arc<dyn Backend>,
    /// Whether the daemon is about to end.
    stopping: watch::Receiver<bool>,
    table: Mutex<VecDeque<Arc<JobCell>>>,
    running: watch::Sender<usize>,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    /// How many may run at once.
    running_limit: usize,
    /// How many that ended are kept.
    ended_limit: usize,
}

/// One job.
pub(crate) struct JobCell {
    job: Mutex<Job>,
    /// How, once it ended.
    ended: watch::Sender<Option<Outcome<()>>>,
}

impl JobCell {
    /// As it is now.
    pub(crate) fn view(&self) -> Job {
        lock(&self.job).clone()
    }

    /// Waits until it has ended; what it was then, or how it failed.
    pub(crate) async fn wait(&self) -> Outcome<Job> {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as the job, so there is an answer.
        if let Ok(ended) = ended.wait_for(Option::is_some).await
            && let Some(Err(failure)) = &*ended
        {
            return Err(failure.clone());
        }
        Ok(self.view())
    }

    fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    fn kept_output(&self) -> usize {
        match &lock(&self.job).result {
            Some(JobResult::Exec(outcome)) => {
                outcome.stdout.as_bytes().len() + outcome.stderr.as_bytes().len()
            }
            _ => 0,
        }
    }
}

impl Jobs {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        stopping: watch::Receiver<bool>,
        (events, metrics): (Arc<Events>, Arc<Metrics>),
        (running_limit, ended_limit): (usize, usize),
    ) -> Self {
        Self {
            backend,
            stopping,
            table: Mutex::default(),
            running: watch::Sender::new(0),
            events,
            metrics,
            running_limit,
            ended_limit,
        }
    }

    /// Begins what somebody wants done, on a thread of its own. This is the one way in: for clients, for kernels, and for what is due by
    /// itself.
    pub(crate) async fn submit(self: &Arc<Self>, mut operation: Operation) -> Outcome<Arc<JobCell>> {
        operation.check()?;
        let mut session = None;
        if let Operation::ToSession(which, _) = &mut operation {
            let named = which.clone();
            *which = ask(&self.backend, move |backend| backend.session(&named)).await?.id;
            session = Some(which.clone());
        }
        if *self.stopping.borrow() {
            return Err(DaemonError::Stopping.into());
        }
        Ok(self.begin(operation, session)?)
    }

    fn begin(
        self: &Arc<Self>,
        operation: Operation,
        session: Option<String>,
    ) -> Result<Arc<JobCell>, DaemonError> {
        let kind = operation.kind();
        let cell = {
            let mut table = lock(&self.table);
            let running = table.iter().filter(|cell| !cell.has_ended()).count();
            if running >= self.running_limit {
                return Err(DaemonError::TooManyJobs { running, limit: self.running_limit });
            }
            let cell = Arc::new(JobCell {
                job: Mutex::new(Job {
                    id: new_id(&table),
                    kind,
                    session,
                    state: JobState::Running,
                    began: now(),
                    ended: None,
                    steps: Vec::new(),
                    result: None,
                    error: None,
                }),
                ended: watch::Sender::new(None),
            });
            table.push_back(Arc::clone(&cell));
            self.running.send_modify(|running| *running += 1);
            cell
        };
        self.metrics.job_began(kind);
        self.publish(&cell, EventKind::JobBegan, None);

        let (jobs, worked) = (Arc::clone(self), Arc::clone(&cell));
        let began = Instant::now();
        let thread = tokio::task::spawn_blocking(move || {
            let reporter = Reporter { jobs: &jobs, cell: &worked, kind, passed_on: Mutex::new(None) };
            operation.run(&*jobs.backend, &reporter)
        });
        let (jobs, ended) = (Arc::clone(self), Arc::clone(&cell));
        tokio::spawn(async move {
            let outcome = thread.await.unwrap_or_else(|error| {
                Err(DaemonError::Bug { detail: format!("a job did not come to its end: {error}") }.into())
            });
            jobs.end(&ended, outcome, began.elapsed());
        });
        Ok(cell)
    }

    fn end(&self, cell: &Arc<JobCell>, outcome: Outcome<JobResult>, took: Duration) {
        self.metrics.job_ended(lock(&cell.job).kind, &outcome, took);
        let ended = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        let job = {
            let mut job = lock(&cell.job);
            job.ended = Some(now());
            match outcome {
                Ok(result) => {
                    if let JobResult::Session(view) = &result {
                        job.session = Some(view.id.clone());
                    }
                    job.state = JobState::Done;
                    job.result = Some(result);
                }
                Err(failure) => {
                    job.state = JobState::Failed;
                    job.error = Some(*failure.body);
                }
            }
            Job { result: None, ..job.clone() }
        };
        log_end(&job, took);
        self.publish(cell, EventKind::JobEnded, None);
        cell.ended.send_replace(Some(ended));
        self.forget_old();
        self.running.send_modify(|running| *running -= 1);
    }

    fn publish(&self, cell: &JobCell, kind: EventKind, step: Option<Step>) {
        let job = lock(&cell.job);
        let whole = (kind != EventKind::JobStep).then(|| {
            // A result can be large, and the ring keeps thousands of events. Who wants it asks for the job.
            Box::new(Job { result: None, ..job.clone() })
        });
        self.events.publish(Event {
            session: job.session.clone(),
            job_id: Some(job.id.clone()),
            job_kind: Some(job.kind),
            job: whole,
            step,
            ..blank(kind)
        });
    }

    /// Drops the oldest that ended, beyond the limits.
    fn forget_old(&self) {
        let mut table = lock(&self.table);
        let (mut count, mut output) = (0, 0);
        let mut keep: VecDeque<_> = VecDeque::with_capacity(table.len());
        while let Some(cell) = table.pop_back() {
            if cell.has_ended() {
                count += 1;
                output += cell.kept_output();
                if count > self.ended_limit || (output > KEPT_OUTPUT && count > 1) {
                    continue;
                }
            }
            keep.push_front(cell);
        }
        *table = keep;
    }

    /// All jobs, oldest first.
    pub(crate) fn list(&self) -> Vec<Job> {
        lock(&self.table).iter().map(|cell| cell.view()).collect()
    }

    /// One of them.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<JobCell>, DaemonError> {
        let table = lock(&self.table);
        let found = table.iter().find(|cell| lock(&cell.job).id == id);
        found.cloned().ok_or_else(|| DaemonError::NoJob { id: id.to_owned() })
    }

    /// Waits until no job runs, or until `limit` is over and none but such as can be left runs.
    ///
    /// A pipeline has parts that must not be cut short, and each of its steps has a time limit of its own, so it is waited
    /// for however long it takes. A command that somebody runs in a session can take for ever; it goes on without us. A push can take for hours;
    /// the next one goes on where it was.
    pub async fn drained(&self, limit: Duration) {
        let mut running = self.running.subscribe();
        if tokio::time::timeout(limit, running.wait_for(|running| *running == 0)).await.is_ok() {
            return;
        }
        loop {
            let waited_for: Vec<_> = lock(&self.table)
                .iter()
                .filter(|cell| !cell.has_ended() && !can_be_left(lock(&cell.job).kind))
                .cloned()
                .collect();
            if waited_for.is_empty() {
                return;
            }
            tracing::warn!(jobs = waited_for.len(), "still waiting for jobs that must not be cut short");
            for cell in waited_for {
                let _ = cell.wait().await;
            }
        }
    }

    /// Whether something runs that somebody may be waiting for.
    pub(crate) fn is_busy(&self) -> bool {
        lock(&self.table).iter().any(|cell| !cell.has_ended() && !can_be_left(lock(&cell.job).kind))
    }

    /// How many run.
    pub fn running(&self) -> usize {
        *self.running.borrow()
    }
}

fn can_be_left(kind: JobKind) -> bool {
    matches!(kind, JobKind::Exec | JobKind::Push)
}

/// One line for each job, with the code if it failed.
fn log_end(job: &Job, took: Duration) {
    let (kind, session, micros) =
        (job.kind.as_str(), job.session.as_deref().unwrap_or("-"), took.as_micros());
    match &job.error {
        None => tracing::info!(job = job.id, kind, session, micros, "job done"),
        Some(error) => {
            let ErrorBody { code, message, causes, .. } = error;
            let error =
                [message].into_iter().chain(causes).map(String::as_str).collect::<Vec<_>>().join(": ");
            tracing::warn!(job = job.id, kind, session, micros, code, error, "job failed");
        }
    }
}

/// An id that is not in the table.
fn new_id(table: &VecDeque<Arc<JobCell>>) -> String {
    loop {
        let id = format!("{:016x}", RandomState::new().hash_one(Instant::now()));
        if table.iter().all(|cell| lock(&cell.job).id != id) {
            return id;
        }
    }
}

/// Passes a job's progress on: to its own list of steps, to the events, to the metrics.
struct Reporter<'a> {
    jobs: &'a Jobs,
    cell: &'a JobCell,
    kind: JobKind,
    /// When counted progress was last passed on.
    passed_on: Mutex<Option<Instant>>,
}

impl Reporter<'_> {
    /// Changes the newest step of this name, or adds one.
    fn change(&self, name: &'static str, anew: bool, change: impl FnOnce(&mut Step)) -> Option<Step> {
        let mut job = lock(&self.cell.job);
        let at = job.steps.iter().rposition(|step| !anew && step.name == name && step.micros.is_none());
        let at = match at {
            Some(at) => at,
            None if job.steps.len() < STEPS => {
                job.steps.push(Step { name: name.to_owned(), micros: None, done: None, total: None });
                job.steps.len() - 1
            }
            None => return None,
        };
        let step = job.steps.get_mut(at)?;
        change(step);
        Some(step.clone())
    }

    fn publish(&self, step: Option<Step>) {
        if step.is_some() {
            self.jobs.publish(self.cell, EventKind::JobStep, step);
        }
    }
}

impl Progress for Reporter<'_> {
    fn begun(&self, step: &'static str) {
        *lock(&self.passed_on) = None;
        self.publish(self.change(step, true, |_| ()));
    }

    fn progress(&self, step: &'static str, done: u64, total: Option<u64>) {
        let changed = self.change(step, false, |step| (step.done, step.total) = (Some(done), total));
        let mut passed_on = lock(&self.passed_on);
        if passed_on.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY) {
            *passed_on = Some(Instant::now());
            drop(passed_on);
            self.publish(changed);
        }
    }

    fn done(&self, step: &'static str, micros: u64) {
        self.jobs.metrics.step(self.kind, step, micros);
        self.publish(self.change(step, false, |step| step.micros = Some(micros)));
    }
}
