//! Whether everything is here that an object leads to.

use std::collections::HashSet;

use crate::error::{Result, StoreError};
use crate::id::ObjectId;
use crate::reach::{self, Reference, References};
use crate::store::{ReadContext, Store};

impl Store {
    /// Whether everything is here that an object leads to.
    pub fn is_whole(&self, id: &ObjectId, above: &dyn References) -> Result<bool> {
        Ok(self.absent_below(id, above)?.is_empty())
    }

    /// What is not here, of everything that an object leads to; what a gc is about to remove is not here any more. What an object that is not here leads to,
    /// nobody knows.
    pub fn absent_below(&self, id: &ObjectId, above: &dyn References) -> Result<Vec<Reference>> {
        let (mut context, mut content) = (ReadContext::new()?, Vec::new());
        let mut open = vec![Reference::strong(self.find(id)?.kind, *id)];
        let (mut seen, mut absent) = (HashSet::new(), Vec::new());
        while let Some(reference) = open.pop() {
            if !seen.insert(reference.id) {
                continue;
            }
            if !self.keeps(&reference.id)? {
                absent.extend((!reference.weak).then_some(reference));
            } else if reference.kind.is_metadata() {
                self.read_into(reference.kind, &reference.id, &mut context, &mut content)?;
                let malformed = |detail| StoreError::Malformed { id: reference.id, detail };
                open.extend(reach::references(reference.kind, &content, above).map_err(malformed)?);
            }
        }
        Ok(absent)
    }
}
