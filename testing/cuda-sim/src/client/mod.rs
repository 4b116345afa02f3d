//! The client library: what lives in the CUDA process, in safe code.
//!
//! There is one [`Client`] a process, made by the first `cuInit` that succeeds. A call goes like this: [`enter`] finds the
//! client (a forked child has none: 3) and passes the *gate*; the [`Call`] that it gives reads and changes the tables and
//! asks the server. While a checkpoint has the gate closed, calls wait in `enter`. All other locks of the library are taken
//! behind the gate only, and given back before it: so whoever has closed the gate can take them all without waiting, even
//! while all other threads are frozen.
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde::de::DeserializeOwned;

use crate::code::{Code, Result};
use crate::level::Level;
use crate::wire::{Core, Host, Request};

pub mod addresses;
mod channel;
pub mod context;
pub mod gate;
mod memory;
pub mod modules;
mod stream;
pub mod tables;
pub mod vmm;

pub use channel::Pool;
pub use gate::{Gate, Pass};
pub use tables::{Context, Device, Tables};

static CLIENT: OnceLock<Client> = OnceLock::new();

/// The library's state in this process.
#[derive(Debug)]
pub struct Client {
    /// The process it was made in: a forked child has another number.
    pub pid: i32,
    /// Where the server is.
    pub directory: Mutex<PathBuf>,
    /// Where the device nodes are.
    pub dev: PathBuf,
    /// See the module.
    pub gate: Gate,
    /// Channels to the server.
    pub pool: Pool,
    /// Open device files: nvidiactl, nvidia-uvm and the nvidiaN in use.
    pub nodes: Mutex<Vec<File>>,
    /// The machine, as the server said at the start or at the last restore.
    pub host: Mutex<Host>,
    /// Held while a primary context is made or destroyed.
    primary: Mutex<()>,
    /// Where the trace of exported memory is mapped.
    ipc_trace: Mutex<Option<u64>>,
    tables: Mutex<Tables>,
}

/// A call behind the gate.
#[derive(Debug)]
pub struct Call {
    /// The library.
    pub client: &'static Client,
    _pass: Pass,
}

/// Passes the gate.
///
/// # Errors
/// NOT_INITIALIZED before `cuInit` and in forked children.
pub fn enter() -> Result<Call> {
    let client = this_process()?;
    let pass = client.gate.pass();
    Ok(Call { client, _pass: pass })
}

/// The library's state, without the gate: for the checkpoint's own thread.
///
/// # Errors
/// NOT_INITIALIZED before `cuInit` and in forked children.
pub fn this_process() -> Result<&'static Client> {
    CLIENT.get().filter(|client| client.pid == nix::unistd::getpid().as_raw()).ok_or(Code::NOT_INITIALIZED)
}

/// The server's directory, as the environment says.
#[must_use]
pub fn directory() -> PathBuf {
    std::env::var_os("CUDA_SIM_DIR").map_or_else(|| PathBuf::from("/var/lib/cuda-sim"), PathBuf::from)
}

/// `cuInit`: finds the server and the device nodes.
///
/// # Errors
/// NO_DEVICE without either; NOT_INITIALIZED in a forked child of a process that had it.
pub fn init() -> Result<()> {
    // Two threads at once: the second waits and finds the first one's.
    static ONE: Mutex<()> = Mutex::new(());
    if let Some(client) = CLIENT.get() {
        return if client.pid == nix::unistd::getpid().as_raw() {
            Ok(())
        } else {
            Err(Code::NOT_INITIALIZED)
        };
    }
    let _one = lock(&ONE);
    if CLIENT.get().is_some() {
        return Ok(());
    }
    let client = Client::open()?;
    let client = CLIENT.get_or_init(|| client);
    crate::checkpoint::helper::start(client)
}

/// The driver that the server plays: known before `cuInit`, because programs ask before it.
#[must_use]
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return lock(&client.host).level;
    }
    let asked =
        || Pool::default().ask(&directory(), &Request::Core(Core::Hello)).ok().map(|host: Host| host.level);
    match LEVEL.get() {
        Some(level) => *level,
        // A server that is not there yet may come.
        None => asked().map(|level| *LEVEL.get_or_init(|| level)).unwrap_or_default(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    fn open() -> Result<Self> {
        let dev = std::env::var_os("CUDA_SIM_DEV").map_or_else(|| PathBuf::from("/dev"), PathBuf::from);
        let directory = directory();
        let pool = Pool::default();
        let host: Host = pool.ask(&directory, &Request::Core(Core::Hello)).map_err(|_| Code::NO_DEVICE)?;
        let nodes = tables::open_nodes(&dev, tables::COMMON_NODES)?;
        let tables = Tables::new(&dev, &host)?;
        Ok(Self {
            pid: nix::unistd::getpid().as_raw(),
            directory: Mutex::new(directory),
            dev,
            gate: Gate::default(),
            pool,
            nodes: Mutex::new(nodes),
            host: Mutex::new(host),
            primary: Mutex::default(),
            ipc_trace: Mutex::default(),
            tables: Mutex::new(tables),
        })
    }

    /// Asks the server, for its answer's body.
    ///
    /// # Errors
    /// The answer's code; UNKNOWN if the server is gone.
    pub fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        let directory = lock(&self.directory).clone();
        self.pool.ask(&directory, request)
    }

    /// The tables. Not held while asking the server for something that takes time.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }
}

impl Call {
    /// [`Client::ask`] for a core request.
    ///
    /// # Errors
    /// As there.
    pub fn core<T: DeserializeOwned>(&self, request: Core) -> Result<T> {
        self.client.ask(&Request::Core(request))
    }
}
