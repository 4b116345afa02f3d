//! The device server: GPUs, the processes that use them, and their memory and streams.
//!
//! Locks are taken in the order they stand in here: the table of processes, then one process's tables, then a stream's queue.
//! None is held while work is done or waited for.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::code::{Code, Result};
use crate::faults::{Faults, Whims};
use crate::level::Level;
use crate::wire::{Host, Request};

mod checkpoint;
pub mod chips;
mod copy;
mod core;
mod gpu;
mod host_func;
mod link;
mod listen;
mod module;
mod nvml;
mod process;
mod space;
mod storage;
mod stream;

pub use crate::abi::sys::region::Region;
pub use gpu::Gpu;
pub use link::{Link, Way};
pub use listen::{Listening, listen};
pub(crate) use module::log;
pub use process::{Context, Process};
pub use space::{AddressSpace, Mapping, Physical, Piece};
pub use stream::{NON_BLOCKING, Stream, Task, Ticket};

/// What the server is to play.
#[derive(Debug, Clone)]
pub struct Config {
    /// The chip of each GPU, a key of [`chips`].
    pub chips: Vec<String>,
    /// Bytes of each GPU; `None`: what the chip has.
    pub memory: Option<u64>,
    /// The behaviour level.
    pub level: Level,
    /// The UUIDs are made of this.
    pub uuid_seed: String,
    /// Bytes a second between each GPU and the host, in each direction; `None`: no limit.
    pub pcie: Option<u64>,
}

/// What all connections share: the GPUs, the processes that use them, and how the driver is to behave.
#[derive(Debug)]
pub struct Server {
    /// All GPUs, by index.
    pub gpus: Vec<Arc<Gpu>>,
    /// What is to go wrong.
    pub faults: Faults,
    /// What the control socket has set.
    pub(crate) whims: Mutex<Whims>,
    level: Mutex<Level>,
    processes: Mutex<HashMap<i32, Arc<Process>>>,
    shared: Mutex<HashMap<u64, space::Shared>>,
    /// Operations with custom storage that are not complete.
    parked: Mutex<HashMap<u64, storage::Operation>>,
    nvml: Mutex<crate::nvml::Settings>,
}

/// A lock whose holder panicked is still a lock: the tables are changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// A server with its GPUs, and no processes.
    ///
    /// # Errors
    /// The name of a chip that we do not know.
    pub fn new(config: &Config) -> std::result::Result<Arc<Self>, String> {
        let mut gpus = Vec::new();
        for (index, chip) in (0u32..).zip(&config.chips) {
            let info =
                chips::gpu(chip, index, config.memory, &config.uuid_seed).ok_or_else(|| chip.clone())?;
            gpus.push(Arc::new(Gpu::new(info, Link::new(config.pcie))));
        }
        Ok(Arc::new(Self {
            gpus,
            faults: Faults::default(),
            whims: Mutex::default(),
            level: Mutex::new(config.level),
            processes: Mutex::default(),
            shared: Mutex::default(),
            parked: Mutex::default(),
            nvml: Mutex::default(),
        }))
    }

    /// The behaviour level at this time.
    #[must_use]
    pub fn level(&self) -> Level {
        *lock(&self.level)
    }

    /// Plays another driver from now on.
    pub fn set_level(&self, level: Level) {
        *lock(&self.level) = level;
    }

    /// Does the state of any process count as answered?
    pub(crate) fn lies(&self) -> bool {
        lock(&self.whims).get_state_lies
    }

    /// Are the checkpoint calls for root alone? Real drivers may want that; which do is not known.
    pub fn set_root_only(&self, on: bool) {
        lock(&self.whims).root_only = on;
    }

    pub(crate) fn permits(&self, caller: &Process) -> bool {
        caller.is_root() || !lock(&self.whims).root_only
    }

    /// The GPU of that index.
    ///
    /// # Errors
    /// INVALID_DEVICE.
    pub fn gpu(&self, index: u32) -> Result<&Arc<Gpu>> {
        self.gpus.get(index as usize).ok_or(Code::INVALID_DEVICE)
    }

    /// All processes at this time.
    #[must_use]
    pub fn processes(&self) -> Vec<Arc<Process>> {
        lock(&self.processes).values().cloned().collect()
    }

    /// The process of that pid (as the server sees pids).
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<Arc<Process>> {
        lock(&self.processes).get(&pid).cloned()
    }

    /// The machine as clients see it.
    #[must_use]
    pub fn host(&self) -> Host {
        Host { level: self.level(), gpus: self.gpus.iter().map(|gpu| gpu.info.clone()).collect() }
    }

    /// Carries out one request of a process.
    ///
    /// # Errors
    /// The `CUresult` that the call is to answer.
    pub fn dispatch(self: &Arc<Self>, process: &Arc<Process>, request: Request) -> Result<Value> {
        match request {
            Request::Core(request) => core::handle(self, process, request),
            Request::Checkpoint(request) => checkpoint::handle(self, process, request),
            Request::Module(request) => module::handle(self, process, request),
            Request::Nvml(request) => nvml::handle(self, process, &request),
        }
    }
}

/// An answer's body.
pub(crate) fn body(value: impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|_| Code::UNKNOWN)
}
