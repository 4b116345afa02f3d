//! Names of GPUs, and which takes the place of which.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{CudaError, Result};

/// A GPU's name for life: `GPU-` and a UUID, as NVML and `nvidia-smi` write it; sixteen bytes for the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GpuUuid([u8; 16]);

impl GpuUuid {
    /// From the driver's bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// As the driver wants it.
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU-")?;
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for GpuUuid {
    type Err = CudaError;

    /// `GPU-8-4-4-4-12`, hexadecimal digits in either case. MIG devices (`MIG-…`) cannot be checkpointed and are no GPU here.
    fn from_str(text: &str) -> Result<Self> {
        parse(text).map(Self).ok_or_else(|| CudaError::Invalid {
            what: format!("`{}` is not the UUID of a GPU", text.escape_default()),
        })
    }
}

fn parse(text: &str) -> Option<[u8; 16]> {
    let digits = text.strip_prefix("GPU-")?;
    let groups: Vec<&str> = digits.split('-').collect();
    if groups.len() != 5 || groups.iter().zip([8, 4, 4, 4, 12]).any(|(group, length)| group.len() != length) {
        return None;
    }
    let mut bytes = [0; 16];
    let mut nibbles = groups.iter().flat_map(|group| group.chars());
    for byte in &mut bytes {
        let high = nibbles.next()?.to_digit(16)?;
        let low = nibbles.next()?.to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

impl TryFrom<String> for GpuUuid {
    type Error = CudaError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<GpuUuid> for String {
    fn from(uuid: GpuUuid) -> Self {
        uuid.to_string()
    }
}

/// Which GPU takes the place of which at a restore.
///
/// It must name every GPU that the processes could see when they were checkpointed, also those that stay what they are. A map
/// in which all stay what they are is never given to the driver: a restore in place then takes the driver's ordinary path
/// instead of that of a migration.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct GpuMap(Vec<(GpuUuid, GpuUuid)>);

impl GpuMap {
    /// Pairs of old and new. Neither an old nor a new GPU may be named twice.
    pub fn new(pairs: Vec<(GpuUuid, GpuUuid)>) -> Result<Self> {
        for (side, uuids) in [
            ("replaced", pairs.iter().map(|pair| pair.0).collect::<Vec<_>>()),
            ("taken", pairs.iter().map(|pair| pair.1).collect()),
        ] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = uuids.into_iter().find(|uuid| !seen.insert(*uuid)) {
                return Err(CudaError::Invalid {
                    what: format!("{twice} is {side} twice in the map of GPUs"),
                });
            }
        }
        Ok(Self(pairs))
    }

    /// Every GPU stays what it is.
    pub const fn identity() -> Self {
        Self(Vec::new())
    }

    /// Does every GPU stay what it is?
    pub fn is_identity(&self) -> bool {
        self.0.iter().all(|(old, new)| old == new)
    }

    /// All pairs of old and new.
    pub fn pairs(&self) -> &[(GpuUuid, GpuUuid)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn a_uuid_is_read_and_written() {
        let uuid: GpuUuid = ONE.parse().unwrap();
        assert_eq!(uuid.bytes()[..3], [0x00, 0x11, 0x22]);
        assert_eq!(uuid.to_string(), ONE);
        assert_eq!(ONE.replace("aabb", "AABB").parse::<GpuUuid>().unwrap(), uuid);
        assert_eq!(serde_json::to_string(&uuid).unwrap(), format!("\"{ONE}\""));
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in [
            "",
            "GPU-",
            "MIG-00112233-4455-6677-8899-aabbccddeeff",
            "GPU-00112233445566778899aabbccddeeff",
            "GPU-0011223-34455-6677-8899-aabbccddeeff",
            "GPU-0011223g-4455-6677-8899-aabbccddeeff",
            "GPU-+0112233-4455-6677-8899-aabbccddeeff",
            "GPU-00112233-4455-6677-8899-aabbccddeeff-",
        ] {
            assert_eq!(text.parse::<GpuUuid>().unwrap_err().code(), "IJ-G022", "{text}");
        }
    }

    #[test]
    fn a_map_of_equals_is_the_identity_and_none_is_named_twice() {
        let (one, two) = (GpuUuid::from_bytes([1; 16]), GpuUuid::from_bytes([2; 16]));
        assert!(GpuMap::new(vec![(one, one), (two, two)]).unwrap().is_identity());
        assert!(GpuMap::identity().is_identity());
        assert!(!GpuMap::new(vec![(one, two), (two, one)]).unwrap().is_identity());
        GpuMap::new(vec![(one, two), (two, two)]).unwrap_err();
        GpuMap::new(vec![(one, two), (one, one)]).unwrap_err();
    }

    proptest! {
        #[test]
        fn every_uuid_comes_back(bytes: [u8; 16]) {
            let uuid = GpuUuid::from_bytes(bytes);
            prop_assert_eq!(uuid.to_string().parse::<GpuUuid>().unwrap(), uuid);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(GPU-)?[0-9a-fA-Fé-]{0,40}") {
            if let Ok(uuid) = text.parse::<GpuUuid>() {
                prop_assert_eq!(uuid.to_string(), text.to_lowercase().replace("gpu-", "GPU-"));
            }
        }
    }
}
