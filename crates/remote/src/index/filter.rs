//! A Bloom filter over ids, which are hashes already: their own bytes choose the bits.

use super::entry::ShortId;

/// Bits for each entry, and bits that each sets: 5 of 10,000 absent ids look present. An id is looked for in some 40 segments at 10^8 objects,
/// and all of them together may be wrong in 2 of 100.
const BITS: usize = 16;
const PROBES: u64 = 10;

/// The filter of these ids.
pub(super) fn build(ids: impl ExactSizeIterator<Item = ShortId>) -> Vec<u8> {
    let mut filter = vec![0; (ids.len() * BITS).div_ceil(8).max(1)];
    let bits = filter.len() as u64 * 8;
    for id in ids {
        for bit in probes(&id, bits) {
            filter[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// Whether an id may be among those it was made of.
pub(super) fn may_contain(filter: &[u8], id: &ShortId) -> bool {
    probes(id, filter.len() as u64 * 8).all(|bit| filter[bit / 8] & (1 << (bit % 8)) != 0)
}

fn probes(id: &ShortId, bits: u64) -> impl Iterator<Item = usize> {
    let (mut a, mut b) = ([0; 8], [0; 8]);
    a.copy_from_slice(&id.0[..8]);
    b.copy_from_slice(&id.0[8..16]);
    let (a, b) = (u64::from_le_bytes(a), u64::from_le_bytes(b) | 1);
    // Below the filter's length in bits, which is in memory.
    #[expect(clippy::cast_possible_truncation)]
    (0..PROBES).map(move |i| (a.wrapping_add(i.wrapping_mul(b)) % bits) as usize)
}
