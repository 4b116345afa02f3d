//! Objects that a store lacks and somebody else has: the port through which they are read.
//!
//! A store whose history came without its data ([`elsewhere`](crate::elsewhere)) asks a [`Beyond`] for what it does not find. Nothing of
//! what is read so enters the store; whoever fills the port may keep some of it. The store is asked first, always, so nothing changes
//! for what is here.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId};
use crate::reach::{self, Reference, References};
use crate::store::{ReadContext, Store};

/// Has objects that a store lacks.
pub trait Beyond: Send + Sync + fmt::Debug {
    /// The content of an object, which was compared with its id. `None`: nobody has it.
    fn read(&self, kind: Kind, id: &ObjectId) -> Result<Option<Vec<u8>>>;

    /// The first of these objects that nobody has. Much less than reading them.
    fn first_absent(&self, ids: &[ObjectId]) -> Result<Option<ObjectId>>;

    /// These will be read next, in about this order. Whoever is far away can begin to fetch them.
    fn expect(&self, ids: &[ObjectId]);
}

impl Store {
    /// From now on objects that are not here are asked of `beyond`. The first that is given stays.
    pub fn look_beyond(&self, beyond: Arc<dyn Beyond>) {
        // A second one would be told of the same places.
        let _ = self.beyond.set(beyond);
    }

    /// Who is asked, if something may have to be asked for at all.
    pub(crate) fn beyond(&self) -> Result<Option<&dyn Beyond>> {
        match self.beyond.get() {
            Some(beyond) if !self.elsewhere()?.is_empty() => Ok(Some(beyond.as_ref())),
            _ => Ok(None),
        }
    }

    /// Whether everything is here that an object leads to.
    pub fn is_whole(&self, id: &ObjectId, above: &dyn References) -> Result<bool> {
        Ok(self.absent_below(id, above)?.is_empty())
    }

    /// What is not here, of everything that an object leads to. What an object that is not here leads to, nobody knows.
    pub fn absent_below(&self, id: &ObjectId, above: &dyn References) -> Result<Vec<Reference>> {
        let (mut context, mut content) = (ReadContext::new()?, Vec::new());
        let mut open = vec![Reference::strong(self.find(id)?.kind, *id)];
        let (mut seen, mut absent) = (HashSet::new(), Vec::new());
        while let Some(reference) = open.pop() {
            if !seen.insert(reference.id) {
                continue;
            }
            if !self.contains(&reference.id)? {
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
