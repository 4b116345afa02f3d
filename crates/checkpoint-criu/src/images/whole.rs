//! A pagemap whose pages are all its own.
//!
//! A dump may leave pages out because the images of a parent have them ([`super::PagemapEntry::in_parent`]). When those pages are
//! put back among the others, in their order, the pagemap has to say so. The change is made on wire level, for the reason that
//! `rewrite.rs` gives.

use std::path::Path;

use super::entries::{Entries, magic};
use super::fields::{fields, put_number};
use super::memory::PE_PRESENT;
use crate::error::{CriuError, Result};

/// Entries that say "in the parent" by flags, or as old versions did.
const ENTRY_OLD_IN_PARENT: u64 = 3;
const ENTRY_FLAGS: u64 = 4;

/// The pagemap `image` with all its pages in the pages file; `path` is only for messages.
pub fn whole_pagemap(path: &Path, image: &[u8]) -> Result<Vec<u8>> {
    let mut entries = Entries::new(path, image, magic::PAGEMAP)?;
    let mut fresh = entries.head(image).to_vec();
    let mut is_head = true;
    while let Some(entry) = entries.next_bytes()? {
        let own = if is_head { None } else { own_pages(path, entry)? };
        is_head = false;
        let entry = own.as_deref().unwrap_or(entry);
        let size = u32::try_from(entry.len()).map_err(|_| CriuError::image(path, "an entry is too long"))?;
        fresh.extend(size.to_le_bytes());
        fresh.extend(entry);
    }
    Ok(fresh)
}

/// The entry with its pages in the pages file, if they were in the parent.
fn own_pages(path: &Path, entry: &[u8]) -> Result<Option<Vec<u8>>> {
    let parsed: super::PagemapEntry = prost::Message::decode(entry)
        .map_err(|error| CriuError::image(path, format!("cannot be decoded: {error}")))?;
    if !parsed.in_parent() {
        return Ok(None);
    }
    let fields = fields(entry).ok_or_else(|| CriuError::image(path, "has an entry that is no message"))?;
    let mut present = Vec::new();
    put_number(&mut present, ENTRY_FLAGS << 3);
    put_number(&mut present, PE_PRESENT.into());
    let mut fresh = Vec::new();
    let mut said = false;
    for field in &fields {
        match field.number {
            ENTRY_OLD_IN_PARENT => {}
            ENTRY_FLAGS if said => {}
            ENTRY_FLAGS => {
                fresh.extend(&present);
                said = true;
            }
            _ => fresh.extend(field.raw),
        }
    }
    if !said {
        fresh.extend(&present);
    }
    Ok(Some(fresh))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::super::entries::{image_of, pagemap};
    use super::super::fields::put_bytes;
    use super::super::{Pagemap, PagemapEntry, PagemapHead};
    use super::*;

    /// An image of these entries, each with a field that nobody knows.
    fn image(entries: &[PagemapEntry]) -> Vec<u8> {
        let mut messages = vec![PagemapHead { pages_id: 7 }.encode_to_vec()];
        messages.extend(entries.iter().map(|entry| {
            let mut message = entry.encode_to_vec();
            put_bytes(&mut message, 99, b"unknown");
            message
        }));
        image_of(magic::PAGEMAP, &messages)
    }

    fn run(vaddr: u64, flags: Option<u32>, old_in_parent: Option<bool>) -> PagemapEntry {
        PagemapEntry { vaddr, compat_nr_pages: 3, flags, old_in_parent, nr_pages: Some(3) }
    }

    fn whole(entries: &[PagemapEntry]) -> Pagemap {
        let fresh = whole_pagemap(Path::new("x"), &image(entries)).unwrap();
        assert_eq!(fresh.windows(7).filter(|bytes| bytes == b"unknown").count(), entries.len());
        pagemap(Path::new("x"), &fresh).unwrap()
    }

    #[test]
    fn pages_of_the_parent_become_its_own() {
        let entries = [
            run(0x1000, Some(1), None),
            run(0x8000, Some(6), None),
            run(0xf000, None, Some(true)),
            run(0x2_0000, None, None),
        ];
        let expected = vec![run(0x1000, Some(4), None), entries[1], run(0xf000, Some(4), None), entries[3]];
        assert_eq!(whole(&entries), Pagemap { pages_id: 7, entries: expected });
    }

    proptest! {
        #[test]
        fn a_pagemap_without_a_parent_stays_as_it_is(
            runs in proptest::collection::vec((any::<u64>(), 0_u32..8), 0..20),
        ) {
            let entries: Vec<PagemapEntry> =
                runs.into_iter().map(|(vaddr, flags)| run(vaddr, Some(flags & !1), None)).collect();
            prop_assert_eq!(whole_pagemap(Path::new("x"), &image(&entries)).unwrap(), image(&entries));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let head = PagemapHead { pages_id: 7 }.encode_to_vec();
            let _ = whole_pagemap(Path::new("x"), &image_of(magic::PAGEMAP, &[head, bytes.clone()]));
            let _ = whole_pagemap(Path::new("x"), &bytes);
        }
    }
}
