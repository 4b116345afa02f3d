//! The side that makes the calls.
//!
//! Each call asks the server of the caller's machine first: what driver this is, and whether this call is to go wrong.
//! Without a server there is still a library, which behaves as the newest driver and makes no faults: the state of a
//! target and its way to run again do not hang on a server.
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::message::{Ask, Parked, Reply, Request};
use super::placement::Pair;
use super::state::{State, Step};
use super::storage::{self, Device};
use super::target::Target;
use crate::client::Pool;
use crate::code::{Code, Result};
use crate::faults::{Call, Phase, Question, Verdict};
use crate::level::Level;
use crate::wire::{Begun, Checkpoint};

/// How much longer than the helper's own limit a caller waits for its word.
const GRACE: Duration = Duration::from_millis(50);
/// The same, if the helper has taken the request: it is about to answer.
const GRACE_BUSY: Duration = Duration::from_secs(1);

/// Who makes calls.
#[derive(Debug)]
pub struct Caller {
    directory: PathBuf,
    /// Is it NVIDIA's own program, which is older than the calls?
    program: bool,
}

impl Caller {
    /// A caller on the machine whose server is in this directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), program: false }
    }

    /// The same for the stand-in of the program `cuda-checkpoint`: it works with drivers that lack the calls.
    #[must_use]
    pub fn program(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), program: true }
    }

    /// `cuCheckpointProcessGetRestoreThreadId`. Only looks at the target's memory: a frozen one is answered for.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn restore_thread(&self, pid: i32) -> Result<i32> {
        self.begin(Call::GetTid, pid).and_then(|begun| refuse(begun.verdict))?;
        Target::find(pid)?.helper()
    }

    /// `cuCheckpointProcessGetState`, as a number. Asks the helper: a frozen target does not answer.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn state(&self, pid: i32) -> Result<u32> {
        let begun = self.begin(Call::GetState, pid)?;
        refuse(begun.verdict)?;
        let target = match Target::find(pid) {
            Err(Code::NOT_INITIALIZED) if begun.lies => return Ok(State::Running.number()),
            found => found?,
        };
        Ok(self.ask(&target, Ask::State, None, begun.verdict)?.state)
    }

    /// `cuCheckpointProcessLock`; without a limit it may wait for ever.
    ///
    /// # Errors
    /// The `CUresult`; NOT_READY at the limit, and the target runs on.
    pub fn lock(&self, pid: i32, limit: Option<Duration>) -> Result<()> {
        self.step(pid, Step::Lock, Vec::new(), limit)
    }

    /// `cuCheckpointProcessCheckpoint`.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn checkpoint(&self, pid: i32) -> Result<()> {
        self.step(pid, Step::Checkpoint, Vec::new(), None)
    }

    /// `cuCheckpointProcessRestore`, with the new GPU for each old one or none at all.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn restore(&self, pid: i32, pairs: Vec<Pair>) -> Result<()> {
        self.step(pid, Step::Restore, pairs, None)
    }

    /// `cuCheckpointProcessUnlock`.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn unlock(&self, pid: i32) -> Result<()> {
        self.step(pid, Step::Unlock, Vec::new(), None)
    }

    /// Which driver is played here.
    #[must_use]
    pub fn level(&self) -> Level {
        let host = Pool::default()
            .ask::<crate::wire::Host>(&self.directory, &crate::wire::Request::Core(crate::wire::Core::Hello));
        host.map_or_else(|_| Level::newest(), |host| host.level)
    }

    /// `cuCheckpointProcessCheckpoint` with custom storage: the target's memory is shown to this process, until
    /// [`Caller::complete`] with the handle.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn checkpoint_custom(&self, pid: i32) -> Result<(u64, Vec<Device>)> {
        self.custom(pid, Step::Checkpoint, Vec::new())
    }

    /// `cuCheckpointProcessRestore` with custom storage: this process writes the memory before it calls
    /// [`Caller::complete`].
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn restore_custom(&self, pid: i32, pairs: Vec<Pair>) -> Result<(u64, Vec<Device>)> {
        self.custom(pid, Step::Restore, pairs)
    }

    /// `cuCheckpointOperationComplete`.
    ///
    /// # Errors
    /// The `CUresult`.
    pub fn complete(&self, handle: u64) -> Result<()> {
        if !self.level().custom_storage() {
            return Err(Code::NOT_SUPPORTED);
        }
        let pid = storage::target(handle)?;
        let begun = self.begin(Call::Complete, pid)?;
        refuse(begun.verdict)?;
        storage::close(handle)?;
        self.take(pid, Ask::Step { step: Step::Complete, pairs: Vec::new(), custom: None }, None, begun)
            .map(drop)
    }

    fn step(&self, pid: i32, step: Step, pairs: Vec<Pair>, limit: Option<Duration>) -> Result<()> {
        let begun = self.begin(call_of(step), pid)?;
        self.take(pid, Ask::Step { step, pairs, custom: None }, limit, begun).map(drop)
    }

    fn custom(&self, pid: i32, step: Step, pairs: Vec<Pair>) -> Result<(u64, Vec<Device>)> {
        let begun = self.begin(call_of(step), pid)?;
        if !begun.level.custom_storage() {
            return Err(Code::INVALID_VALUE);
        }
        if super::target::process_of(pid) == Some(own_pid()) {
            return Err(Code::NOT_SUPPORTED);
        }
        let custom = Some(storage::retained()?);
        let parked = self.take(pid, Ask::Step { step, pairs, custom }, None, begun)?;
        storage::open(pid, &parked.ok_or(Code::UNKNOWN)?)
    }

    fn take(&self, pid: i32, ask: Ask, limit: Option<Duration>, begun: Begun) -> Result<Option<Parked>> {
        refuse(begun.verdict)?;
        if let Ask::Step { pairs, .. } = &ask
            && !pairs.is_empty()
            && !begun.level.pairs()
        {
            return Err(Code::INVALID_VALUE);
        }
        let reply = self.ask(&Target::find(pid)?, ask, limit, begun.verdict)?;
        if reply.code == 0 { Ok(reply.parked) } else { Err(Code(reply.code)) }
    }

    /// Asks the server whether and how to begin. Waits there if the script says so.
    fn begin(&self, call: Call, pid: i32) -> Result<Begun> {
        // The script knows processes, the caller may have named a thread.
        let pid = super::target::process_of(pid).unwrap_or(pid);
        let question = Question { call, phase: Phase::Before, pid, caller: Some(own_pid()) };
        let request = crate::wire::Request::Checkpoint(Checkpoint::Begin(question));
        let begun = Pool::default().ask::<Begun>(&self.directory, &request).unwrap_or(Begun {
            level: Level::newest(),
            verdict: Verdict::Go,
            lies: false,
        });
        if self.program || begun.level.checkpoints() { Ok(begun) } else { Err(Code::NOT_SUPPORTED) }
    }

    fn ask(&self, target: &Target, ask: Ask, limit: Option<Duration>, verdict: Verdict) -> Result<Reply> {
        let id = new_id();
        let request = Request {
            id,
            ask,
            dir: self.directory.clone(),
            // The clock has whole milliseconds, and one of them is partly over: nobody is given up before their time.
            until: limit.map(|limit| wall_clock().saturating_add(millis(limit)).saturating_add(1)),
            caller: own_pid(),
            pid: target.pid(),
            fault: (verdict != Verdict::Go).then_some(verdict),
        };
        let deadline = limit.map(|limit| Instant::now() + limit);
        let Some(line) = target.line(deadline)? else { return Err(Code::NOT_READY) };
        if !line.send(&request, deadline)? {
            return Err(Code::NOT_READY);
        }
        // With a limit the helper itself answers at the limit. If it does not it is frozen, and finds later that the
        // time is over; if it has begun, its word is worth waiting for, or a target might be locked that the caller
        // believes to run.
        if let Some(reply) = line.receive(id, deadline.map(|end| end + GRACE))? {
            return Ok(reply);
        }
        if target.works_on(id)
            && let Some(reply) = line.receive(id, deadline.map(|end| end + GRACE_BUSY))?
        {
            return Ok(reply);
        }
        target.cancel(id);
        Err(Code::NOT_READY)
    }
}

fn refuse(verdict: Verdict) -> Result<()> {
    match verdict {
        Verdict::Code(code) => Err(Code(code)),
        Verdict::Go | Verdict::Terminal | Verdict::Then304 => Ok(()),
    }
}

/// The call that takes a step.
pub(crate) const fn call_of(step: Step) -> Call {
    match step {
        Step::Lock => Call::Lock,
        Step::Checkpoint => Call::Checkpoint,
        Step::Restore => Call::Restore,
        Step::Unlock => Call::Unlock,
        Step::Complete => Call::Complete,
    }
}

fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds of the clock that all processes of a machine share.
pub(crate) fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A number that no other caller has chosen lately, and that is not 0.
fn new_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) & 0xfff;
    (wall_clock() << 34) | (u64::from(own_pid().unsigned_abs() & 0x003f_ffff) << 12) | count | (1 << 63)
}
