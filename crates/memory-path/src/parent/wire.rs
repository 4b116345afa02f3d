//! The form of CRIU's images, as far as lists of pages go: two magic numbers, then entries of a length and a message.

use prost::Message;

use super::doubt::Doubt;

const COMMON: u32 = 0x5456_4319;
const PAGEMAP: u32 = 0x5608_4025;
const INVENTORY: u32 = 0x5831_3116;

/// In the parent's images.
const PARENT: u32 = 1 << 0;
/// May be fetched later by a restore that is asked to. It is marked whether or not one will be.
const LAZY: u32 = 1 << 1;
/// In the pages file.
const PRESENT: u32 = 1 << 2;
const PRESENT_AND_LAZY: u32 = PRESENT | LAZY;

/// The first entry of a list of pages.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Head {
    /// The number in the name of the file with the pages.
    #[prost(uint32, required, tag = "1")]
    pub(super) pages_id: u32,
}

/// The others: pages that lie one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Entry {
    #[prost(uint64, required, tag = "1")]
    pub(super) address: u64,
    /// How many, for old readers; they cannot count further than this has bits.
    #[prost(uint32, required, tag = "2")]
    old_count: u32,
    #[prost(uint32, optional, tag = "4")]
    flags: Option<u32>,
    #[prost(uint64, optional, tag = "5")]
    count: Option<u64>,
}

/// Where CRIU says that pages are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the file beside the list.
    Written,
    /// In the parent.
    Parent,
}

impl Entry {
    pub(super) fn written(address: u64, count: u64) -> Self {
        let old_count = u32::try_from(count).unwrap_or(i32::MAX.cast_unsigned());
        Self { address, old_count, flags: Some(PRESENT), count: Some(count) }
    }

    pub(super) fn pages(&self) -> u64 {
        self.count.unwrap_or(u64::from(self.old_count))
    }

    /// `None` for what this was not written for: lists of old versions, pages that are nowhere yet.
    pub(super) fn place(&self) -> Option<Place> {
        match self.flags? {
            PRESENT | PRESENT_AND_LAZY => Some(Place::Written),
            PARENT => Some(Place::Parent),
            _ => None,
        }
    }
}

/// What CRIU wants to know about a parent as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Inventory {
    #[prost(uint32, required, tag = "1")]
    version: u32,
    #[prost(uint64, optional, tag = "8")]
    uptime: Option<u64>,
}

/// An `inventory.img`, made so late after the start of the machine that no process can be taken for another that had its number.
pub(super) fn inventory() -> Vec<u8> {
    let message = Inventory { version: 2, uptime: Some(1 << 60) };
    image(&[INVENTORY], [message.encode_to_vec()])
}

/// A list of pages.
pub(super) fn pagemap(head: Head, entries: &[Entry]) -> Vec<u8> {
    let messages = entries.iter().map(Message::encode_to_vec);
    image(&[COMMON, PAGEMAP], std::iter::once(head.encode_to_vec()).chain(messages))
}

fn image(magic: &[u32], messages: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes: Vec<u8> = magic.iter().flat_map(|word| word.to_le_bytes()).collect();
    for message in messages {
        // They have a few dozen bytes each.
        bytes.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

/// Reads a list of pages.
pub(super) fn read_pagemap(path: &std::path::Path, bytes: &[u8]) -> Result<(Head, Vec<Entry>), Doubt> {
    let wrong = |detail: String| Doubt::Image { path: path.to_owned(), detail };
    let mut rest = bytes;
    let mut word = || -> Result<u32, Doubt> {
        let (word, others) =
            rest.split_first_chunk::<4>().ok_or_else(|| wrong("it is cut off".to_owned()))?;
        rest = others;
        Ok(u32::from_le_bytes(*word))
    };
    if (word()?, word()?) != (COMMON, PAGEMAP) {
        return Err(wrong("it begins otherwise".to_owned()));
    }
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let cut_off = || wrong("an entry is cut off".to_owned());
        let (length, others) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut_off())?;
        let (message, others) = others.split_at_checked(length).ok_or_else(cut_off)?;
        messages.push(message);
        rest = others;
    }
    let undecodable = |error: prost::DecodeError| wrong(error.to_string());
    let (head, entries) = messages.split_first().ok_or_else(|| wrong("it is empty".to_owned()))?;
    let entries: Result<Vec<Entry>, _> = entries.iter().map(|message| Entry::decode(*message)).collect();
    Ok((Head::decode(*head).map_err(undecodable)?, entries.map_err(undecodable)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_that_could_be_fetched_later_are_in_the_file_all_the_same() {
        let with = |flags| Entry { flags: Some(flags), ..Entry::written(0x1000, 1) }.place();
        assert_eq!(with(PRESENT), Some(Place::Written));
        assert_eq!(with(PRESENT_AND_LAZY), Some(Place::Written));
        assert_eq!(with(PARENT), Some(Place::Parent));
        for odd in [0, LAZY, PARENT | PRESENT, PARENT | LAZY, 8] {
            assert_eq!(with(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn a_list_comes_back_as_it_went(
            pages_id in any::<u32>(),
            entries in proptest::collection::vec((any::<u64>(), 0_u64..u64::MAX), 0..40),
        ) {
            let entries: Vec<Entry> =
                entries.into_iter().map(|(address, count)| Entry::written(address, count)).collect();
            let read = read_pagemap(Path::new("x"), &pagemap(Head { pages_id }, &entries)).unwrap();
            prop_assert!(read.1.iter().all(|entry| entry.place() == Some(Place::Written)));
            prop_assert_eq!(read, (Head { pages_id }, entries));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_pagemap(Path::new("x"), &bytes);
            let _ = read_pagemap(Path::new("x"), &image(&[COMMON, PAGEMAP], [bytes]));
        }
    }
}
