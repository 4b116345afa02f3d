//! Exported functions of the management library: what clients such as `nvidia-ml-py`, `gpustat` and `nvml-wrapper` ask for.
//!
//! All other names of `nvml.h` are in [`stubs`] and answer NOT_SUPPORTED, as a real driver does for what a board has not got.
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::trace;
use crate::nvml::{Result, Status};
use crate::wire::Card;

mod device;
mod instances;
mod layout;
mod links;
mod processes;
mod stubs;
mod system;
mod types;

pub(crate) use layout::layouts;

/// `nvmlDevice_t`: a number of ours, never followed.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Handle(u64);

impl Handle {
    fn of(device: crate::nvml::Device) -> Self {
        Self(device.handle())
    }

    fn device(self) -> Result<(crate::nvml::Device, Card)> {
        crate::nvml::device(self.0)
    }

    fn card(self) -> Result<Card> {
        self.device().map(|(_, card)| card)
    }
}

/// Exports functions that answer an `nvmlReturn_t`.
macro_rules! manage {
    ($( fn $name:ident($($arg:ident : $type:ty),* $(,)?) $body:block )*) => {
        $(
            // SAFETY: the name is one of the public management interface, which nothing else in our programs defines.
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($arg: $type),*) -> i32 {
                $crate::abi::nvml::answer(stringify!($name), move || $body)
            }
        )*
    };
}
use manage;

/// Exports functions that answer NOT_SUPPORTED whatever their arguments are, which they do not look at.
macro_rules! manage_nothing {
    ($($name:ident)*) => { $crate::abi::nvml::manage! { $(fn $name() { Err($crate::nvml::Status::NOT_SUPPORTED) })* } };
}
use manage_nothing;

/// Runs the body of an exported function: no panic may cross into C.
fn answer(name: &str, body: impl FnOnce() -> Result<()>) -> i32 {
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status.0,
        Err(_) => Status::UNKNOWN.0,
    };
    trace(name, code);
    code
}

/// A text in the caller's buffer; one that does not fit is refused, not cut.
fn put_text(out: super::Out<c_char>, room: u32, text: &str) -> Result<()> {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if text.len() >= room {
        return Err(Status::INSUFFICIENT_SIZE);
    }
    Ok(out.put_text(text, room)?)
}

/// `NVML_STRUCT_VERSION`: size and version in one number, which the caller must have put in.
fn check_version<T>(given: u32, version: u32) -> Result<()> {
    let size = u32::try_from(size_of::<T>()).map_err(|_| Status::UNKNOWN)?;
    if given == size | version << 24 { Ok(()) } else { Err(Status::ARGUMENT_VERSION_MISMATCH) }
}
