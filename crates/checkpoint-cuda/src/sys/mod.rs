//! Every line of this product that talks to the driver in the driver's own language.
//!
//! `libcuda.so.1` is opened at run time, so everything builds and starts on machines without it. We declare only what we call:
//! the seven functions of the checkpoint interface, and the few that custom storage needs. NVIDIA's header is not part of this
//! repository; `tests/layout.rs` compiles it and compares it with [`layout::table`].
//!
//! Outside the worker and the helper nothing of this is ever called: a driver that crashes or hangs must not take the daemon along.

pub mod layout;

mod library;
mod namespace;
mod storage;

pub(crate) use library::{Library, LoadError};
pub(crate) use namespace::owner_of_user_namespace;
pub(crate) use storage::Moved;
