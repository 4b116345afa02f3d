//! Device addresses: parts of ranges that are reserved in the process and cannot be touched by the CPU.
use std::collections::BTreeMap;

use crate::abi::sys::reserve::reserve;
use crate::code::{Code, Result};

/// Small allocations are aligned to this, as the driver's are.
const SMALL: u64 = 512;
/// And large ones to this: the driver's large pages.
pub const LARGE: u64 = 2 << 20;
/// What is reserved at a time, at least.
const CHUNK: u64 = 1 << 30;

/// The free parts of what is reserved, by address.
#[derive(Debug, Default)]
pub struct Addresses {
    free: BTreeMap<u64, u64>,
}

impl Addresses {
    /// An unused range of at least that many bytes, and its real length.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub fn take(&mut self, bytes: u64) -> Result<(u64, u64)> {
        let align = if bytes >= LARGE { LARGE } else { SMALL };
        let room = bytes.max(1).checked_next_multiple_of(align).ok_or(Code::OUT_OF_MEMORY)?;
        if let Some(address) = self.first_fit(room, align) {
            return Ok((address, room));
        }
        let chunk = room.max(CHUNK);
        let start = reserve(chunk, LARGE)?;
        self.give_back(start, chunk);
        self.first_fit(room, align).map(|address| (address, room)).ok_or(Code::OUT_OF_MEMORY)
    }

    /// A range is unused again.
    pub fn give_back(&mut self, address: u64, room: u64) {
        let (mut start, mut length) = (address, room);
        if let Some((before, before_length)) =
            self.free.range(..address).next_back().map(|(start, length)| (*start, *length))
            && before + before_length == address
        {
            self.free.remove(&before);
            start = before;
            length += before_length;
        }
        if let Some(after) = self.free.remove(&(address + room)) {
            length += after;
        }
        self.free.insert(start, length);
    }

    fn first_fit(&mut self, room: u64, align: u64) -> Option<u64> {
        let (start, length, address) = self.free.iter().find_map(|(start, length)| {
            let address = start.next_multiple_of(align);
            (address + room <= start + length).then_some((*start, *length, address))
        })?;
        self.free.remove(&start);
        if address > start {
            self.free.insert(start, address - start);
        }
        if address + room < start + length {
            self.free.insert(address + room, start + length - address - room);
        }
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_apart_and_come_back() {
        let mut addresses = Addresses::default();
        let (small, room) = addresses.take(5).unwrap();
        assert_eq!((small % SMALL, room), (0, SMALL));
        let (large, large_room) = addresses.take(LARGE + 1).unwrap();
        assert_eq!((large % LARGE, large_room), (0, 2 * LARGE));
        assert!(large >= small + SMALL || large + large_room <= small);
        let (next, _) = addresses.take(512).unwrap();
        assert_eq!(next, small + SMALL);
        addresses.give_back(small, SMALL);
        addresses.give_back(large, large_room);
        addresses.give_back(next, SMALL);
        assert_eq!(addresses.free.len(), 1);
        assert_eq!(addresses.take(1).unwrap().0, small);
    }
}
