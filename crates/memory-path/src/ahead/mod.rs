//! Copying ahead: most of the memory while the tree runs, the rest while it is frozen.

mod copy;
mod rounds;
mod sample;
mod sink;

pub use rounds::{Ahead, Process, Rest, Round, Settled, Until};
pub use sample::{Clean, Sample, Verdict};
pub use sink::PageSink;
