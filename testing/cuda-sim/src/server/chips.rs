//! The chips that the stand-in plays.
use crate::wire::GpuInfo;

struct Chip {
    key: &'static str,
    name: &'static str,
    capability: [u32; 2],
    memory: u64,
    pci_id: u32,
    processors: u32,
}

const GIB: u64 = 1 << 30;

const CHIPS: &[Chip] = &[
    Chip {
        key: "h100",
        name: "NVIDIA H100 80GB HBM3",
        capability: [9, 0],
        memory: 80 * GIB,
        pci_id: 0x2330_10de,
        processors: 132,
    },
    Chip {
        key: "a100",
        name: "NVIDIA A100-SXM4-40GB",
        capability: [8, 0],
        memory: 40 * GIB,
        pci_id: 0x20b0_10de,
        processors: 108,
    },
    Chip {
        key: "rtx4090",
        name: "NVIDIA GeForce RTX 4090",
        capability: [8, 9],
        memory: 24 * GIB,
        pci_id: 0x2684_10de,
        processors: 128,
    },
];

/// The GPU of that index with that chip; `None` for a chip that we do not know.
pub(super) fn gpu(key: &str, index: u32, memory: Option<u64>, seed: &str) -> Option<GpuInfo> {
    let chip = CHIPS.iter().find(|chip| chip.key == key)?;
    Some(GpuInfo {
        index,
        uuid: uuid(seed, index),
        chip: chip.key.to_owned(),
        name: chip.name.to_owned(),
        capability: chip.capability,
        memory: memory.unwrap_or(chip.memory),
        pci_id: chip.pci_id,
        pci: [0, 0x17 + 0x10 * index, 0],
        processors: chip.processors,
    })
}

/// A UUID of the random kind out of a seed: the same server gives the same ones again (FNV-1a, twice).
fn uuid(seed: &str, index: u32) -> [u8; 16] {
    let half = |salt: u8| {
        [salt]
            .into_iter()
            .chain(seed.bytes())
            .chain(index.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    };
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&half(1).to_be_bytes());
    uuid[8..].copy_from_slice(&half(2).to_be_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// `GPU-xxxxxxxx-xxxx-…`, as NVML writes it.
#[must_use]
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = "GPU-".to_owned();
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_differ_and_stay() {
        let one = gpu("h100", 0, None, "host-a").unwrap();
        assert_eq!(one, gpu("h100", 0, None, "host-a").unwrap());
        assert_ne!(one.uuid, gpu("h100", 1, None, "host-a").unwrap().uuid);
        assert_ne!(one.uuid, gpu("h100", 0, None, "host-b").unwrap().uuid);
        assert_eq!(uuid_text(&one.uuid).len(), 40);
        assert!(gpu("riva128", 0, None, "").is_none());
    }
}
