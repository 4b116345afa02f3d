//! The control block: what a CUDA process shows to a caller from outside.
//!
//! It lies at a fixed address, inside the kind of reservation that real CUDA processes have, so that a caller needs no
//! search: it reads these bytes with `process_vm_readv` and knows whether the process uses CUDA, which thread serves
//! it, and by which of its own descriptors to reach that thread. The block is ordinary private memory. CRIU saves it
//! and brings it back, and everything in it stays true, because CRIU also keeps thread ids and descriptor numbers.
//!
//! A forked child has a copy of its parent's block and of its pipes, but not the thread. The block therefore says whose
//! it is, by the process id in the owner's own pid namespace: the only id that is the same before a dump and after a
//! restore.

/// Where the reservation begins.
pub const RESERVATION: usize = 0x2_0000_0000;
/// Its length.
pub const RESERVATION_LEN: usize = 0x80_0000;
/// Where the block lies.
pub const ADDRESS: usize = 0x2_0020_0000;
/// The bytes of it that callers read.
pub const LEN: usize = 64;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"CUDASIM\x01");

/// Offsets of the words, in bytes. The magic word is written last: before that there is no block.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const OWNER: usize = 8;
    pub(crate) const HELPER: usize = 12;
    pub(crate) const STATE: usize = 16;
    pub(crate) const REQUEST_READ: usize = 20;
    pub(crate) const REQUEST_WRITE: usize = 24;
    pub(crate) const REPLY_READ: usize = 28;
    pub(crate) const REPLY_WRITE: usize = 32;
    /// Id of the request that the helper is working on; 0 is none.
    pub(crate) const BUSY: usize = 40;
    /// Id of a Lock whose caller has given up. Written by callers.
    pub(crate) const CANCELLED: usize = 48;
}

/// A control block as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Process id of the owner in its own namespace.
    pub owner: i32,
    /// Thread that carries out requests, in the same namespace.
    pub helper: i32,
    /// Number of the last state.
    pub state: u32,
    /// Descriptors of the owner: the request pipe's ends, then the reply pipe's.
    pub pipes: [i32; 4],
    /// Request that is being worked on.
    pub busy: u64,
}

impl Block {
    /// Reads a block; `None` if these bytes are none.
    #[must_use]
    pub fn parse(bytes: &[u8; LEN]) -> Option<Self> {
        let signed = |offset: usize| word(bytes, offset).map(i32::from_le_bytes);
        if word(bytes, at::MAGIC).map(u64::from_le_bytes)? != MAGIC {
            return None;
        }
        let block = Self {
            owner: signed(at::OWNER)?,
            helper: signed(at::HELPER)?,
            state: word(bytes, at::STATE).map(u32::from_le_bytes)?,
            pipes: [
                signed(at::REQUEST_READ)?,
                signed(at::REQUEST_WRITE)?,
                signed(at::REPLY_READ)?,
                signed(at::REPLY_WRITE)?,
            ],
            busy: word(bytes, at::BUSY).map(u64::from_le_bytes)?,
        };
        let sane = block.owner > 0 && block.helper > 0 && block.pipes.iter().all(|fd| *fd >= 0);
        sane.then_some(block)
    }

    /// The bytes of a block.
    #[must_use]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let mut put = |offset: usize, word: &[u8]| {
            if let Some(place) = bytes.get_mut(offset..offset + word.len()) {
                place.copy_from_slice(word);
            }
        };
        put(at::MAGIC, &MAGIC.to_le_bytes());
        put(at::OWNER, &self.owner.to_le_bytes());
        put(at::HELPER, &self.helper.to_le_bytes());
        put(at::STATE, &self.state.to_le_bytes());
        for (offset, fd) in
            [at::REQUEST_READ, at::REQUEST_WRITE, at::REPLY_READ, at::REPLY_WRITE].iter().zip(self.pipes)
        {
            put(*offset, &fd.to_le_bytes());
        }
        put(at::BUSY, &self.busy.to_le_bytes());
        bytes
    }
}

fn word<const N: usize>(bytes: &[u8; LEN], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::array::uniform32(any::<u8>()), magic in any::<bool>()) {
            let mut whole = [0; LEN];
            whole[..32].copy_from_slice(&bytes);
            if magic {
                whole[..8].copy_from_slice(&MAGIC.to_le_bytes());
            }
            let _ = Block::parse(&whole);
        }

        #[test]
        fn what_is_written_is_read(owner in 1..i32::MAX, helper in 1..i32::MAX, state in 0..6_u32, fd in 0..1000, busy in any::<u64>()) {
            let block = Block { owner, helper, state, pipes: [fd, fd + 1, fd + 2, fd + 3], busy };
            prop_assert_eq!(Block::parse(&block.bytes()), Some(block));
        }
    }

    #[test]
    fn memory_of_another_program_is_no_block() {
        assert_eq!(Block::parse(&[0; LEN]), None);
        assert_eq!(Block::parse(&[0xff; LEN]), None);
    }
}
