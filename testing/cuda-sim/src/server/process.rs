//! A process that uses GPUs, as the server knows it.
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{Condvar, PoisonError};
use std::time::Instant;

use super::stream::NON_BLOCKING;
use super::{AddressSpace, Gpu, Physical, Stream, Task, Ticket, lock};
use crate::checkpoint::state::State;
use crate::code::{Code, Result};
use crate::faults::{Call, Faults, Phase, Question, Verdict};

/// A context of a process.
#[derive(Debug, Clone)]
pub struct Context {
    /// The GPU that it was made on.
    pub gpu: Arc<Gpu>,
    /// What kernels did wrong: every later call answers this.
    pub error: Option<Code>,
}

/// An event: what it marks, and when that was done.
#[derive(Debug, Clone, Default)]
pub(super) struct Event {
    pub(super) flags: u32,
    pub(super) mark: Option<Ticket>,
    pub(super) at: Arc<Mutex<Option<Instant>>>,
}

/// A host function that a stream waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFunc {
    #[default]
    Queued,
    Reached,
}

/// A client of the stand-in: one process, with all that it has on GPUs.
#[derive(Debug)]
pub struct Process {
    /// As the server sees it.
    pub pid: i32,
    /// Tells when the process has ended.
    pub pidfd: OwnedFd,
    /// What is to go wrong with its work.
    faults: Faults,
    /// Who it was when it connected last, as the server numbers users.
    uid: AtomicU32,
    /// What its helper said last; `None` until it uses CUDA.
    state: Mutex<Option<State>>,
    ended: AtomicBool,
    space: RwLock<AddressSpace>,
    pub(super) tables: Mutex<Tables>,
    pub(super) host_funcs: Mutex<HashMap<u64, HostFunc>>,
    pub(super) host_func_moved: Condvar,
}

/// Contexts, streams, events and physical memory, by the client's numbers.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) contexts: HashMap<u64, Context>,
    pub(super) streams: HashMap<u64, Arc<Stream>>,
    pub(super) events: HashMap<u64, Event>,
    pub(super) handles: HashMap<u64, Arc<Physical>>,
    pub(super) modules: HashMap<u64, super::module::Loaded>,
}

