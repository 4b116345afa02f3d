//! The keyring file: looked at without a key, and opened with one. The checksum is put right, so that the fuzzer gets
//! behind it; the costs in the file are attacker-controlled then, and must stay bounded.

use std::path::Path;

use cas_core::crypto::{KdfCost, Keyring, SlotInfo, Unlock, inspect};

pub(crate) fn run(bytes: &[u8]) {
    let path = Path::new("keyring");
    let _ = inspect(path, bytes);
    let cut = bytes.len().saturating_sub(32);
    let body = &bytes[..cut];
    let mut fixed = body.to_vec();
    fixed.extend_from_slice(cas_core_blake3(body).as_slice());
    if let Ok(info) = inspect(path, &fixed) {
        // Only cheap ones are opened, for the fuzzer's sake; the bound itself is asserted by the crate's tests.
        let cheap = KdfCost { memory_kib: 64, passes: 2, lanes: 1 };
        let all_cheap = info.slots.iter().all(|slot| match slot {
            SlotInfo::Passphrase(cost) => cost.memory_kib <= cheap.memory_kib && cost.passes <= cheap.passes,
            _ => true,
        });
        if all_cheap {
            let _ = Keyring::open(path, &fixed, &Unlock::Passphrase("correct horse".to_owned().into()));
        }
    }
}

fn cas_core_blake3(bytes: &[u8]) -> Vec<u8> {
    blake3::hash(bytes).as_bytes().to_vec()
}
