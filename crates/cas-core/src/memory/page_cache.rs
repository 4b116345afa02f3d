//! Pages that were read a moment ago and are likely to be wanted again.

use super::PAGE;
use super::map::PagesRef;
use crate::error::Result;
use crate::id::{Kind, ObjectId};
use crate::store::{ReadContext, Store};

/// The contents of the objects of pages that were read last.
#[derive(Debug)]
pub(crate) struct PageCache {
    /// Last used first.
    entries: Vec<(ObjectId, Vec<u8>)>,
    capacity: usize,
}

impl PageCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: Vec::new(), capacity }
    }

    /// The pages of an object.
    pub(crate) fn pages(
        &mut self,
        store: &Store,
        object: &PagesRef,
        context: &mut ReadContext,
    ) -> Result<&[u8]> {
        if let Some(at) = self.entries.iter().position(|(id, _)| *id == object.id) {
            self.entries[..=at].rotate_right(1);
        } else {
            let spare = if self.entries.len() < self.capacity { None } else { self.entries.pop() };
            let mut content = spare.map(|(_, content)| content).unwrap_or_default();
            content.resize(usize::from(object.pages) * PAGE, 0);
            store.read_exact(Kind::PAGES, &object.id, context, &mut content)?;
            self.entries.insert(0, (object.id, content));
        }
        Ok(&self.entries[0].1)
    }
}
