//! The fingerprints of a snapshot's memory, kept in `cache/fingerprints/ROOT`.
//!
//! They are derived data and may vanish at any time; a file that is not whole counts as absent. What must never happen is
//! that a wrong fingerprint is believed, for then a changed page would be taken for an unchanged one. So the file names the
//! map it was made from and ends in a hash of all of it, which is compared before a byte is used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::fsio;
use crate::id::{IdHasher, Kind, LEAF_LEN, ObjectId};
use crate::memory::{GROUP, LEAF_GROUPS};
use crate::store::Store;

/// A group of pages that are all zero or absent.
pub(crate) const NOTHING: Fingerprint = [0; 16];

/// One group's fingerprint: half of its leaf hash.
pub(crate) type Fingerprint = [u8; 16];

/// The fingerprints of one leaf.
pub(crate) type LeafPrints = Box<[Fingerprint; LEAF_GROUPS]>;

const MAGIC: &[u8; 8] = b"IJFPR1\r\n";
const RECORD: usize = 8 + LEAF_GROUPS * 16;
const HASH: usize = 32;

/// How many snapshots' fingerprints are kept: a handful of threads, and the last few of each.
const KEPT: usize = 16;

// A group's fingerprint is a leaf hash in the sense of ids, so the two lengths are one.
const _: () = assert!(GROUP == LEAF_LEN);

/// The fingerprints of a whole map.
#[derive(Debug, Default)]
pub(crate) struct Prints {
    pub(crate) leaves: BTreeMap<u64, LeafPrints>,
}

impl Prints {
    /// Reads the fingerprints of `root`, if they are there and whole.
    pub(crate) fn load(store: &Store, root: &ObjectId) -> Option<Self> {
        let path = path(store, root);
        let bytes = fs::read(&path).ok()?;
        let prints = Self::parse(store.hasher(), root, &bytes);
        if prints.is_none() {
            // Not whole: of no use to anybody.
            let _ = fs::remove_file(&path);
        }
        prints
    }

    /// Keeps the fingerprints of `root`. A failure costs speed and nothing else, so it is not reported.
    pub(crate) fn save(&self, store: &Store, root: &ObjectId) {
        let path = path(store, root);
        if let (Some(directory), Ok(name)) = (path.parent(), fsio::random_name()) {
            let temporary = directory.join(format!(".tmp-{name}"));
            let written = fs::write(&temporary, self.encode(store.hasher(), root));
            if written.and_then(|()| fs::rename(&temporary, &path)).is_err() {
                let _ = fs::remove_file(&temporary);
            }
            prune(directory);
        }
    }

    fn encode(&self, hasher: &IdHasher, root: &ObjectId) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAGIC.len() + 32 + self.leaves.len() * RECORD + HASH);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(root.as_bytes());
        for (number, prints) in &self.leaves {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(prints.as_flattened());
        }
        let hash = hasher.id(CACHE, &out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    fn parse(hasher: &IdHasher, root: &ObjectId, bytes: &[u8]) -> Option<Self> {
        let (body, hash) = bytes.split_last_chunk::<HASH>()?;
        if hasher.id(CACHE, body).as_bytes() != hash {
            return None;
        }
        let records = body.strip_prefix(MAGIC)?.strip_prefix(root.as_bytes())?;
        let mut leaves = BTreeMap::new();
        for record in records.chunks(RECORD) {
            let (number, prints) = record.split_first_chunk::<8>()?;
            let mut leaf: LeafPrints = Box::new([NOTHING; LEAF_GROUPS]);
            if prints.len() != LEAF_GROUPS * 16 {
                return None;
            }
            leaf.as_flattened_mut().copy_from_slice(prints);
            leaves.insert(u64::from_le_bytes(*number), leaf);
        }
        Some(Self { leaves })
    }
}

/// Keeps the hash of a cache file apart from every object's id.
const CACHE: Kind = Kind(0);

fn path(store: &Store, root: &ObjectId) -> PathBuf {
    store.layout.cache("fingerprints").join(root.to_string())
}

/// Removes all but the newest files.
fn prune(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let age = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut files: Vec<_> = entries.flatten().filter_map(age).collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    for (_, path) in files.into_iter().skip(KEPT) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_file_of_the_right_map_is_believed() {
        let hasher = IdHasher::plain();
        let root = hasher.id(Kind::MAP_NODE, b"root");
        let mut prints = Prints::default();
        prints.leaves.insert(7, Box::new([[3; 16]; LEAF_GROUPS]));
        prints.leaves.insert(1 << 40, Box::new([[4; 16]; LEAF_GROUPS]));
        let bytes = prints.encode(&hasher, &root);
        assert_eq!(Prints::parse(&hasher, &root, &bytes).unwrap().leaves, prints.leaves);
        assert!(Prints::parse(&hasher, &hasher.id(Kind::MAP_NODE, b"other"), &bytes).is_none());
        assert!(Prints::parse(&IdHasher::keyed(&[1; 32]), &root, &bytes).is_none());
        for at in (0..bytes.len()).step_by(97) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(Prints::parse(&hasher, &root, &wrong).is_none());
            assert!(Prints::parse(&hasher, &root, &bytes[..at]).is_none());
        }
    }
}
