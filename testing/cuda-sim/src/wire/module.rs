//! Requests about modules and launches.
//!
//! The client reads the text as well (it is the same library), so that it knows entries, parameters and variables; it gives the
//! variables their memory by ordinary allocations before it asks for the load.
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are named for what they are; numbers are chosen by the client")]
pub enum Module {
    /// Reads the text; INVALID_PTX if it is none.
    Load(ModuleImage),
    /// Launches that are queued are still done.
    Unload { module: u64 },
    /// Queues a kernel. The arguments are laid out as the entry's parameters.
    Launch {
        module: u64,
        entry: String,
        stream: u64,
        blocks: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        arguments: Vec<u8>,
    },
}

/// All there is to a module, for the load and for an image of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleImage {
    /// The client's number.
    pub module: u64,
    /// The context it belongs to.
    pub context: u64,
    /// PTX.
    pub text: String,
    /// Addresses of its variables, in the text's order.
    pub globals: Vec<u64>,
}
