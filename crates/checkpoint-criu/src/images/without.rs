//! Taking pages out of a pagemap.
//!
//! A restore can do without pages that somebody else puts into the processes afterwards. To CRIU they must never have been there: no
//! entry of the pagemap may name them, and the pages file must not have them. Entries that stay as they are keep every byte that CRIU
//! wrote; of one that is cut, the first address and the number of pages change.

use std::ops::Range;
use std::path::Path;

use super::PagemapEntry;
use super::entries::{Entries, magic, put_entry};
use super::fields::{fields, put_number};
use crate::error::{CriuError, Result};

const PAGE: u64 = 4096;

const ENTRY_VADDR: u64 = 1;
const ENTRY_OLD_PAGES: u64 = 2;
const ENTRY_PAGES: u64 = 5;

/// The pagemap `image` without the pages in `gone`, which are whole pages, sorted and apart; `path` is only for messages.
pub fn pagemap_without(path: &Path, image: &[u8], gone: &[Range<u64>]) -> Result<Vec<u8>> {
    let mut entries = Entries::new(path, image, magic::PAGEMAP)?;
    let mut fresh = entries.head(image).to_vec();
    let mut is_head = true;
    while let Some(entry) = entries.next_bytes()? {
        if is_head {
            is_head = false;
            put_entry(path, &mut fresh, entry)?;
            continue;
        }
        let parsed: PagemapEntry = prost::Message::decode(entry)
            .map_err(|error| CriuError::image(path, format!("cannot be decoded: {error}")))?;
        let whole = pages_of(&parsed).ok_or_else(|| CriuError::image(path, "has a page at no address"))?;
        let left = without(&whole, gone);
        if left.as_slice() == std::slice::from_ref(&whole) {
            put_entry(path, &mut fresh, entry)?;
            continue;
        }
        for part in left {
            put_entry(path, &mut fresh, &cut(path, entry, &parsed, &part)?)?;
        }
    }
    Ok(fresh)
}

fn pages_of(entry: &PagemapEntry) -> Option<Range<u64>> {
    let end = entry.vaddr.checked_add(entry.pages().checked_mul(PAGE)?)?;
    Some(entry.vaddr..end)
}

/// What of `whole` is not in `gone`.
fn without(whole: &Range<u64>, gone: &[Range<u64>]) -> Vec<Range<u64>> {
    if whole.is_empty() {
        return vec![whole.clone()];
    }
    let mut left = Vec::new();
    let mut start = whole.start;
    let first = gone.partition_point(|range| range.end <= whole.start);
    for range in gone.iter().skip(first).take_while(|range| range.start < whole.end) {
        if start < range.start {
            left.push(start..range.start);
        }
        start = start.max(range.end);
    }
    if start < whole.end {
        left.push(start..whole.end);
    }
    left
}

/// The entry for a part of its pages.
fn cut(path: &Path, entry: &[u8], parsed: &PagemapEntry, part: &Range<u64>) -> Result<Vec<u8>> {
    let fields = fields(entry).ok_or_else(|| CriuError::image(path, "has an entry that is no message"))?;
    let pages = (part.end - part.start) / PAGE;
    let mut fresh = Vec::new();
    let mut number = |field: u64, value: u64| {
        put_number(&mut fresh, field << 3);
        put_number(&mut fresh, value);
    };
    number(ENTRY_VADDR, part.start);
    // As CRIU does: the old field is zero where the new one has the number.
    let old = if parsed.nr_pages.is_some() { 0 } else { pages };
    number(ENTRY_OLD_PAGES, old);
    if parsed.nr_pages.is_some() {
        number(ENTRY_PAGES, pages);
    }
    for field in &fields {
        if ![ENTRY_VADDR, ENTRY_OLD_PAGES, ENTRY_PAGES].contains(&field.number) {
            fresh.extend(field.raw);
        }
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use prost::Message;

    use super::super::entries::{image_of, pagemap};
    use super::super::fields::put_bytes;
    use super::super::{PagemapEntry, PagemapHead};
    use super::*;

    /// An image of runs of pages, each with a field that nobody knows.
    fn image(runs: &[(u64, u64, bool)]) -> Vec<u8> {
        let mut messages = vec![PagemapHead { pages_id: 7 }.encode_to_vec()];
        messages.extend(runs.iter().map(|(first, pages, old)| {
            let entry = PagemapEntry {
                vaddr: first * PAGE,
                compat_nr_pages: if *old { u32::try_from(*pages).unwrap() } else { 0 },
                flags: Some(4),
                nr_pages: (!old).then_some(*pages),
                ..PagemapEntry::default()
            };
            let mut message = entry.encode_to_vec();
            put_bytes(&mut message, 99, b"unknown");
            message
        }));
        image_of(magic::PAGEMAP, &messages)
    }

    /// The pages that an image lists, in its order.
    fn pages(image: &[u8]) -> Vec<u64> {
        let pagemap = pagemap(Path::new("x"), image).unwrap();
        assert_eq!(pagemap.pages_id, 7);
        let addresses = |entry: &PagemapEntry| {
            assert_eq!(entry.flags, Some(4));
            let first = entry.vaddr / PAGE;
            first..first + entry.pages()
        };
        pagemap.entries.iter().flat_map(addresses).collect()
    }

    fn without_one(image: &[u8], gone: Range<u64>) -> Vec<u8> {
        pagemap_without(Path::new("x"), image, std::slice::from_ref(&gone)).unwrap()
    }

    #[test]
    fn what_is_not_touched_keeps_every_byte() {
        let all = image(&[(1, 3, false), (10, 5, true), (20, 1, false)]);
        assert_eq!(pagemap_without(Path::new("x"), &all, &[]).unwrap(), all);
        assert_eq!(
            pagemap_without(Path::new("x"), &all, &[4 * PAGE..10 * PAGE, 21 * PAGE..90 * PAGE]).unwrap(),
            all
        );
        let gone = without_one(&all, 10 * PAGE..15 * PAGE);
        assert_eq!(gone, image(&[(1, 3, false), (20, 1, false)]));
        let none = without_one(&all, 0..30 * PAGE);
        assert_eq!(none, image(&[]));
    }

    proptest! {
        #[test]
        fn exactly_the_pages_that_are_gone_are_missing(
            runs in proptest::collection::vec((1_u64..9, 1_u64..9, any::<bool>()), 0..12),
            cuts in proptest::collection::btree_set(0_u64..120, 0..12),
        ) {
            let mut first = 0;
            let runs: Vec<(u64, u64, bool)> = runs.into_iter().map(|(gap, pages, old)| {
                let start = first + gap;
                first = start + pages;
                (start, pages, old)
            }).collect();
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let gone: Vec<Range<u64>> = cuts.chunks_exact(2).map(|cut| cut[0] * PAGE..cut[1] * PAGE).collect();
            let taken: BTreeSet<u64> = gone.iter().flat_map(|range| range.start / PAGE..range.end / PAGE).collect();
            let fresh = pagemap_without(Path::new("x"), &image(&runs), &gone).unwrap();
            let expected: Vec<u64> =
                pages(&image(&runs)).into_iter().filter(|page| !taken.contains(page)).collect();
            prop_assert_eq!(pages(&fresh), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let head = PagemapHead { pages_id: 7 }.encode_to_vec();
            let gone = [PAGE..4 * PAGE, 6 * PAGE..7 * PAGE];
            let _ = pagemap_without(Path::new("x"), &image_of(magic::PAGEMAP, &[head, bytes.clone()]), &gone);
            let _ = pagemap_without(Path::new("x"), &bytes, &gone);
        }
    }
}
