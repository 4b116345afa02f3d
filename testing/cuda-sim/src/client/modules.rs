//! Modules, libraries, and the functions in them.
//!
//! A library belongs to no context: it is loaded into a context when one of its kernels is first used there. All of this is the
//! process's own memory, and the server's half goes into the image of a checkpoint, so that handles stay good.
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use super::Call;
use super::tables::Kind;
use crate::code::{Code, Result};
use crate::ptx::{EntryFacts, Module as Program};
use crate::wire::{Module, ModuleImage, Request};

/// A program that was read: PTX and what it says.
#[derive(Debug, Clone)]
pub struct Source {
    /// The text.
    pub text: Arc<str>,
    /// What it says.
    pub program: Arc<Program>,
}

/// A module of a context.
#[derive(Debug, Clone)]
pub struct LoadedModule {
    /// The context.
    pub context: u64,
    /// The program.
    pub code: Source,
    /// Addresses of its variables.
    pub globals: Vec<u64>,
    /// The allocation that they are in.
    memory: Option<u64>,
}

/// A `CUlibrary`.
#[derive(Debug, Clone)]
pub struct Library {
    /// The program.
    pub code: Source,
    /// The module that it is, by context.
    pub modules: HashMap<u64, u64>,
}

/// A `CUfunction` (its owner is a module) or a `CUkernel` (its owner is a library).
#[derive(Debug, Clone)]
pub struct Function {
    /// The handle of the module or library.
    pub owner: u64,
    /// The entry in its program.
    pub entry: u32,
    /// Its name, at an address that stays.
    pub name: Arc<CString>,
    /// Attributes that were set.
    pub attributes: HashMap<u32, i32>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Modules {
    /// By handle.
    pub modules: HashMap<u64, LoadedModule>,
    /// By handle.
    pub libraries: HashMap<u64, Library>,
    /// By handle: functions and kernels.
    pub functions: HashMap<u64, Function>,
    /// Linkers by handle: what was added, and the result once it is there.
    pub links: HashMap<u64, (Vec<String>, Option<Arc<CString>>)>,
}

/// What one can say of a function or kernel.
#[derive(Debug, Clone)]
pub struct Described {
    /// See there.
    pub function: Function,
    /// Its program.
    pub program: Arc<Program>,
    /// The driver's facts.
    pub facts: EntryFacts,
}

impl Modules {
    /// Forgets what belonged to a context that is gone.
    pub fn forget(&mut self, context: u64) {
        self.modules.retain(|_, module| module.context != context);
        for library in self.libraries.values_mut() {
            library.modules.remove(&context);
        }
        self.drop_orphans();
    }

    fn drop_orphans(&mut self) {
        let (modules, libraries) = (&self.modules, &self.libraries);
        self.functions.retain(|_, function| {
            modules.contains_key(&function.owner) || libraries.contains_key(&function.owner)
        });
    }

    fn program(&self, owner: u64) -> Option<&Source> {
        let module = self.modules.get(&owner).map(|module| &module.code);
        module.or_else(|| self.libraries.get(&owner).map(|library| &library.code))
    }

    /// A function or kernel.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn describe(&self, function: u64) -> Result<Described> {
        let function = self.functions.get(&function).ok_or(Code::INVALID_HANDLE)?;
        let program = self.program(function.owner).ok_or(Code::INVALID_HANDLE)?.program.clone();
        let facts = program.facts(function.entry).ok_or(Code::INVALID_HANDLE)?;
        Ok(Described { function: function.clone(), program, facts })
    }
}

