//! The byte in CRIU's notes about the kernel.

use super::doubt::Doubt;

/// How the notes begin.
const MAGIC: u32 = 0x5702_3458;
/// Their length in CRIU 4.2.1 for x86_64. Another build lays them out otherwise, and then this is not the byte.
const LENGTH: usize = 912;
/// Whether the kernel can tell changed pages.
const HAS_DIRTY_TRACKING: usize = 32;

/// Changes notes (`criu.kdat`) so that CRIU believes that the kernel can tell changed pages.
///
/// `ask` puts notes where CRIU will run and asks CRIU itself, by `criu check --feature mem_dirty_track`, whether the kernel can. It must say
/// no to its own notes and yes to the changed ones; then the byte is the right one. A kernel that really can is refused, too: CRIU would
/// then use what it finds there, and nobody has tried that.
pub fn believes_in_dirty_pages(
    notes: &[u8],
    mut ask: impl FnMut(&[u8]) -> Result<bool, Doubt>,
) -> Result<Vec<u8>, Doubt> {
    let unknown = |detail: String| Doubt::UnknownNotes { detail };
    if notes.len() != LENGTH {
        return Err(unknown(format!("they have {} bytes, not {LENGTH}", notes.len())));
    }
    if !notes.starts_with(&MAGIC.to_le_bytes()) {
        return Err(unknown("they begin otherwise".to_owned()));
    }
    let mut changed = notes.to_vec();
    match changed.get_mut(HAS_DIRTY_TRACKING) {
        Some(byte @ 0) => *byte = 1,
        _ => {
            return Err(unknown("the kernel tells changed pages already, or the byte is another".to_owned()));
        }
    }
    if ask(notes)? {
        return Err(Doubt::Unconvinced { detail: "it says yes to the notes as they were" });
    }
    if !ask(&changed)? {
        return Err(Doubt::Unconvinced { detail: "it says no to the notes as they are now" });
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<u8> {
        let mut notes = vec![0; LENGTH];
        notes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        notes
    }

    #[test]
    fn one_byte_is_changed_if_criu_agrees() {
        let mut asked = Vec::new();
        let changed = believes_in_dirty_pages(&notes(), |notes| {
            asked.push(notes.to_vec());
            Ok(notes[HAS_DIRTY_TRACKING] == 1)
        })
        .unwrap();
        assert_eq!(asked, [notes(), changed.clone()]);
        let differ: Vec<usize> = (0..LENGTH).filter(|at| changed[*at] != notes()[*at]).collect();
        assert_eq!(differ, [HAS_DIRTY_TRACKING]);
    }

    #[test]
    fn whatever_is_unexpected_is_a_doubt() {
        let yes = |_: &[u8]| Ok(true);
        let no = |_: &[u8]| Ok(false);
        assert!(matches!(believes_in_dirty_pages(&notes(), yes), Err(Doubt::Unconvinced { .. })));
        assert!(matches!(believes_in_dirty_pages(&notes(), no), Err(Doubt::Unconvinced { .. })));
        let (mut real, mut other, longer) = (notes(), notes(), [notes(), vec![0]].concat());
        real[HAS_DIRTY_TRACKING] = 1;
        other[0] ^= 1;
        for odd in [real, other, longer, Vec::new()] {
            assert!(matches!(believes_in_dirty_pages(&odd, yes), Err(Doubt::UnknownNotes { .. })));
        }
    }
}