impl Process {
    pub(super) fn new(pid: i32, pidfd: OwnedFd, faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            pid,
            pidfd,
            faults,
            uid: AtomicU32::new(u32::MAX),
            state: Mutex::default(),
            ended: AtomicBool::new(false),
            space: RwLock::default(),
            tables: Mutex::default(),
            host_funcs: Mutex::default(),
            host_func_moved: Condvar::new(),
        })
    }

    /// Notes who it is.
    pub(super) fn set_uid(&self, uid: u32) {
        self.uid.store(uid, Ordering::SeqCst);
    }

    /// Is it root of the machine? The root of somebody's user namespace is not: the kernel tells the server whom that is.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid.load(Ordering::SeqCst) == 0
    }

    /// The state that its helper said last; `None` if it does not use CUDA.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        *lock(&self.state)
    }

    /// Notes its state.
    pub fn set_state(&self, state: State) {
        *lock(&self.state) = Some(state);
    }

    /// Its addresses, to read.
    pub fn space(&self) -> RwLockReadGuard<'_, AddressSpace> {
        self.space.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its addresses, to change.
    pub fn space_mut(&self) -> RwLockWriteGuard<'_, AddressSpace> {
        self.space.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the process ended? Work that is still queued for it is not done then, and long work stops.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub(super) fn set_ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// A context; an error of its kernels comes back for every call.
    ///
    /// # Errors
    /// INVALID_CONTEXT, UNKNOWN for a lost GPU, or what a kernel did.
    pub fn context(&self, context: u64) -> Result<Context> {
        let context = lock(&self.tables).contexts.get(&context).cloned().ok_or(Code::INVALID_CONTEXT)?;
        context.gpu.alive()?;
        context.error.map_or(Ok(context), Err)
    }

    /// A kernel of this context went wrong: every later call answers this code.
    pub fn fail(&self, context: u64, code: Code) {
        if let Some(context) = lock(&self.tables).contexts.get_mut(&context) {
            context.error.get_or_insert(code);
        }
    }

    /// A stream by the number that the client gave it.
    ///
    /// # Errors
    /// INVALID_HANDLE, or those of its context.
    pub fn stream(&self, stream: u64) -> Result<Arc<Stream>> {
        let stream = lock(&self.tables).streams.get(&stream).cloned().ok_or(Code::INVALID_HANDLE)?;
        self.context(stream.context)?;
        Ok(stream)
    }

    /// All streams (of a context).
    #[must_use]
    pub fn streams(&self, context: Option<u64>) -> Vec<Arc<Stream>> {
        let tables = lock(&self.tables);
        tables
            .streams
            .values()
            .filter(|stream| context.is_none_or(|context| stream.context == context))
            .cloned()
            .collect()
    }

    /// Queues work on a stream, in the order that the legacy default stream asks for: it waits for all blocking streams of
    /// its context, and they for it.
    ///
    /// # Errors
    /// Those of [`Process::stream`].
    pub fn enqueue(self: &Arc<Self>, stream: u64, task: Task) -> Result<Ticket> {
        self.enqueue_after(stream, Vec::new(), task)
    }

    pub(super) fn enqueue_after(
        self: &Arc<Self>,
        stream: u64,
        mut after: Vec<Ticket>,
        task: Task,
    ) -> Result<Ticket> {
        let stream = self.stream(stream)?;
        let owner = self.clone();
        let task: Task = Box::new(move || {
            owner.meet()?;
            if owner.ended() { Err(Code::DEINITIALIZED) } else { task() }
        });
        // Held while submitting: the order of tickets between streams is the order of calls.
        let tables = lock(&self.tables);
        if stream.id == stream.context {
            let others = tables.streams.values().filter(|other| {
                other.context == stream.context && other.id != stream.id && other.flags & NON_BLOCKING == 0
            });
            after.extend(others.map(Stream::newest));
        } else if stream.flags & NON_BLOCKING == 0 {
            after.extend(tables.streams.get(&stream.context).map(Stream::newest));
        }
        after.retain(|ticket| !ticket.done());
        Ok(stream.submit(after, task))
    }

    /// Asks the script before work is done.
    fn meet(&self) -> Result<()> {
        let question = Question { call: Call::Memory, phase: Phase::Before, pid: self.pid, caller: None };
        match self.faults.meet(question, &|| self.ended()) {
            Verdict::Code(code) => Err(Code(code)),
            Verdict::Go | Verdict::Terminal | Verdict::Then304 => Ok(()),
        }
    }

    /// Waits for the work of all streams (of a context); false if it takes longer.
    #[must_use]
    pub fn drain(&self, context: Option<u64>, deadline: Option<Instant>) -> bool {
        let newest: Vec<Ticket> = self.streams(context).iter().map(Stream::newest).collect();
        newest.iter().all(|ticket| ticket.wait(deadline))
    }

    /// Device memory that it holds on a GPU, by index.
    #[must_use]
    pub fn bytes(&self, gpu: u32) -> u64 {
        let space = self.space();
        let tables = lock(&self.tables);
        let plain = space.iter().filter(|(_, mapping)| mapping.context.is_some() && !mapping.foreign);
        let plain = plain
            .filter(|(_, mapping)| mapping.physical.gpu.info.index == gpu)
            .map(|(_, mapping)| mapping.bytes);
        let handles = tables
            .handles
            .values()
            .filter(|physical| physical.gpu.info.index == gpu)
            .map(|physical| physical.memory.len());
        plain.chain(handles).sum()
    }

    /// The GPUs, by index, on which it has a context.
    #[must_use]
    pub fn gpus(&self) -> Vec<u32> {
        let tables = lock(&self.tables);
        let mut gpus: Vec<u32> = tables.contexts.values().map(|context| context.gpu.info.index).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// Lets everything go: it has ended, or is checkpointed.
    pub fn clear(&self) {
        *lock(&self.tables) = Tables::default();
        *self.space_mut() = AddressSpace::default();
        lock(&self.host_funcs).clear();
        self.host_func_moved.notify_all();
    }
}
