//! Which GPU each GPU of a checkpointed process becomes.
//!
//! The rules are those that NVIDIA's own clients document: a map names every GPU that the process could see, each new one
//! is of the same chip and used once, and it is there. Without a map every GPU must be there itself.

use crate::code::Code;
use crate::level::Level;
use crate::wire::GpuInfo;

/// An old and a new UUID, in hexadecimal.
pub type Pair = (String, String);

/// For each old GPU the new one, in the same order.
///
/// # Errors
/// `NO_DEVICE` if no GPU is there, `INVALID_DEVICE` if the wanted one is not, `INVALID_VALUE` for a map that is not
/// complete, names a GPU twice, or would change the chip, and on drivers that know no maps.
pub fn place(old: &[GpuInfo], pairs: &[Pair], here: &[GpuInfo], level: Level) -> Result<Vec<GpuInfo>, Code> {
    if here.is_empty() {
        return Err(Code::NO_DEVICE);
    }
    let by_uuid = |uuid: &str| here.iter().find(|gpu| hex(&gpu.uuid) == uuid);
    if pairs.is_empty() {
        let same = old.iter().map(|gpu| by_uuid(&hex(&gpu.uuid)).cloned());
        return same.collect::<Option<Vec<_>>>().ok_or(Code::INVALID_DEVICE);
    }
    let unknown = |pair: &Pair| !old.iter().any(|gpu| hex(&gpu.uuid) == pair.0);
    let twice = |pair: &Pair| pairs.iter().filter(|other| other.0 == pair.0 || other.1 == pair.1).count() > 1;
    if !level.pairs() || pairs.iter().any(|pair| unknown(pair) || twice(pair)) {
        return Err(Code::INVALID_VALUE);
    }
    old.iter()
        .map(|gpu| {
            let (_, wanted) =
                pairs.iter().find(|pair| pair.0 == hex(&gpu.uuid)).ok_or(Code::INVALID_VALUE)?;
            let new = by_uuid(wanted).ok_or(Code::INVALID_DEVICE)?;
            if new.chip == gpu.chip { Ok(new.clone()) } else { Err(Code::INVALID_VALUE) }
        })
        .collect()
}

/// A UUID as 32 digits.
#[must_use]
pub fn hex(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u8, chip: &str) -> GpuInfo {
        GpuInfo {
            index: u32::from(index),
            uuid: [index; 16],
            chip: chip.to_owned(),
            name: chip.to_owned(),
            capability: [9, 0],
            memory: 1 << 30,
            pci_id: 0x2330_10de,
            pci: [0, u32::from(index), 0],
            processors: 132,
        }
    }

    fn pair(old: u8, new: u8) -> Pair {
        (hex(&[old; 16]), hex(&[new; 16]))
    }

    fn new_level() -> Level {
        Level::new(580).unwrap()
    }

    #[test]
    fn without_a_map_every_gpu_must_be_there() {
        let old = [gpu(1, "h100"), gpu(2, "h100")];
        let here = [gpu(3, "h100"), gpu(2, "h100"), gpu(1, "h100")];
        assert_eq!(place(&old, &[], &here, new_level()).unwrap(), old);
        assert_eq!(place(&old, &[], &here[..2], new_level()), Err(Code::INVALID_DEVICE));
        assert_eq!(place(&old, &[], &[], new_level()), Err(Code::NO_DEVICE));
    }

    #[test]
    fn a_map_names_every_gpu_once() {
        let old = [gpu(1, "h100"), gpu(2, "h100")];
        let here = [gpu(1, "h100"), gpu(2, "h100"), gpu(3, "h100"), gpu(4, "a100")];
        let try_map = |pairs: &[Pair]| place(&old, pairs, &here, new_level());
        assert_eq!(try_map(&[pair(2, 1), pair(1, 3)]).unwrap(), [gpu(3, "h100"), gpu(1, "h100")]);
        for wrong in [
            vec![pair(1, 3)],
            vec![pair(1, 3), pair(2, 3)],
            vec![pair(1, 3), pair(1, 2)],
            vec![pair(1, 3), pair(2, 4)],
            vec![pair(1, 1), pair(2, 2), pair(3, 3)],
        ] {
            assert_eq!(try_map(&wrong), Err(Code::INVALID_VALUE), "{wrong:?}");
        }
        assert_eq!(try_map(&[pair(1, 3), pair(2, 9)]), Err(Code::INVALID_DEVICE));
    }

    #[test]
    fn an_old_driver_takes_no_map() {
        let old = [gpu(1, "h100")];
        let here = [gpu(1, "h100"), gpu(2, "h100")];
        let level = Level::new(575).unwrap();
        assert_eq!(place(&old, &[pair(1, 2)], &here, level), Err(Code::INVALID_VALUE));
        assert_eq!(place(&old, &[], &here, level).unwrap(), old);
    }
}
