//! How much of an archive is taken.

/// Bytes that may come out of any archive, however small it is.
const ALWAYS: u64 = 1 << 30;
/// How many times its own length may come out beyond that. Memory of programs compresses to a third or a tenth.
const TIMES: u64 = 200;

/// Bounds of everything that an archive decides. The defaults are far above what engines write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Plain bytes of everything in it; `None` allows 1 GiB and 200 times what was read.
    pub bytes: Option<u64>,
    /// Members.
    pub members: u64,
    /// Entries of all tar files within.
    pub entries: u64,
    /// Bytes of a path, and of a target of a link.
    pub path: usize,
    /// Parts of a path.
    pub depth: usize,
    /// Bytes of a JSON member.
    pub json: u64,
    /// Bytes of a log.
    pub log: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: None,
            members: 100_000,
            entries: 2_000_000,
            path: 4096,
            depth: 256,
            json: 16 << 20,
            log: 1 << 30,
        }
    }
}

impl Limits {
    /// Plain bytes that may have come out after so many were read.
    pub(crate) fn allowed(&self, read: u64) -> u64 {
        self.bytes.unwrap_or_else(|| ALWAYS.saturating_add(read.saturating_mul(TIMES)))
    }
}
