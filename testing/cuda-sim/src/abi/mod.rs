//! The exported C interface, and all unsafe code of this crate.
//!
//! An exported function is written with [`export!`]. Its pointer arguments have the types of [`pointers`] ([`In`], [`Out`],
//! [`Text`]): transparent wrappers that only a C caller can make, so that what they rely on is written once there and the
//! functions themselves are ordinary safe code. Functions return `Result<(), Code>`; a panic becomes `UNKNOWN`.
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Code, Result};

mod attributes;
mod checkpoint;
mod context;
mod copy;
mod device;
mod event;
mod fill;
mod function;
mod launch;
mod link;
mod memory;
mod module;
pub(crate) mod nvml;
mod pointers;
mod pool;
mod proc_address;
mod stream;
mod stubs;
pub(crate) mod sys;
#[cfg(test)]
mod tests;
mod vmm;

pub(crate) use pointers::{In, Out, Text};

/// An exported function, for `cuGetProcAddress`.
#[derive(Clone, Copy)]
pub(crate) struct Export {
    name: &'static str,
    function: *const std::ffi::c_void,
}

// SAFETY: the address of a function: never dereferenced by us, the same in all threads.
unsafe impl Sync for Export {}

/// Exports functions of the driver interface, and lists them in `EXPORTS` of the module that uses this (once a module).
macro_rules! export {
    ($( $(#[$meta:meta])* fn $name:ident($($arg:ident : $type:ty),* $(,)?) $body:block )*) => {
        $(
            $(#[$meta])*
            // SAFETY: the name is one of the public driver interface, which nothing else in our programs defines.
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($arg: $type),*) -> i32 {
                $crate::abi::answer(stringify!($name), move || $body)
            }
        )*
        /// The functions of this module.
        pub(crate) static EXPORTS: &[$crate::abi::Export] = &[
            $($crate::abi::Export { name: stringify!($name), function: $name as *const std::ffi::c_void }),*
        ];
    };
}
pub(crate) use export;

/// All exported functions.
fn exports() -> impl Iterator<Item = &'static Export> {
    [
        device::EXPORTS,
        context::EXPORTS,
        memory::EXPORTS,
        pool::EXPORTS,
        copy::EXPORTS,
        fill::EXPORTS,
        vmm::EXPORTS,
        stream::EXPORTS,
        event::EXPORTS,
        module::EXPORTS,
        function::EXPORTS,
        launch::EXPORTS,
        link::EXPORTS,
        checkpoint::EXPORTS,
        proc_address::EXPORTS,
        stubs::EXPORTS,
    ]
    .into_iter()
    .flatten()
}

/// Runs the body of an exported function: no panic may cross into C.
pub(crate) fn answer(name: &str, body: impl FnOnce() -> Result<()>) -> i32 {
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::UNKNOWN.0,
    };
    trace(name, code);
    code
}

/// `CUDA_SIM_TRACE=1`: every call and its answer on the error output.
fn trace(name: &str, code: i32) {
    use std::sync::OnceLock;
    static TRACE: OnceLock<bool> = OnceLock::new();
    if *TRACE.get_or_init(|| std::env::var_os("CUDA_SIM_TRACE").is_some()) {
        use std::io::Write;
        drop(writeln!(std::io::stderr(), "cuda-sim: {name} = {code}"));
    }
}