/// Reads what a program gives as code: PTX. The text of the error goes to the caller's log.
///
/// # Errors
/// NO_BINARY_FOR_GPU for compiled code, INVALID_PTX.
pub fn read(image: &[u8]) -> std::result::Result<Source, (Code, String)> {
    const ELF: &[u8] = b"\x7fELF";
    const FAT: &[u8] = &0xba55_ed50_u32.to_le_bytes();
    const WRAPPER: &[u8] = &0x4662_43b1_u32.to_le_bytes();
    if [ELF, FAT, WRAPPER].iter().any(|magic| image.starts_with(magic)) {
        return Err((Code::NO_BINARY_FOR_GPU, "compiled code cannot be run here, only PTX".to_owned()));
    }
    let text = String::from_utf8_lossy(image);
    match Program::parse(&text) {
        Ok(program) => Ok(Source { text: text.into(), program: Arc::new(program) }),
        Err(error) => {
            crate::server::log(&format_args!("PTX refused: {error}"));
            Err((Code::INVALID_PTX, format!("ptxas application ptx input, {error}")))
        }
    }
}

impl Call {
    /// Loads a program into a context (0: the current one).
    ///
    /// # Errors
    /// Those of the context, of memory for its variables, and of the server.
    pub fn load_module(&self, context: u64, code: Source) -> Result<u64> {
        let context = self.context_of(context)?.0;
        let (memory, globals) = self.place_globals(context, &code.program)?;
        let module = self.client.tables().handle();
        let image = ModuleImage { module, context, text: code.text.to_string(), globals: globals.clone() };
        if let Err(code) = self.client.ask::<()>(&Request::Module(Module::Load(image))) {
            if let Some(memory) = memory {
                self.free(memory, None)?;
            }
            return Err(code);
        }
        let loaded = LoadedModule { context, code, globals, memory };
        self.client.tables().modules.modules.insert(module, loaded);
        Ok(module)
    }

