//! Requests about the checkpoint calls and faults.
//!
//! Whoever makes a checkpoint call asks [`Checkpoint::Begin`] first. The rest is said by the helper thread of the process
//! that is being checkpointed.
use serde::{Deserialize, Serialize};

use crate::checkpoint::state::State;
use crate::code::Code;
use crate::faults::{Question, Verdict};
use crate::level::Level;

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// A caller begins a call. Answered when it may go on: [`Begun`].
    Begin(Question),
    /// A helper asks whether something goes wrong here. Answered when it may go on: a [`Verdict`].
    Fault(Question),
    /// The state of this process now.
    Note {
        /// It.
        state: State,
    },
    /// Answer: the bytes of each piece of device memory, and an address it is known by, as [`Piece`]s.
    Measure,
    /// Writes each piece to an address of the process and lets everything go. Answer: an [`Image`].
    Save {
        /// One address a piece, in their order.
        to: Vec<u64>,
    },
    /// Opens all device memory for a caller to copy. Answer: an [`Image`] and a [`crate::checkpoint::message::Parked`].
    Park,
    /// Makes everything again. Answer: with custom storage a [`crate::checkpoint::message::Parked`].
    Load {
        /// What [`Checkpoint::Save`] answered.
        image: Box<Image>,
        /// Where the pieces are now, in their order; `None`: a caller will bring the bytes.
        from: Option<Vec<u64>>,
        /// Old and new GPU, by index.
        gpus: Vec<(u32, u32)>,
    },
    /// The caller has copied: what it was shown goes, and so does the memory, unless it came `back`.
    Settle {
        /// Which operation.
        token: u64,
        /// Does the memory come back from the caller?
        back: bool,
    },
}

/// What a caller learns before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The driver that the server plays.
    pub level: Level,
    /// What goes wrong.
    pub verdict: Verdict,
    /// Whether the state of processes without CUDA is answered as well.
    pub lies: bool,
}

/// A piece of device memory to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// An address, or a handle, that it keeps while it lives.
    pub name: u64,
    /// The GPU, by index.
    pub gpu: u32,
    /// Its length.
    pub bytes: u64,
}

/// All that the server knows of a process, but the bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// The pieces of device memory.
    pub pieces: Vec<Piece>,
    /// Number, GPU and error of each context.
    pub contexts: Vec<(u64, u32, Option<Code>)>,
    /// Number, context, flags and priority of each stream.
    pub streams: Vec<(u64, u64, u32, i32)>,
    /// Events.
    pub events: Vec<EventImage>,
    /// Handle and piece of physical memory.
    pub handles: Vec<(u64, usize)>,
    /// Ranges of device addresses.
    pub maps: Vec<MapImage>,
    /// Address and length of host memory that kernels may touch.
    pub host: Vec<(u64, u64)>,
    /// Modules.
    pub modules: Vec<super::ModuleImage>,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventImage {
    /// Its number.
    pub event: u64,
    /// As `cuEventCreate`.
    pub flags: u32,
    /// The microseconds since it happened, if it was recorded.
    pub ago: Option<u64>,
}

/// A range of device addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapImage {
    /// Where.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// The piece it shows.
    pub piece: usize,
    /// From where on.
    pub offset: u64,
    /// The context of a plain allocation.
    pub context: Option<u64>,
}
