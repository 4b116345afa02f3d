//! The server's side of the requests of `wire::Module`: modules, and launches in the queues of streams.
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::process::Tables;
use super::{Piece, Process, Region, Server, lock};
use crate::code::{Code, Result};
use crate::faults::has_ended;
use crate::ptx::{self, Illegal, Launch, Memory};
use crate::wire::{Module, ModuleImage};

/// A module of a process.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) context: u64,
    text: String,
    globals: Arc<[u64]>,
    code: Arc<ptx::Module>,
}

pub(super) fn handle(_server: &Arc<Server>, process: &Arc<Process>, request: Module) -> Result<Value> {
    match request {
        Module::Load(image) => {
            process.context(image.context)?;
            let loaded = load(&image)?;
            lock(&process.tables).modules.insert(image.module, loaded);
        }
        Module::Unload { module } => {
            lock(&process.tables).modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
        }
        Module::Launch { module, entry, stream, blocks, threads, shared, arguments } => {
            let loaded = lock(&process.tables).modules.get(&module).cloned().ok_or(Code::INVALID_HANDLE)?;
            let entry = *loaded.code.entries().get(&entry).ok_or(Code::NOT_FOUND)?;
            let shape = Shape { entry, blocks, threads, shared, arguments };
            launch(process, loaded, stream, shape)?;
        }
    }
    Ok(Value::Null)
}

fn load(image: &ModuleImage) -> Result<Loaded> {
    let code = ptx::Module::parse(&image.text).map_err(|_| Code::INVALID_PTX)?;
    if code.globals().len() != image.globals.len() {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Loaded {
        context: image.context,
        text: image.text.clone(),
        globals: image.globals.clone().into(),
        code: Arc::new(code),
    })
}

/// The modules of a process, for its image.
pub(super) fn export(tables: &Tables) -> Vec<ModuleImage> {
    let image = |(module, loaded): (&u64, &Loaded)| ModuleImage {
        module: *module,
        context: loaded.context,
        text: loaded.text.clone(),
        globals: loaded.globals.to_vec(),
    };
    tables.modules.iter().map(image).collect()
}

/// The same modules again.
///
/// # Errors
/// INVALID_PTX for what [`export`] did not make.
pub(super) fn import(tables: &mut Tables, images: &[ModuleImage]) -> Result<()> {
    for image in images {
        tables.modules.insert(image.module, load(image)?);
    }
    Ok(())
}

struct Shape {
    entry: u32,
    blocks: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    arguments: Vec<u8>,
}

fn launch(process: &Arc<Process>, loaded: Loaded, stream: u64, shape: Shape) -> Result<()> {
    if process.stream(stream)?.context != loaded.context {
        return Err(Code::INVALID_HANDLE);
    }
    let described = |shape: &Shape| Launch {
        blocks: shape.blocks,
        threads: shape.threads,
        dynamic_shared: shape.shared,
        budget: budget(),
        ..Launch::default()
    };
    let asked = Launch { arguments: &shape.arguments, globals: &loaded.globals, ..described(&shape) };
    loaded.code.check(shape.entry, &asked).map_err(|_| Code::INVALID_VALUE)?;
    let owner = process.clone();
    let task = move || {
        let ended = || has_ended(owner.pid);
        let launch = Launch {
            arguments: &shape.arguments,
            globals: &loaded.globals,
            stop: Some(&ended),
            ..described(&shape)
        };
        let mut memory = Device { process: &owner, seen: Vec::new(), word: None };
        loaded.code.launch(shape.entry, &launch, &mut memory).map_err(|fault| {
            log(&fault);
            let code = Code(fault.code());
            owner.fail(loaded.context, code);
            code
        })
    };
    process.enqueue(stream, Box::new(task)).map(drop)
}

/// Instructions that a launch may take: some minutes. `CUDA_SIM_BUDGET` of the server says otherwise.
fn budget() -> u64 {
    static BUDGET: OnceLock<u64> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        std::env::var("CUDA_SIM_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000_000_000)
    })
}

/// `CUDA_SIM_LOG`: what went wrong with kernels and modules, on the error output.
pub(crate) fn log(what: &dyn std::fmt::Display) {
    use std::io::Write;
    if std::env::var_os("CUDA_SIM_LOG").is_some() {
        drop(writeln!(std::io::stderr(), "cuda-sim: {what}"));
    }
}

/// A process's memory as its kernels see it: device memory, and host memory that is pinned or managed.
struct Device<'p> {
    process: &'p Process,
    /// Ranges found lately: start, end, and what is there.
    seen: Vec<(u64, u64, Piece)>,
    /// A place for words on their way from or to the host.
    word: Option<Region>,
}

enum Place<'d> {
    Device(&'d Region, u64),
    Host(&'d Region),
}

impl Device<'_> {
    fn place(&mut self, address: u64, size: usize) -> std::result::Result<Place<'_>, Illegal> {
        let size = size as u64;
        let end = address.checked_add(size).ok_or(Illegal)?;
        let inside = |known: &(u64, u64, Piece)| known.0 <= address && end <= known.1;
        let found = match self.seen.iter().position(inside) {
            Some(found) => found,
            None => {
                let space = self.process.space();
                let Some((start, mapping)) = space.overlapping(address, 1) else {
                    if !space.is_host(address, size) {
                        return Err(Illegal);
                    }
                    if self.word.is_none() {
                        self.word = Some(Region::new(8).map_err(|_| Illegal)?);
                    }
                    return self.word.as_ref().map(Place::Host).ok_or(Illegal);
                };
                let known =
                    (start, start + mapping.bytes, (mapping.physical.clone(), mapping.offset, mapping.bytes));
                if !inside(&known) {
                    return Err(Illegal);
                }
                if self.seen.len() == 8 {
                    self.seen.remove(0);
                }
                self.seen.push(known);
                self.seen.len() - 1
            }
        };
        let (start, _, (physical, offset, _)) = &self.seen[found];
        Ok(Place::Device(&physical.memory, offset + (address - start)))
    }
}

impl Memory for Device<'_> {
    fn load(&mut self, address: u64, size: usize) -> std::result::Result<u64, Illegal> {
        let pid = self.process.pid;
        match self.place(address, size)? {
            Place::Device(region, at) => region.load(at, size),
            Place::Host(word) => {
                word.fill_from_process(0, pid, address, size as u64).and_then(|()| word.load(0, size))
            }
        }
        .map_err(|_| Illegal)
    }

    fn store(&mut self, address: u64, size: usize, value: u64) -> std::result::Result<(), Illegal> {
        let pid = self.process.pid;
        match self.place(address, size)? {
            Place::Device(region, at) => region.store(at, size, value),
            Place::Host(word) => {
                word.store(0, size, value).and_then(|()| word.copy_to_process(0, pid, address, size as u64))
            }
        }
        .map_err(|_| Illegal)
    }

    fn update(
        &mut self,
        address: u64,
        size: usize,
        change: &dyn Fn(u64) -> u64,
    ) -> std::result::Result<u64, Illegal> {
        match self.place(address, size)? {
            Place::Device(region, at) if size >= 4 => region.update(at, size, change).map_err(|_| Illegal),
            // not in one step: atomics on host memory and on 16 bits race with other streams only
            _ => {
                let old = self.load(address, size)?;
                self.store(address, size, change(old))?;
                Ok(old)
            }
        }
    }
}
