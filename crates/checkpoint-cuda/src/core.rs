//! Calls with limits, and what becomes of those that overrun them.
//!
//! Everything that asks the driver for something goes through [`Core::question`] and [`Core::step`]. Both answer within the
//! limit of the call, also if the target dies, the worker dies, or the driver never comes back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::claims::{Claim, Claims};
use crate::error::{CudaError, Result};
use crate::facts::{Abandoned, Capabilities};
use crate::notes::{Action, Notes};
use crate::process::Process;
use crate::protocol::{Answer, Ask};
use crate::settings::{Limits, Settings};
use crate::state::State;
use crate::sys::layout::code;
use crate::worker::{Late, Outcome, Ticket, Worker};

/// Loading the driver may take its time on a busy machine.
const HELLO: Duration = Duration::from_secs(30);

/// How often the target of a call that takes long is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a call about a process that has just ended may take to notice.
const GRACE: Duration = Duration::from_millis(500);

/// What all clones of a [`crate::Driver`] share.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) capabilities: Capabilities,
    claims: Claims,
    workers: Mutex<Workers>,
    /// Where the device memory of processes is that it was taken out of, by their numbers and when they started.
    storages: Mutex<HashMap<(i32, u64), PathBuf>>,
    /// For what has to find its way back here.
    own: Settler,
    bring_back: BringBack,
}

/// Brings a process back to RUNNING. Given in, because the way back is made of calls that go through here.
pub(crate) type BringBack = fn(&Core, Process);

/// Whoever sees to calls that end late; nobody before there is one.
type Settler = Arc<OnceLock<Weak<Core>>>;

struct Workers {
    current: Option<Arc<Worker>>,
    abandoned: Vec<Arc<Worker>>,
}

/// Whoever writes down what is done, and what they know already.
pub(crate) struct Scribe<'a> {
    notes: Option<&'a mut dyn Notes>,
    told: Option<Abandoned>,
    /// Undoing goes on if it cannot be written down.
    pub(crate) undoing: bool,
}

impl<'a> Scribe<'a> {
    pub(crate) fn new(notes: &'a mut dyn Notes) -> Self {
        Self { notes: Some(notes), told: None, undoing: false }
    }

    /// For when nobody writes anything down.
    pub(crate) const fn none() -> Self {
        Self { notes: None, told: None, undoing: true }
    }

