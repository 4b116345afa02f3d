//! What a kernel may touch, and how a launch can go wrong.

use thiserror::Error;

/// An access outside of every allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Illegal;

/// Device memory as a kernel sees it: little-endian values of 1, 2, 4 or 8 bytes at global addresses.
///
/// An implementation checks that the whole access lies in one allocation. Accesses are aligned: the interpreter refuses others.
pub trait Memory {
    /// Reads `size` bytes at `address`, zero-extended.
    fn load(&mut self, address: u64, size: usize) -> Result<u64, Illegal>;
    /// Writes the low `size` bytes of `value` at `address`.
    fn store(&mut self, address: u64, size: usize, value: u64) -> Result<(), Illegal>;
    /// Replaces a value and returns the old one. Memory that several launches share must make this one step.
    fn update(&mut self, address: u64, size: usize, change: &dyn Fn(u64) -> u64) -> Result<u64, Illegal> {
        let old = self.load(address, size)?;
        self.store(address, size, change(old))?;
        Ok(old)
    }
}

/// Why a launch did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// An access outside of every allocation.
    #[error("kernel {kernel} touched the illegal address {address:#x}")]
    IllegalAddress {
        /// The entry that ran.
        kernel: String,
        /// What it touched.
        address: u64,
    },
    /// An access that is not aligned to its size.
    #[error("kernel {kernel} used the misaligned address {address:#x}")]
    Misaligned {
        /// The entry that ran.
        kernel: String,
        /// What it touched.
        address: u64,
    },
    /// The instruction budget is used up, or threads wait for each other for ever.
    #[error("kernel {kernel} did not end within its budget")]
    Timeout {
        /// The entry that ran.
        kernel: String,
    },
    /// The kernel trapped.
    #[error("kernel {kernel} trapped")]
    Trap {
        /// The entry that ran.
        kernel: String,
    },
    /// A device-side assertion failed.
    #[error("an assertion failed in kernel {kernel}")]
    Assert {
        /// The entry that ran.
        kernel: String,
    },
    /// Calls are nested too deeply.
    #[error("kernel {kernel} ran out of stack")]
    Stack {
        /// The entry that ran.
        kernel: String,
    },
    /// The process that launched it has ended.
    #[error("kernel {kernel} was stopped")]
    Stopped {
        /// The entry that ran.
        kernel: String,
    },
    /// Dimensions or arguments that this entry cannot have.
    #[error("kernel {kernel} cannot be launched so: {why}")]
    Invalid {
        /// The entry that was to run.
        kernel: String,
        /// What is wrong.
        why: &'static str,
    },
}

impl Fault {
    /// The `CUresult` that the driver would give.
    pub fn code(&self) -> i32 {
        match self {
            Self::IllegalAddress { .. } => 700,
            Self::Misaligned { .. } => 716,
            Self::Timeout { .. } => 702,
            Self::Trap { .. } => 719,
            Self::Assert { .. } => 710,
            Self::Stack { .. } => 714,
            Self::Stopped { .. } => 999,
            Self::Invalid { .. } => 1,
        }
    }
}

/// Reads a little-endian value of 1, 2, 4 or 8 bytes from `bytes`, if all of it is there.
pub fn read_le(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(match size {
        1 => u64::from(bytes[0]),
        2 => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
        8 => u64::from_le_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

/// Writes the low `size` bytes of `value` into `bytes`, if there is room.
pub fn write_le(bytes: &mut [u8], at: usize, size: usize, value: u64) -> Option<()> {
    let bytes = bytes.get_mut(at..at.checked_add(size)?)?;
    let value = value.to_le_bytes();
    match size {
        1 => bytes[0] = value[0],
        2 => bytes.copy_from_slice(&value[..2]),
        4 => bytes.copy_from_slice(&value[..4]),
        8 => bytes.copy_from_slice(&value),
        _ => return None,
    }
    Some(())
}
