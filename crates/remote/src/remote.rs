//! A remote that is open, for one store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cas_core::{IdHasher, ObjectId, Store};

use crate::bucket::{Bucket, Changed, Edit, Objects, Patience, probe};
use crate::error::{RemoteError, Result};
use crate::index::{Index, IndexEntry, TailCache};
use crate::refs;
use crate::root::{ROOT, Root};
use crate::token::Token;

/// A remote and the store that uses it.
#[derive(Clone, Debug)]
pub struct Remote {
    pub(crate) bucket: Bucket,
    pub(crate) store: Arc<Store>,
}

/// What a remote holds at one moment.
#[derive(Debug)]
pub struct View {
    pub(crate) root: Root,
    pub(crate) index: Index,
    pub(crate) condemned: HashSet<Token>,
}

/// What a remote is, before a store is at hand that could open it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Introduction {
    /// Whether packs there are encrypted.
    pub sealed: bool,
    /// Whether it was made just now.
    pub created: bool,
}

impl Remote {
    /// Opens a remote that is there.
    pub fn open(objects: Arc<dyn Objects>, store: Arc<Store>, patience: Patience) -> Result<Self> {
        let remote = Self { bucket: Bucket::new(objects, patience), store };
        remote.root()?;
        Ok(remote)
    }

    /// Tries whether the server keeps its word, then opens the remote there, or makes one if there is none.
    pub fn introduce(
        objects: Arc<dyn Objects>,
        store: Arc<Store>,
        patience: Patience,
    ) -> Result<(Self, Introduction)> {
        probe(objects.as_ref())?;
        let remote = Self { bucket: Bucket::new(objects, patience), store };
        let created = match remote.root() {
            Ok(_) => false,
            Err(RemoteError::NotARemote) => {
                let sealed = remote.store.format().encrypted;
                let new = Root::new(&remote.store.domain(), sealed);
                let made = remote.bucket.change::<Root>(remote.hasher(), ROOT, &|| Ok(()), &mut |found| {
                    Ok(if found.is_some() { Edit::Keep } else { Edit::Set(new.clone()) })
                })?;
                remote.root()?;
                matches!(made, Changed::Set(_))
            }
            Err(error) => return Err(error),
        };
        let sealed = remote.store.format().encrypted;
        Ok((remote, Introduction { sealed, created }))
    }

    pub(crate) fn hasher(&self) -> &IdHasher {
        self.store.hasher()
    }

    /// Where every ref is.
    pub fn refs(&self) -> Result<Vec<(String, ObjectId)>> {
        let (refs, mut broken) = refs::list(&self.bucket, self.hasher())?;
        match broken.pop() {
            None => Ok(refs),
            Some(error) => Err(error),
        }
    }

    /// Where one ref is.
    pub fn get_ref(&self, name: &str) -> Result<Option<ObjectId>> {
        refs::get(&self.bucket, self.hasher(), name)
    }

    /// `root`, as it is now.
    pub(crate) fn root(&self) -> Result<Root> {
        Ok(Root::read(&self.bucket, self.hasher())?.body().clone())
    }

    /// What there is now. Reads `root`, and nothing else.
    pub fn view(&self) -> Result<View> {
        let root = self.root()?;
        let index = Index::new(&self.bucket, &root.segments).kept_in(TailCache::of(self.store.root()));
        let condemned = root.condemned_packs();
        Ok(View { root, index, condemned })
    }
}

impl View {
    /// Where these objects are, in packs that can be relied upon.
    pub(crate) fn find_safe(&self, ids: &[ObjectId]) -> Result<HashMap<ObjectId, IndexEntry>> {
        self.index.find(ids, &|pack| !self.condemned.contains(pack))
    }

    /// Where these objects are, in any pack.
    pub fn find(&self, ids: &[ObjectId]) -> Result<HashMap<ObjectId, IndexEntry>> {
        let mut found = self.find_safe(ids)?;
        let rest: Vec<ObjectId> = ids.iter().filter(|id| !found.contains_key(id)).copied().collect();
        if !rest.is_empty() && !self.condemned.is_empty() {
            found.extend(self.index.find(&rest, &|_| true)?);
        }
        Ok(found)
    }
}
