//! The engine's words in those of the wire, and back.
//!
//! There is nothing to decide here. Every `match` is complete, so a new state or kind in `lifecycle` does not compile until
//! it has a word on the wire.

mod history;
mod sessions;

pub(crate) use history::{commit, diff};
pub(crate) use sessions::{environment, gpu_wish, happening, micros, policy, session, timed, words};
