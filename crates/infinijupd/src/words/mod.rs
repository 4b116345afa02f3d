//! The engine's words in those of the wire, and back.
//!
//! There is nothing to decide here. Every `match` is complete, so a new state or kind in `lifecycle` does not compile until
//! it has a word on the wire.

mod asked;
mod history;
mod sessions;

pub(crate) use asked::{
    environment, gpu_wish, notes_change, policy, session_policy, signal_number, start, words,
};
pub(crate) use history::along;
pub(crate) use sessions::{happening, micros, session, timed};
