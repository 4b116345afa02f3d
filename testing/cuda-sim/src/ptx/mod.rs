//! An interpreter for PTX, NVIDIA's virtual instruction set, so that kernels do visible work without a GPU.
//!
//! It follows NVIDIA's public document "Parallel Thread Execution ISA". What NVRTC emits for element-wise kernels, reductions and
//! matrix products is there: integer and floating-point arithmetic, conversions, predicates, branches and loops, calls, vectors,
//! atomics, shared and local memory, barriers, shuffles and votes. Tensor cores, textures, asynchronous copies, clusters and
//! indirect calls are not: a module that uses them is refused when it is loaded, and the refusal names the opcode.
//!
//! The text is read once ([`Module::parse`]): names become slots of a flat register file, opcodes become function pointers
//! (`op.rs`, `decode.rs`). Loops run over that (`thread.rs`), blocks and barriers over those (`launch.rs`). Device memory is a
//! trait, so that nothing here knows where the bytes are.

use std::collections::BTreeMap;

use thiserror::Error;

mod build;
mod convert;
mod decode;
mod float;
mod int;
mod launch;
mod lex;
mod memory;
mod moves;
mod op;
mod operand;
mod parse;
mod select;
mod sites;
#[cfg(test)]
mod tests;
mod thread;
mod variables;

pub use launch::Launch;
pub use memory::{Fault, Illegal, Memory, read_le, write_le};
pub use op::Global;

/// Text that this interpreter does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct PtxError {
    /// The line, from 1; 0 if it concerns the whole module.
    pub line: u32,
    /// What is wrong there; names the opcode.
    pub what: String,
}

impl PtxError {
    fn new(line: u32, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// A module, ready to run.
#[derive(Debug)]
pub struct Module {
    functions: Vec<op::Function>,
    globals: Vec<Global>,
    entries: BTreeMap<String, u32>,
    /// Where dynamic shared memory starts.
    dynamic: u32,
}

/// What a driver tells about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFacts {
    /// Registers declared, which is more than a compiler would need; at most 255.
    pub registers: u32,
    /// Static shared bytes.
    pub shared_bytes: u32,
    /// Bytes of local memory a thread.
    pub local_bytes: u32,
    /// The most threads that a block may have.
    pub most_threads: u32,
}

impl Module {
    /// Reads PTX text.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        parse::parse(text)
    }

    /// The entries by name.
    pub fn entries(&self) -> &BTreeMap<String, u32> {
        &self.entries
    }

    /// The module's variables, in order.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// (offset, size) of each parameter of an entry.
    pub fn parameters(&self, entry: u32) -> Vec<(usize, usize)> {
        let function = self.functions.get(entry as usize);
        function.map_or_else(Vec::new, |function| {
            function.parameters.iter().map(|var| (var.offset as usize, var.size as usize)).collect()
        })
    }

    /// Bytes that a launch of this entry needs as arguments.
    pub fn parameter_bytes(&self, entry: u32) -> usize {
        self.parameters(entry).last().map_or(0, |(offset, size)| offset + size)
    }

    /// What a driver tells about an entry.
    pub fn facts(&self, entry: u32) -> Option<EntryFacts> {
        let function = self.functions.get(entry as usize).filter(|function| function.entry)?;
        Some(EntryFacts {
            registers: function.registers.clamp(16, 255),
            shared_bytes: function.shared,
            local_bytes: function.local,
            most_threads: function.most_threads.unwrap_or(1024).min(1024),
        })
    }
}
