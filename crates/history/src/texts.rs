//! What files say: of one, and of all that differ between two snapshots.

use std::path::PathBuf;

use cas_core::ObjectId;
use cas_core::progress::Silent;
use image_store::{Change, changed_files};
use manifest::BlobRef;

use crate::error::Result;
use crate::own_store::UserStore;

/// Longer ones are not shown.
const LONGEST: u64 = 1 << 20;

/// A file that differs between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedText {
    /// Where it is.
    pub path: PathBuf,
    /// What it says in the first and in the second, empty where it is not there; `None` if it is not text, too long to be looked at, or was
    /// not captured.
    pub texts: Option<(String, String)>,
}

impl UserStore {
    /// A stored file as text; `None` if it is no UTF-8, or too long to be looked at.
    pub fn text(&self, content: &BlobRef) -> Result<Option<String>> {
        if content.len > LONGEST {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.store.read_blob(&(*content).into(), &mut bytes, &Silent)?;
        Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
    }

    /// What the files say that differ between two snapshots.
    pub fn changed_texts(&self, a: &ObjectId, b: &ObjectId) -> Result<Vec<ChangedText>> {
        let (before, after) = (self.load(a)?.1, self.load(b)?.1);
        let side = |is_there: bool, stored: Option<BlobRef>| match stored {
            Some(content) => self.text(&content),
            None => Ok((!is_there).then(String::new)),
        };
        let mut found = Vec::new();
        for file in changed_files(&self.store, &before, &after)? {
            let before = side(file.change != Change::Added, file.stored.0)?;
            let after = side(file.change != Change::Removed, file.stored.1)?;
            found.push(ChangedText { path: file.path, texts: before.zip(after) });
        }
        Ok(found)
    }
}