    fn before(&mut self, worker: &Worker, action: Action, pid: i32) -> Result<()> {
        let Some(notes) = self.notes.as_deref_mut() else { return Ok(()) };
        let mut written = Ok(());
        if self.told != Some(worker.identity) {
            written = notes.worker(worker.identity.pid, worker.identity.start_time);
            self.told = Some(worker.identity);
        }
        match written.and_then(|()| notes.about_to(action, pid)) {
            Err(reason) if !self.undoing => Err(CudaError::Note { action, pid, reason }),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Starts a worker and asks it what the driver can do. `bring_back` is for processes whose call has ended late.
    pub(crate) fn open(settings: Settings, bring_back: BringBack) -> Result<Arc<Self>> {
        let late: Settler = Arc::default();
        let worker = start(&settings, &late)?;
        let hello = || CudaError::Start {
            program: settings.worker.clone(),
            source: std::io::Error::other("it does not answer"),
        };
        let ticket = worker.ask(Ask::Hello, None).map_err(|_| hello())?;
        let capabilities = match ticket.outcome.recv_timeout(HELLO) {
            Ok(Ok(Answer::Hello(capabilities))) => capabilities,
            Ok(Ok(Answer::NoDriver { detail })) => return Err(CudaError::NoDriver { detail }),
            Ok(Ok(Answer::TooOld { cuda_version, missing })) => {
                return Err(CudaError::TooOld { cuda_version, missing });
            }
            Ok(Ok(_)) | Err(_) => return Err(hello()),
            Ok(Err(detail)) => {
                return Err(CudaError::Start {
                    program: settings.worker.clone(),
                    source: std::io::Error::other(detail),
                });
            }
        };
        Ok(Arc::new_cyclic(|own| {
            let _ = late.set(own.clone());
            let workers = Workers { current: Some(Arc::new(worker)), abandoned: Vec::new() };
            let (claims, workers) = (Claims::default(), Mutex::new(workers));
            let storages = Mutex::default();
            Self { settings, capabilities, claims, workers, storages, own: late, bring_back }
        }))
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn storages(&self) -> MutexGuard<'_, HashMap<(i32, u64), PathBuf>> {
        self.storages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the device memory of a process is, if it is not in its own.
    pub(crate) fn stored_in(&self, process: &Process) -> Option<PathBuf> {
        self.storages().get(&(process.pid, process.start_time)).cloned()
    }

    /// Remembers that, from before it is asked for: a call that is given up may have its effect all the same.
    pub(crate) fn stores_in(&self, process: &Process, storage: Option<&Path>) {
        let mut storages = self.storages();
        match storage {
            Some(storage) => {
                storages.retain(|known, _| Process::find(known.0).is_ok_and(|now| now.start_time == known.1));
                storages.insert((process.pid, process.start_time), storage.to_owned());
            }
            None => _ = storages.remove(&(process.pid, process.start_time)),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Workers that were given up and still wait.
    pub(crate) fn abandoned(&self) -> Vec<Abandoned> {
        let mut workers = self.workers();
        if workers.current.as_ref().is_some_and(|worker| !worker.is_usable()) {
            let given_up = workers.current.take();
            workers.abandoned.extend(given_up);
        }
        workers.abandoned.retain(|worker| !worker.has_ended());
        workers.abandoned.iter().map(|worker| worker.identity).collect()
    }

    /// The worker that takes calls; a new one if there is none.
    fn worker(&self) -> Result<Arc<Worker>> {
        let mut workers = self.workers();
        if let Some(worker) = &workers.current {
            if worker.is_usable() {
                return Ok(Arc::clone(worker));
            }
            let given_up = workers.current.take();
            workers.abandoned.retain(|worker| !worker.has_ended());
            workers.abandoned.extend(given_up);
        }
        let worker = Arc::new(start(&self.settings, &self.own)?);
        workers.current = Some(Arc::clone(&worker));
        Ok(worker)
    }

    /// Claims processes, so that nobody else works on them.
    pub(crate) fn claim(&self, pids: &[i32]) -> Result<Claim> {
        let own = Arc::clone(&self.own);
        self.claims.take(pids, self.limits().question, Box::new(move |late| settle(&own, late)))
    }

    /// What a process is.
    pub(crate) fn state(&self, process: &Process) -> Result<State> {
        self.question(process, Action::State, Ask::State { pid: process.pid }).map(State::from)
    }

    /// The thread that does the driver's work in a process; `None` if it has no CUDA in it.
    pub(crate) fn thread(&self, process: &Process) -> Result<Option<i32>> {
        match self.question(process, Action::Thread, Ask::Thread { pid: process.pid }) {
            Ok(thread) => Ok(Some(thread)),
            // Which of these it is for a process without CUDA no document says.
            Err(CudaError::Call {
                code: code::NOT_INITIALIZED | code::INVALID_VALUE | code::NOT_FOUND,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn question(&self, process: &Process, action: Action, ask: Ask) -> Result<i32> {
        match self.step(process, action, ask, self.limits().question, &mut Scribe::none())? {
            Answer::Number(number) => Ok(number),
            other => Err(unexpected(action, process.pid, &other)),
        }
    }

    /// Asks the driver for one thing, and waits for the answer for at most `limit`.
    ///
    /// A number of the driver's becomes [`CudaError::Call`], without a state: asking for it is the caller's business.
    pub(crate) fn step(
        &self,
        process: &Process,
        action: Action,
        ask: Ask,
        limit: Duration,
        scribe: &mut Scribe<'_>,
    ) -> Result<Answer> {
        let pid = process.pid;
        if process.has_ended() {
            return Err(CudaError::Ended { pid });
        }
        let late = Late { pid, start_time: process.start_time };
        let mut tries = 0;
        let (worker, ticket) = loop {
            let worker = self.worker()?;
            scribe.before(&worker, action, pid)?;
            match worker.ask(ask.clone(), Some(late)) {
                Ok(ticket) => break (worker, ticket),
                // It ended while it had nothing to do, which it may when told to; the call was not begun.
                Err(_) if tries == 0 => tries += 1,
                Err(error) => return Err(CudaError::Worker { action, pid, detail: error.to_string() }),
            }
        };
        match wait(&worker, &ticket, process, action, limit)? {
            Ok(Answer::Code { code, name }) => {
                if process.is_ending() {
                    return Err(CudaError::Ended { pid });
                }
                Err(CudaError::Call { action, pid, code, name, state: None })
            }
            Ok(Answer::NotPermitted { name }) => Err(CudaError::NotPermitted { action, pid, name }),
            Ok(Answer::Helper { detail }) => {
                if process.is_ending() {
                    return Err(CudaError::Ended { pid });
                }
                Err(CudaError::Helper { action, pid, detail })
            }
            Ok(Answer::Failed { detail }) | Err(detail) => Err(CudaError::Worker { action, pid, detail }),
            Ok(answer) => Ok(answer),
        }
    }
}

pub(crate) fn unexpected(action: Action, pid: i32, answer: &Answer) -> CudaError {
    CudaError::Worker { action, pid, detail: format!("it answered {answer:?}") }
}

fn start(settings: &Settings, core: &Settler) -> Result<Worker> {
    let core = Arc::clone(core);
    Worker::start(
        &settings.worker,
        settings.library.as_deref(),
        settings.tool.as_deref(),
        Arc::new(move |late| settle(&core, late)),
    )
}

fn wait(
    worker: &Worker,
    ticket: &Ticket,
    process: &Process,
    action: Action,
    limit: Duration,
) -> Result<Outcome> {
    let pid = process.pid;
    let deadline = Instant::now() + limit;
    let mut ended: Option<Instant> = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ticket.outcome.recv_timeout(left.min(GLANCE)) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => return Ok(Err("it ended".to_owned())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && process.has_ended() {
            ended = Some(Instant::now());
        }
        let error = if ended.is_some_and(|since| since.elapsed() >= GRACE) {
            CudaError::Ended { pid }
        } else if Instant::now() >= deadline {
            CudaError::Hung { action, pid, worker: worker.identity.pid, limit, state: None }
        } else {
            continue;
        };
        return worker.give_up(ticket).ok_or(error);
    }
}

/// A call that was given up has ended, well or badly, or its worker has. Whoever has the process in hand sees to it; if nobody
/// has, it is brought back to RUNNING, because whoever asked for the call was told that it had failed.
fn settle(core: &Settler, late: Late) {
    let Some(core) = core.get().and_then(Weak::upgrade) else { return };
    if core.claims.leave_to_holder(late) {
        return;
    }
    // In a thread of its own: this is called by the one that reads the worker's answers.
    let work = move || {
        let Ok(process) = Process::find(late.pid) else { return };
        if process.start_time != late.start_time {
            return;
        }
        if let Ok(claim) = core.claim(&[late.pid]) {
            (core.bring_back)(&core, process);
            drop(claim);
        }
    };
    // Without a thread it is left to the next operation, which reads the state first.
    let _ = thread::Builder::new().name("gpu late".to_owned()).spawn(work);
}
