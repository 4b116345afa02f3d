//! Exported functions: modules and libraries.
use std::ffi::{CString, c_char};

use super::{In, Out, Text, export};
use crate::client::modules::{self, Library, Source};
use crate::client::{self, Call};
use crate::code::{Code, Result};

/// Where a JIT option's value is, or what it is.
pub(crate) type Value = Out<c_char>;

/// Options of the just-in-time compiler: all are accepted, and the log of errors is written.
pub(crate) struct Jit {
    log: Option<(Out<c_char>, usize)>,
}

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const ERROR_LOG: i32 = 5;
const ERROR_LOG_BYTES: i32 = 6;

impl Jit {
    pub(crate) fn read(count: u32, options: In<i32>, values: In<Value>) -> Result<Self> {
        let options = options.list(count as usize)?;
        let values = values.list(count as usize)?;
        let find = |wanted| {
            options.iter().zip(&values).find(|(option, _)| **option == wanted).map(|(_, value)| *value)
        };
        // the size is the value itself, not what it points to
        let room =
            find(ERROR_LOG_BYTES).and_then(|value| usize::try_from(value.address() & 0xffff_ffff).ok());
        Ok(Self { log: find(ERROR_LOG).zip(room).filter(|(log, room)| !log.is_null() && *room > 0) })
    }

    /// Reads PTX; what is wrong with it goes to the log.
    pub(crate) fn source(&self, image: &[u8]) -> Result<Source> {
        modules::read(image).map_err(|(code, text)| {
            if let Some((log, room)) = self.log {
                let _written = log.put_text(&text, room);
            }
            code
        })
    }
}

fn file(path: Text) -> Result<Vec<u8>> {
    let path = path.get()?;
    let path = path.to_str().map_err(|_| Code::FILE_NOT_FOUND)?;
    std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)
}

pub(crate) fn name_of(name: Text) -> Result<String> {
    Ok(name.get()?.to_string_lossy().into_owned())
}

fn load(call: &Call, module: Out<u64>, image: &[u8], jit: &Jit) -> Result<()> {
    if module.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    call.context()?;
    module.put(call.load_module(0, jit.source(image)?)?)
}

fn load_library(call: &Call, library: Out<u64>, image: &[u8], jit: &Jit) -> Result<()> {
    if library.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let code = jit.source(image)?;
    let mut tables = call.client.tables();
    let handle = tables.handle();
    tables.modules.libraries.insert(handle, Library { code, modules: Default::default() });
    drop(tables);
    library.put(handle)
}

const NO_OPTIONS: Jit = Jit { log: None };

fn global(call: &Call, module: u64, address: Out<u64>, bytes: Out<u64>, name: Text) -> Result<()> {
    let (at, length) = call.global(module, &name_of(name)?)?;
    address.put_if(at);
    bytes.put_if(length);
    Ok(())
}

fn enumerate(call: &Call, into: Out<u64>, count: u32, owner: u64) -> Result<()> {
    into.put_all(call.functions(owner)?.into_iter().take(count as usize))
}

fn count(call: &Call, into: Out<u32>, owner: u64) -> Result<()> {
    into.put(u32::try_from(call.functions(owner)?.len()).unwrap_or(u32::MAX))
}

/// A CString's bytes, without the end.
fn bytes(text: CString) -> Vec<u8> {
    text.into_bytes()
}

export! {
    fn cuModuleLoad(module: Out<u64>, path: Text) {
        let call = client::enter()?;
        load(&call, module, &file(path)?, &NO_OPTIONS)
    }

    fn cuModuleLoadData(module: Out<u64>, image: Text) {
        let call = client::enter()?;
        load(&call, module, &bytes(image.get()?), &NO_OPTIONS)
    }

    fn cuModuleLoadDataEx(module: Out<u64>, image: Text, count: u32, options: In<i32>, values: In<Value>) {
        let call = client::enter()?;
        load(&call, module, &bytes(image.get()?), &Jit::read(count, options, values)?)
    }

    fn cuModuleLoadFatBinary(_module: Out<u64>, _image: Text) {
        client::enter()?;
        Err(Code::NO_BINARY_FOR_GPU)
    }

    fn cuModuleUnload(module: u64) {
        client::enter()?.unload_module(module)
    }

    fn cuModuleGetLoadingMode(mode: Out<i32>) {
        // lazy
        mode.put(2)
    }

    fn cuModuleGetFunction(function: Out<u64>, module: u64, name: Text) {
        let call = client::enter()?;
        if !call.client.tables().modules.modules.contains_key(&module) {
            return Err(Code::INVALID_HANDLE);
        }
        function.put(call.function(module, &name_of(name)?)?)
    }

    fn cuModuleGetFunctionCount(into: Out<u32>, module: u64) {
        count(&client::enter()?, into, module)
    }

    fn cuModuleEnumerateFunctions(into: Out<u64>, room: u32, module: u64) {
        enumerate(&client::enter()?, into, room, module)
    }

    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<u64>, module: u64, name: Text) {
        global(&client::enter()?, module, address, bytes, name)
    }

    fn cuLibraryLoadData(
        library: Out<u64>, image: Text, options: In<i32>, values: In<Value>, count: u32,
        _library_options: In<i32>, _library_values: In<Value>, _library_count: u32,
    ) {
        let call = client::enter()?;
        load_library(&call, library, &bytes(image.get()?), &Jit::read(count, options, values)?)
    }

    fn cuLibraryLoadFromFile(
        library: Out<u64>, path: Text, options: In<i32>, values: In<Value>, count: u32,
        _library_options: In<i32>, _library_values: In<Value>, _library_count: u32,
    ) {
        let call = client::enter()?;
        load_library(&call, library, &file(path)?, &Jit::read(count, options, values)?)
    }

    fn cuLibraryUnload(library: u64) {
        client::enter()?.unload_library(library)
    }

    fn cuLibraryGetKernel(kernel: Out<u64>, library: u64, name: Text) {
        let call = client::enter()?;
        if !call.client.tables().modules.libraries.contains_key(&library) {
            return Err(Code::INVALID_HANDLE);
        }
        kernel.put(call.function(library, &name_of(name)?)?)
    }

    fn cuLibraryGetKernelCount(into: Out<u32>, library: u64) {
        count(&client::enter()?, into, library)
    }

    fn cuLibraryEnumerateKernels(into: Out<u64>, room: u32, library: u64) {
        enumerate(&client::enter()?, into, room, library)
    }

    fn cuLibraryGetModule(module: Out<u64>, library: u64) {
        let call = client::enter()?;
        let context = call.context()?.0;
        module.put(call.library_module(library, context)?)
    }

    fn cuLibraryGetGlobal(address: Out<u64>, bytes: Out<u64>, library: u64, name: Text) {
        let call = client::enter()?;
        let context = call.context()?.0;
        let module = call.library_module(library, context)?;
        global(&call, module, address, bytes, name)
    }
}