    /// One allocation for all variables of a program, filled with what they start with.
    fn place_globals(&self, context: u64, program: &Program) -> Result<(Option<u64>, Vec<u64>)> {
        let mut end = 0_u64;
        let mut offsets = Vec::new();
        for global in program.globals() {
            let start = end.checked_next_multiple_of(global.align.max(1)).ok_or(Code::OUT_OF_MEMORY)?;
            offsets.push(start);
            end = start.checked_add(global.size).ok_or(Code::OUT_OF_MEMORY)?;
        }
        if offsets.is_empty() {
            return Ok((None, Vec::new()));
        }
        let memory = self.alloc(context, end.max(1), Kind::Device)?;
        let addresses: Vec<u64> = offsets.iter().map(|offset| memory + offset).collect();
        let mut bytes = vec![0; usize::try_from(end).map_err(|_| Code::OUT_OF_MEMORY)?];
        for (global, offset) in program.globals().iter().zip(&offsets) {
            let start = usize::try_from(*offset).map_err(|_| Code::OUT_OF_MEMORY)?;
            if let Some(room) = bytes.get_mut(start..start + global.init.len()) {
                room.copy_from_slice(&global.init);
            }
            for (at, target, addend) in &global.addresses {
                let at = usize::try_from(offset + at).map_err(|_| Code::OUT_OF_MEMORY)?;
                let value =
                    addresses.get(*target as usize).map_or(0, |start| start.wrapping_add_signed(*addend));
                if let Some(room) = bytes.get_mut(at..at + 8) {
                    room.copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        if end > 0 {
            let from = bytes.as_ptr() as u64;
            let copied = self.copy_bytes(context, (memory, Some(false)), (from, Some(true)), end, true);
            if let Err(code) = copied {
                self.free(memory, None)?;
                return Err(code);
            }
        }
        Ok((Some(memory), addresses))
    }

    /// Unloads a module.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn unload_module(&self, module: u64) -> Result<()> {
        let loaded = {
            let mut tables = self.client.tables();
            let loaded = tables.modules.modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
            tables.modules.drop_orphans();
            loaded
        };
        // launches that are queued keep the code; its variables' memory goes when the context's work is done
        self.client.ask::<()>(&Request::Module(Module::Unload { module }))?;
        loaded.memory.map_or(Ok(()), |memory| self.free(memory, None))
    }

    /// Unloads a library from all contexts.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn unload_library(&self, library: u64) -> Result<()> {
        let modules = {
            let mut tables = self.client.tables();
            let gone = tables.modules.libraries.remove(&library).ok_or(Code::INVALID_HANDLE)?;
            tables.modules.drop_orphans();
            gone.modules
        };
        modules.into_values().try_for_each(|module| self.unload_module(module))
    }

    /// The function of that name in a module or library; the same handle each time.
    ///
    /// # Errors
    /// INVALID_HANDLE, NOT_FOUND.
    pub fn function(&self, owner: u64, name: &str) -> Result<u64> {
        let mut tables = self.client.tables();
        let code = tables.modules.program(owner).ok_or(Code::INVALID_HANDLE)?;
        let entry = *code.program.entries().get(name).ok_or(Code::NOT_FOUND)?;
        let known = tables
            .modules
            .functions
            .iter()
            .find(|(_, function)| function.owner == owner && function.entry == entry);
        if let Some((handle, _)) = known {
            return Ok(*handle);
        }
        let handle = tables.handle();
        let name = Arc::new(CString::new(name).map_err(|_| Code::NOT_FOUND)?);
        let function = Function { owner, entry, name, attributes: HashMap::new() };
        tables.modules.functions.insert(handle, function);
        Ok(handle)
    }

    /// All functions of a module or library, by name.
    ///
    /// # Errors
    /// INVALID_HANDLE.
    pub fn functions(&self, owner: u64) -> Result<Vec<u64>> {
        let code = self.client.tables().modules.program(owner).cloned().ok_or(Code::INVALID_HANDLE)?;
        code.program.entries().keys().map(|name| self.function(owner, name)).collect()
    }

    /// The module that a library is in a context.
    ///
    /// # Errors
    /// INVALID_HANDLE, and those of [`Call::load_module`].
    pub fn library_module(&self, library: u64, context: u64) -> Result<u64> {
        let known = self.client.tables().modules.libraries.get(&library).cloned();
        let known = known.ok_or(Code::INVALID_HANDLE)?;
        if let Some(module) = known.modules.get(&context) {
            return Ok(*module);
        }
        let module = self.load_module(context, known.code)?;
        if let Some(library) = self.client.tables().modules.libraries.get_mut(&library) {
            library.modules.insert(context, module);
        }
        Ok(module)
    }

    /// Address and bytes of a module's variable.
    ///
    /// # Errors
    /// INVALID_HANDLE, NOT_FOUND.
    pub fn global(&self, module: u64, name: &str) -> Result<(u64, u64)> {
        let tables = self.client.tables();
        let module = tables.modules.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let globals = module.code.program.globals().iter().zip(&module.globals);
        let found = globals.into_iter().find(|(global, _)| global.name == name);
        found.map(|(global, address)| (*address, global.size)).ok_or(Code::NOT_FOUND)
    }

    /// Queues a function or kernel on a stream (the server's number of it).
    ///
    /// # Errors
    /// INVALID_HANDLE, INVALID_VALUE for a shape it cannot have, and those of the stream.
    pub fn launch(
        &self,
        function: u64,
        stream: u64,
        [blocks, threads]: [[u32; 3]; 2],
        shared: u32,
        arguments: Vec<u8>,
    ) -> Result<()> {
        let described = self.client.tables().modules.describe(function)?;
        let owner = described.function.owner;
        let is_library = self.client.tables().modules.libraries.contains_key(&owner);
        let module = match is_library {
            true => self.library_module(owner, self.stream_info(stream)?.context)?,
            false => owner,
        };
        let entry = described.function.name.to_string_lossy().into_owned();
        self.client.ask(&Request::Module(Module::Launch {
            module,
            entry,
            stream,
            blocks,
            threads,
            shared,
            arguments,
        }))
    }
}
