//! Images of a snapshot that are read into memory, without a directory.

use std::collections::BTreeMap;

use cas_core::Store;
use cas_core::progress::Silent;
use checkpoint_criu::images::Images;
use manifest::Snapshot;
use manifest::snapshot::CriuSection;

use crate::error::{ImageError, Result};

/// The largest image that is read like this.
const MAX_IMAGE: u64 = 64 << 20;

/// Those images of a snapshot that are wanted. `commit` is for errors.
pub(crate) fn held_images(
    store: &Store,
    commit: &str,
    snapshot: &Snapshot,
    wanted: impl Fn(&str) -> bool,
) -> Result<Images> {
    let mut held = BTreeMap::new();
    for (name, image) in snapshot.get::<CriuSection>()?.unwrap_or_default().images {
        if !wanted(&name) {
            continue;
        }
        if image.len > MAX_IMAGE {
            let detail = format!("{name} has {} bytes", image.len);
            return Err(ImageError::NotWhole { commit: commit.to_owned(), detail });
        }
        let mut bytes = Vec::new();
        store.read_blob(&image.into(), &mut bytes, &Silent)?;
        held.insert(name, bytes);
    }
    Ok(Images::in_memory(commit, held))
}

/// Images of a snapshot whose names begin with one of these words, for who asks about them elsewhere.
pub fn images_in_memory(store: &Store, commit: &str, snapshot: &Snapshot, words: &[&str]) -> Result<Images> {
    held_images(store, commit, snapshot, |name| begins_with(name, words))
}

/// Whether the name of an image begins with one of these words.
pub(crate) fn begins_with(name: &str, words: &[&str]) -> bool {
    words.iter().any(|word| name.starts_with(word))
}
