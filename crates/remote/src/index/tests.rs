//! Segments hold what was put into them, and nothing that is read is believed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cas_core::{Kind, ObjectId};
use proptest::prelude::*;

use super::entry::IndexEntry;
use super::segment::{SegmentRef, Tail, encode};
use super::{Index, ShortId, TailCache, due, merge};
use crate::bucket::{Bucket, ObjectStoreBucket, Patience};
use crate::token::Token;

fn bucket() -> Bucket {
    let objects = ObjectStoreBucket::new(Arc::new(object_store::memory::InMemory::new()), "").unwrap();
    Bucket::new(Arc::new(objects), Patience::default())
}

fn id(n: u32) -> ObjectId {
    ObjectId::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn entry(n: u32, pack: u8) -> IndexEntry {
    IndexEntry {
        id: ShortId::of(&id(n)),
        pack: Token::from_bytes([pack; 16]),
        offset: n,
        stored: n % 1000,
        kind: Kind(1),
    }
}

fn put(bucket: &Bucket, level: u32, entries: &BTreeSet<IndexEntry>) -> SegmentRef {
    let entries: Vec<_> = entries.iter().copied().collect();
    let (segment, bytes) = encode(Token::random().unwrap(), level, &entries);
    assert_eq!(bytes.len() as u64, segment.length);
    bucket.put_new(&segment.key(), &bytes).unwrap();
    segment
}

#[test]
fn everything_is_found_in_small_and_large_segments_and_after_merging() {
    let bucket = bucket();
    // One that is fetched whole, and one that is not.
    let small: BTreeSet<_> = (0..1000).map(|n| entry(n, 1)).collect();
    let large: BTreeSet<_> = (500..40_000).map(|n| entry(n, 2)).collect();
    let segments = [put(&bucket, 0, &small), put(&bucket, 0, &large)];
    let merged = merge(&bucket, &segments).unwrap();
    assert_eq!(merged.iter().map(|one| one.entries).sum::<u32>(), 1000 + 39_500);
    assert!(merged.iter().all(|one| one.level == 2));
    for segments in [&segments[..], &merged[..]] {
        let index = Index::new(&bucket, segments);
        let asked: Vec<_> = (0..40_100).step_by(7).map(id).collect();
        let found = index.find(&asked, &|_| true).unwrap();
        assert_eq!(found.len(), (0..40_000).step_by(7).count());
        // Of two copies, the one in a pack that can be used.
        let second = index.find(&[id(600)], &|pack| *pack == Token::from_bytes([2; 16])).unwrap();
        assert_eq!(second[&id(600)], entry(600, 2));
        assert!(index.find(&[id(3)], &|pack| *pack == Token::from_bytes([2; 16])).unwrap().is_empty());
        let mut all = BTreeSet::new();
        index.for_each(&mut |_, entry| _ = all.insert(*entry)).unwrap();
        assert_eq!(all, small.union(&large).copied().collect());
    }
}

#[test]
fn the_filter_is_wrong_in_few_of_a_thousand() {
    let entries: Vec<_> = (0..20_000).map(|n| entry(n, 1)).collect::<BTreeSet<_>>().into_iter().collect();
    let (segment, bytes) = encode(Token::from_bytes([0; 16]), 0, &entries);
    let tail = Tail::parse(&segment, &bytes[bytes.len() - usize::try_from(segment.tail).unwrap()..]).unwrap();
    assert!(entries.iter().all(|entry| tail.may_contain(&entry.id)));
    let wrong = (100_000..200_000).filter(|n| tail.may_contain(&ShortId::of(&id(*n)))).count();
    assert!(wrong < 100, "{wrong} of 100,000");
}

#[test]
fn what_was_asked_for_once_is_not_fetched_again_and_what_is_kept_is_not_believed() {
    let (dir, bucket) = (tempfile::tempdir().unwrap(), bucket());
    let cache = || TailCache::with_room(dir.path().join("tails"), 1 << 20);
    let small: BTreeSet<_> = (0..1000).map(|n| entry(n, 1)).collect();
    let large: BTreeSet<_> = (500..40_000).map(|n| entry(n, 2)).collect();
    let segments = [put(&bucket, 0, &small), put(&bucket, 0, &large)];
    let find = |bucket: &Bucket| Index::new(bucket, &segments).kept_in(cache()).find(&[id(3)], &|_| true);
    assert_eq!(find(&bucket).unwrap().len(), 1);
    let kept = |segment: &SegmentRef| dir.path().join("tails").join(segment.name.to_string());
    assert_eq!(std::fs::metadata(kept(&segments[0])).unwrap().len(), segments[0].length);
    // The server has nothing left, and is not needed.
    bucket.delete(&segments[0].key()).unwrap();
    assert_eq!(find(&bucket).unwrap().len(), 1);
    // One bit, and the server is asked.
    let mut bytes = std::fs::read(kept(&segments[0])).unwrap();
    bytes[100] ^= 1;
    std::fs::write(kept(&segments[0]), bytes).unwrap();
    find(&bucket).unwrap_err();
}

#[test]
fn what_is_kept_of_segments_has_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let cache = TailCache::with_room(dir.path().join("tails"), 10_000);
    for n in 0..20 {
        cache.keep(&Token::from_bytes([n; 16]), &[n; 3000]);
    }
    let files: Vec<_> = std::fs::read_dir(dir.path().join("tails")).unwrap().collect();
    assert_eq!(files.len(), 3);
    assert!(cache.read(&Token::from_bytes([19; 16]), 3000).is_some());
    assert!(cache.read(&Token::from_bytes([19; 16]), 2999).is_none());
}

