//! `root`: the one small object that says what there is.

use std::collections::{BTreeMap, HashSet};

use cas_core::IdHasher;
use cas_core::archive::domain;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Found, Statement};
use crate::error::{RemoteError, Result};
use crate::index::SegmentRef;
use crate::token::Token;

/// The highest version of the format that is known.
pub(crate) const VERSION: u32 = 2;
/// The one of a remote in which no offer was ever taken up.
const WITHOUT_OFFERS: u32 = 1;
/// Where it lies.
pub(crate) const ROOT: &str = "root";

/// What `root` says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Root {
    pub(crate) version: u32,
    /// Who computes the same ids.
    pub(crate) domain: String,
    /// Whether packs are encrypted.
    pub(crate) sealed: bool,
    /// Counts collections.
    pub(crate) generation: u64,
    pub(crate) segments: Vec<SegmentRef>,
    /// What is given up, and will be deleted.
    pub(crate) condemned: Vec<Condemned>,
    /// Offers that were taken up and may still be in a lease.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) taken: Vec<Token>,
}

/// Something that will be deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Condemned {
    /// `packs/…` or `index/…`.
    pub(crate) key: String,
    /// The generation that gave it up.
    pub(crate) generation: u64,
    /// When, in seconds since 1970.
    pub(crate) at: u64,
}

impl Statement for Root {
    const LIMIT: u64 = 4 << 20;
}

impl Root {
    pub(crate) fn new(domain: &[u8; 32], sealed: bool) -> Self {
        Self {
            version: WITHOUT_OFFERS,
            domain: cas_core::id::hex(domain),
            sealed,
            generation: 1,
            segments: Vec::new(),
            condemned: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// What lies there now, compared with the secret of whoever asks.
    pub(crate) fn read(bucket: &Bucket, hasher: &IdHasher) -> Result<Found<Self>> {
        let domain = cas_core::id::hex(&domain(hasher));
        let found = match bucket.read::<Self>(hasher, ROOT) {
            Ok(found) => found.ok_or(RemoteError::NotARemote)?,
            // Made with another secret, it cannot fit its seal. That is no damage, and must be said first.
            Err(error @ RemoteError::Damaged { .. }) => {
                let Some((bytes, _)) = bucket.get(ROOT, Self::LIMIT)? else { return Err(error) };
                return Err(another(&bytes, &domain).unwrap_or(error));
            }
            Err(error) => return Err(error),
        };
        let root = found.body();
        root.check_version()?;
        if root.domain != domain {
            return Err(RemoteError::OtherDomain { sealed: root.sealed });
        }
        for segment in &root.segments {
            segment.check().map_err(|detail| RemoteError::damaged(ROOT, detail))?;
        }
        Ok(found)
    }

    /// Whether we know everything that it may say. Whoever does not must not write it, either.
    pub(crate) fn check_version(&self) -> Result<()> {
        if (WITHOUT_OFFERS..=VERSION).contains(&self.version) {
            return Ok(());
        }
        Err(RemoteError::TooNew { found: self.version, supported: VERSION })
    }

    /// The packs that nobody may rely on any more.
    pub(crate) fn condemned_packs(&self) -> HashSet<Token> {
        let pack = |one: &Condemned| one.key.strip_prefix("packs/").and_then(|name| name.parse().ok());
        self.condemned.iter().filter_map(pack).collect()
    }

    /// Puts segments in the place of others. `false`: those are not all there any more.
    pub(crate) fn exchange(&mut self, old: &[SegmentRef], new: &[SegmentRef]) -> bool {
        let names: HashSet<Token> = self.segments.iter().map(|segment| segment.name).collect();
        if !old.iter().all(|segment| names.contains(&segment.name)) {
            return false;
        }
        self.segments.retain(|segment| !old.iter().any(|gone| gone.name == segment.name));
        self.segments.extend_from_slice(new);
        true
    }

    /// How many segments there are of each level.
    pub(crate) fn levels(&self) -> BTreeMap<u32, usize> {
        let mut levels = BTreeMap::new();
        self.segments.iter().for_each(|segment| *levels.entry(segment.level).or_insert(0) += 1);
        levels
    }
}

fn another(bytes: &[u8], domain: &str) -> Option<RemoteError> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let root: serde_json::Value = serde_json::from_slice(line).ok()?;
    let version = root.get("version")?.as_u64()?;
    if version > u64::from(VERSION) {
        let found = u32::try_from(version).unwrap_or(u32::MAX);
        return Some(RemoteError::TooNew { found, supported: VERSION });
    }
    let other = root.get("domain")?.as_str()? != domain;
    other.then(|| RemoteError::OtherDomain {
        sealed: root.get("sealed").and_then(|sealed| sealed.as_bool()).unwrap_or(false),
    })
}
