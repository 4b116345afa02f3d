//! The engine's words in those of the wire, and back.
//!
//! There is nothing to decide here. Every `match` is complete, so a new state or kind in `lifecycle` does not compile until
//! it has a word on the wire.

mod asked;
mod history;
mod sessions;

pub(crate) use asked::{gpu_wish, policy, words};
pub(crate) use history::along;
pub(crate) use sessions::{happening, micros, timed};