#[test]
fn twelve_runs_are_merged_whatever_they_are_made_of() {
    let segment = |level, entries, first: u8, last: u8| {
        let (good, _) = encode(Token::random().unwrap(), level, &[entry(1, 1)]);
        let hex = |byte: u8| cas_core::id::hex(&[byte; 20]);
        SegmentRef { entries, first: hex(first), last: hex(last), ..good }
    };
    // Pushes of one object each have no id in common, and are too many all the same.
    let tiny: Vec<_> = (0..12).map(|n| segment(0, 1, n, n)).collect();
    assert!(due(&tiny[1..]).is_none());
    assert_eq!(due(&tiny).unwrap().len(), 12);
    // Long runs count once, however many parts they have.
    let long = |level| {
        let parts = (0..12u8).flat_map(|_| [(0, 127), (128, 255)]);
        parts.map(|(first, last)| segment(level, 300_000, first, last)).collect::<Vec<_>>()
    };
    assert!(due(&long(3)[2..]).is_none());
    assert_eq!(due(&long(3)).unwrap().len(), 24);
    // Those of the last level stay.
    assert!(due(&long(4)).is_none());
    // Of very many, some.
    let crowd: Vec<_> = (0..500).map(|_| segment(2, 160_000, 0, 255)).collect();
    assert_eq!(due(&crowd).unwrap().len(), 75);
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let (good, _) = encode(Token::from_bytes([0; 16]), 0, &[entry(1, 1)]);
    good.check().unwrap();
    for bad in [
        SegmentRef { length: u64::MAX, ..good.clone() },
        SegmentRef { tail: good.length + 1, ..good.clone() },
        SegmentRef { entries: 0, ..good.clone() },
        SegmentRef { first: "../x".to_owned(), ..good.clone() },
        SegmentRef { entries: u32::MAX, ..good },
    ] {
        bad.check().unwrap_err();
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), count in 0u32..600) {
        let _ = Tail::parse_unchecked(&bytes);
        // With a head that is right, the rest is looked at.
        let mut tail = b"IJSEG\r\n\0\x01\0\0\0".to_vec();
        tail.extend_from_slice(&count.to_le_bytes());
        let fences = (count as usize).div_ceil(224) * 36;
        tail.extend_from_slice(&u32::try_from(bytes.len().saturating_sub(fences)).unwrap().to_le_bytes());
        tail.extend_from_slice(&bytes);
        if let Ok(tail) = Tail::parse_unchecked(&tail) {
            let asked = ShortId::of(&id(1));
            tail.may_contain(&asked);
            for block in tail.blocks_of(&asked) {
                let _ = tail.block(block, &bytes);
            }
        }
    }

    #[test]
    fn what_is_in_a_segment_is_found_and_nothing_else(numbers in proptest::collection::hash_set(0u32..5000, 1..900), asked in proptest::collection::hash_set(0u32..5000, 0..200)) {
        let bucket = bucket();
        let segment = put(&bucket, 0, &numbers.iter().map(|n| entry(*n, 1)).collect());
        let index = Index::new(&bucket, &[segment]);
        let ids: Vec<_> = asked.iter().map(|n| id(*n)).collect();
        let found: HashSet<_> = index.find(&ids, &|_| true).unwrap().into_keys().collect();
        prop_assert_eq!(found, asked.intersection(&numbers).map(|n| id(*n)).collect::<HashSet<_>>());
    }
}
