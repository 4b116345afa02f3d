//! Objects on their way from one store to another.
//!
//! Stores with different secrets compute different ids, and objects hold the ids of others. So what an object refers to is
//! carried first, its new ids are known then, and take the place of the old ones in it. Store objects hold ids as bytes,
//! manifest objects as text; both forms keep their length.

use std::collections::{HashMap, HashSet};

use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId, hex};
use crate::progress::{Progress, Task};
use crate::reach::{self, Reference, References};
use crate::store::{ReadContext, Store};
use crate::transaction::WriteTransaction;

/// Which of an object's references an export follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// Those that must be there: one snapshot, without its history.
    Strong,
    /// All that are there: the history too.
    All,
}

impl Store {
    /// Copies these objects, and everything that they lead to, into the store of `transaction`. What each is called
    /// there is told to `named`: kind, id here, id there. They are durable after the next flush or commit; nothing
    /// should be committed if this fails.
    pub fn copy_to(
        &self,
        transaction: &WriteTransaction,
        roots: &[ObjectId],
        above: &dyn References,
        progress: &dyn Progress,
        named: &mut dyn FnMut(Kind, &ObjectId, &ObjectId),
    ) -> Result<()> {
        above.renew(self)?;
        let mut walk = Walk::new(self, Follow::All, above)?;
        let mut renamed = Renamed::default();
        progress.begin(Task::Transfer, Some(self.catalogue.totals()?.plain));
        let copied = roots.iter().try_for_each(|root| {
            let location = self.catalogue.lookup(root)?.ok_or(StoreError::MissingObject { id: *root })?;
            walk.visit(Reference::strong(location.kind, *root), &mut |reference, content| {
                let mut content = content.to_vec();
                let malformed = |detail| StoreError::Malformed { id: reference.id, detail };
                renamed.put_in(reference.kind, &mut content, above).map_err(malformed)?;
                progress.advance(Task::Transfer, content.len() as u64);
                let id = transaction.put(reference.kind, content)?;
                named(reference.kind, &reference.id, &id);
                renamed.insert(reference.id, id);
                Ok(())
            })
        });
        progress.end(Task::Transfer);
        copied
    }
}

/// A walk through everything that some objects lead to, which comes to an object after all that it refers to, and to
/// none twice.
pub(crate) struct Walk<'a> {
    store: &'a Store,
    follow: Follow,
    above: &'a dyn References,
    context: ReadContext,
    done: HashSet<ObjectId>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(store: &'a Store, follow: Follow, above: &'a dyn References) -> Result<Self> {
        Ok(Self { store, follow, above, context: ReadContext::new()?, done: HashSet::new() })
    }

    /// Shows an object and what it leads to. Depth first, without recursion: one is shown when it comes off the stack
    /// for the second time.
    pub(crate) fn visit(
        &mut self,
        root: Reference,
        show: &mut dyn FnMut(&Reference, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut stack = vec![(root, false)];
        let mut content = Vec::new();
        while let Some((reference, expanded)) = stack.pop() {
            if self.done.contains(&reference.id) || reference.weak && !self.wanted(&reference)? {
                continue;
            }
            self.store.read_into(reference.kind, &reference.id, &mut self.context, &mut content)?;
            if !expanded {
                let below = reach::references(reference.kind, &content, self.above)
                    .map_err(|detail| StoreError::Malformed { id: reference.id, detail })?;
                if !below.is_empty() {
                    stack.push((reference, true));
                    stack.extend(below.into_iter().map(|reference| (reference, false)));
                    continue;
                }
            }
            show(&reference, &content)?;
            self.done.insert(reference.id);
        }
        Ok(())
    }

    fn wanted(&self, reference: &Reference) -> Result<bool> {
        Ok(self.follow == Follow::All && self.store.contains(&reference.id)?)
    }
}

/// What objects are called where they were carried to.
#[derive(Default)]
pub(crate) struct Renamed(HashMap<ObjectId, ObjectId>);

impl Renamed {
    pub(crate) fn insert(&mut self, old: ObjectId, new: ObjectId) {
        self.0.insert(old, new);
    }

    pub(crate) fn now(&self, old: &ObjectId) -> Option<ObjectId> {
        self.0.get(old).copied()
    }

    /// Makes sure that everything an object needs has come before it, and puts the new ids in the place of the old ones.
    pub(crate) fn put_in(
        &self,
        kind: Kind,
        content: &mut [u8],
        above: &dyn References,
    ) -> Result<(), String> {
        let mut changed: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        for reference in reach::references(kind, content, above)? {
            let (old, Some(new)) = (reference.id, self.now(&reference.id)) else {
                if reference.weak {
                    continue;
                }
                return Err(format!("object {} comes after what needs it", reference.id.short()));
            };
            if old != new {
                changed.insert(written(kind, &old), written(kind, &new));
            }
        }
        let Some(len) = changed.keys().next().map(Vec::len) else { return Ok(()) };
        // One pass, however many there are: a long file's list names thousands.
        let mut at = 0;
        while let Some(window) = content.get_mut(at..at + len) {
            match changed.get(window) {
                Some(new) => {
                    window.copy_from_slice(new);
                    at += len;
                }
                None => at += 1,
            }
        }
        Ok(())
    }
}

/// An id as objects of this kind hold it.
fn written(kind: Kind, id: &ObjectId) -> Vec<u8> {
    if kind.0 >= Kind::FIRST_OPAQUE { hex(id.as_bytes()).into_bytes() } else { id.as_bytes().to_vec() }
}
